// The processors of this machine as a device: streams, events, memory and recordings, with kernels in the interpreter.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <latch>
#include <numeric>
#include <thread>

#include "kiln/client/client.h"
#include "kiln/client/gpu.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

using dsl::lang::i32;
using dsl::lang::Ptr;
using testing::HasSubstr;

Device open_cpu() {
  auto device = Device::open("cpu");
  if (!device) ADD_FAILURE() << device.error().message;
  return std::move(*device);
}

Stream new_stream(const StreamOptions& options = {}) {
  auto stream = Stream::create(open_cpu(), options);
  if (!stream) ADD_FAILURE() << stream.error().message;
  return std::move(*stream);
}

Event new_event() {
  auto event = Event::create(open_cpu());
  if (!event) ADD_FAILURE() << event.error().message;
  return std::move(*event);
}

template <class T>
std::string message(const Result<T>& result) {
  return result ? "" : result.error().message;
}

// x[0] = x[0]·10 + n, and it fails where n is below 0.
auto append() {
  return dsl::lang::kernel("append", {"x", "n"},
                           [](Ptr<i32> x, i32 n) {
                             dsl::lang::check(n >= 0, "n is a digit");
                             dsl::lang::store(x, dsl::lang::load(x) * 10 + n);
                           })
      .debug();
}

class CpuStreams : public testing::Test {
 protected:
  CpuStreams() {
    auto got = client_.get(append(), {.target = "interp"});
    if (!got) ADD_FAILURE() << got.error().message;
    if (got) append_ = *got;
  }
  Client client_;
  Function<Ptr<i32>, i32> append_;
};

TEST(CpuDevice, IsListedAndOpened) {
  auto present = devices("cpu");
  ASSERT_TRUE(present.ok()) << present.error().message;
  ASSERT_EQ(present->size(), 1u);
  EXPECT_EQ(present->front().kind, "cpu");
  EXPECT_EQ(present->front().target, "cpu");
  EXPECT_GT(present->front().multiprocessors, 0u);
  EXPECT_GT(present->front().memory_bytes, 0u);
  EXPECT_EQ(open_cpu().state(), open_cpu().state());
  EXPECT_EQ(message(Device::open("cpu", 1)), "there is no device cpu:1; all processors are cpu:0");
}

TEST_F(CpuStreams, RunInOrder) {
  const Stream stream = new_stream();
  std::vector<int32_t> x = {0};
  for (int32_t n = 1; n <= 9; ++n) ASSERT_TRUE(append_.launch({.stream = &stream}, x, n).ok());
  ASSERT_TRUE(stream.synchronise().ok());
  EXPECT_EQ(x[0], 123456789);
}

TEST_F(CpuStreams, TheDefaultOneIsTheCaller) {
  const Stream stream = open_cpu().default_stream();
  std::vector<int32_t> x = {0};
  ASSERT_TRUE(append_.launch({.stream = &stream}, x, 7).ok());
  EXPECT_EQ(x[0], 7);
  EXPECT_FALSE(append_.launch({.stream = &stream}, x, -1).ok());
  EXPECT_TRUE(stream.synchronise().ok());
}

TEST_F(CpuStreams, WaitForEachOthersEvents) {
  for (int round = 0; round < 100; ++round) {
    const Stream one = new_stream(), two = new_stream();
    const Event first = new_event(), second = new_event();
    std::vector<int32_t> x = {0};
    ASSERT_TRUE(append_.launch({.stream = &one}, x, 1).ok());
    ASSERT_TRUE(first.record(one).ok());
    ASSERT_TRUE(first.hold_back(two).ok());
    ASSERT_TRUE(append_.launch({.stream = &two}, x, 2).ok());
    ASSERT_TRUE(second.record(two).ok());
    ASSERT_TRUE(second.hold_back(one).ok());
    ASSERT_TRUE(append_.launch({.stream = &one}, x, 3).ok());
    ASSERT_TRUE(one.synchronise().ok());
    EXPECT_EQ(x[0], 123);
  }
}

TEST_F(CpuStreams, EventsAreDoneInTheirTime) {
  const Stream stream = new_stream(), gate = new_stream();
  const Event open = new_event(), before = new_event(), after = new_event();
  EXPECT_TRUE(*before.is_done());
  EXPECT_THAT(message(elapsed_ms(before, after)), HasSubstr("has no time"));
  std::latch go(1);
  // The gate is a print that waits.
  auto waits = client_.get(dsl::lang::kernel("waits", {}, [] { dsl::lang::print("here"); }), {.target = "interp"});
  ASSERT_TRUE(waits.ok()) << message(waits);
  ASSERT_TRUE(waits->launch({.print = [&](const dsl::PrintRecord&) { go.wait(); }, .stream = &gate}).ok());
  ASSERT_TRUE(open.record(gate).ok());
  ASSERT_TRUE(before.record(stream).ok());
  ASSERT_TRUE(open.hold_back(stream).ok());
  ASSERT_TRUE(after.record(stream).ok());
  ASSERT_TRUE(before.synchronise().ok());
  EXPECT_TRUE(*before.is_done());
  EXPECT_FALSE(*after.is_done());
  EXPECT_FALSE(*open.is_done());
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  go.count_down();
  ASSERT_TRUE(after.synchronise().ok());
  EXPECT_TRUE(*open.is_done());
  auto elapsed = elapsed_ms(before, after);
  ASSERT_TRUE(elapsed.ok()) << message(elapsed);
  EXPECT_GE(*elapsed, 2.0f);
}

TEST_F(CpuStreams, AFailureIsOfWhoWaits) {
  const Stream stream = new_stream();
  const Event event = new_event();
  std::vector<int32_t> x = {0};
  ASSERT_TRUE(append_.launch({.stream = &stream}, x, 1).ok());
  ASSERT_TRUE(append_.launch({.stream = &stream}, x, -1).ok());
  ASSERT_TRUE(append_.launch({.stream = &stream}, x, 2).ok());  // left out
  ASSERT_TRUE(event.record(stream).ok());
  EXPECT_TRUE(event.synchronise().ok());
  const std::string failed = message(stream.synchronise());
  EXPECT_THAT(failed, HasSubstr("waiting for a stream on cpu:0"));
  EXPECT_THAT(failed, HasSubstr("n is a digit"));
  EXPECT_EQ(x[0], 1);
  EXPECT_TRUE(stream.synchronise().ok());  // said once
  ASSERT_TRUE(append_.launch({.stream = &stream}, x, 3).ok());
  EXPECT_TRUE(stream.synchronise().ok());
  EXPECT_EQ(x[0], 13);
}

TEST_F(CpuStreams, WhatRunsOnOneCannotWaitForIt) {
  const Stream stream = new_stream();
  auto prints = client_.get(dsl::lang::kernel("prints", {}, [] { dsl::lang::print("here"); }), {.target = "interp"});
  ASSERT_TRUE(prints.ok());
  std::string said;
  ASSERT_TRUE(
      prints
          ->launch({.print = [&](const dsl::PrintRecord&) { said = message(stream.synchronise()); }, .stream = &stream})
          .ok());
  ASSERT_TRUE(stream.synchronise().ok());
  EXPECT_THAT(said, HasSubstr("cannot wait for that stream"));
}

TEST_F(CpuStreams, HandlesMayGoWhileTheyRun) {
  std::vector<int32_t> x = {0};
  for (int round = 0; round < 50; ++round) {
    Client client;
    auto fn = client.get(append(), {.target = "interp"});
    ASSERT_TRUE(fn.ok());
    const Stream stream = new_stream();
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(fn->launch({.stream = &stream}, x, 0).ok());
    *fn = {};
  }  // the stream goes, and waits for what it has
  EXPECT_EQ(x[0], 0);
}

TEST_F(CpuStreams, AreOfTheirDevice) {
  int something = 0;
  const Stream stranger = Stream::wrap(open_cpu(), &something);
  std::vector<int32_t> x = {0};
  EXPECT_THAT(message(append_.launch({.stream = &stranger}, x, 1)), HasSubstr("no streams of other libraries"));
  const Stream stream = new_stream();
  const Stream same = Stream::wrap(open_cpu(), stream.native());
  ASSERT_TRUE(append_.launch({.stream = &same}, x, 1).ok());
  ASSERT_TRUE(stream.synchronise().ok());
  EXPECT_EQ(x[0], 1);
}

TEST_F(CpuStreams, RunOnTheirProcessors) {
  auto parts = split_cores(static_cast<int>(open_cpu().info().multiprocessors));
  ASSERT_TRUE(parts.ok()) << message(parts);
  std::vector<int> all;
  for (const auto& part : *parts) {
    ASSERT_EQ(part.size(), 1u);
    all.push_back(part[0]);
    const Stream stream = new_stream({.cores = part});
    auto where = client_.get(dsl::lang::kernel("where", {}, [] { dsl::lang::print("here"); }), {.target = "interp"});
    ASSERT_TRUE(where.ok());
    int core = -1;
    ASSERT_TRUE(
        where->launch({.print = [&](const dsl::PrintRecord&) { core = ::sched_getcpu(); }, .stream = &stream}).ok());
    ASSERT_TRUE(stream.synchronise().ok());
    EXPECT_EQ(core, part[0]);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
  EXPECT_THAT(message(split_cores(0)), HasSubstr("do not make 0 parts"));
  EXPECT_THAT(message(split_cores(1 << 20)), HasSubstr("do not make 1048576 parts"));
  EXPECT_THAT(message(Stream::create(open_cpu(), {.cores = {all[0], all[0]}})), HasSubstr("is named twice"));
  EXPECT_THAT(message(Stream::create(open_cpu(), {.cores = {4095}})), HasSubstr("may not run on processor 4095"));
}

TEST_F(CpuStreams, AreRecordedAndReplayed) {
  const Stream stream = new_stream();
  std::vector<int32_t> x = {0};
  auto recording = Recording::capture(stream, [&]() -> Result<void> {
    for (int32_t n = 1; n <= 3; ++n) {
      if (auto queued = append_.launch({.stream = &stream}, x, n); !queued) return queued;
    }
    EXPECT_THAT(message(stream.synchronise()), HasSubstr("captured"));
    return {};
  });
  ASSERT_TRUE(recording.ok()) << message(recording);
  EXPECT_EQ(x[0], 0);
  ASSERT_TRUE(recording->replay(stream).ok());
  ASSERT_TRUE(stream.synchronise().ok());             // nothing else orders work of two streams
  ASSERT_TRUE(recording->replay(new_stream()).ok());  // waits as it goes
  ASSERT_TRUE(recording->replay(open_cpu().default_stream()).ok());
  EXPECT_EQ(x[0], 123123123);
  auto failed = Recording::capture(stream, [] { return Result<void>(invalid_argument("no")); });
  EXPECT_EQ(message(failed), "no");
  EXPECT_TRUE(stream.synchronise().ok());  // it is captured no more
  EXPECT_THAT(message(Recording::capture(open_cpu().default_stream(), [] { return Result<void>(); })),
              HasSubstr("cannot be captured"));
}

TEST(CpuMemory, IsCopiedInTheStreamsOrder) {
  const Device device = open_cpu();
  const Stream stream = new_stream();
  auto a = DeviceBuffer<int32_t>::allocate(device, 1000);
  auto b = DeviceBuffer<int32_t>::allocate(device, 1000);
  ASSERT_TRUE(a.ok() && b.ok());
  std::vector<int32_t> there(1000), back(1000);
  std::iota(there.begin(), there.end(), 1);
  ASSERT_TRUE(a->copy_from(there, stream).ok());
  ASSERT_TRUE(b->copy_from(*a, stream).ok());
  ASSERT_TRUE(b->copy_to(back, stream).ok());
  ASSERT_TRUE(a->fill(0xff, stream).ok());
  ASSERT_TRUE(stream.synchronise().ok());
  EXPECT_EQ(back, there);
  EXPECT_EQ(a->data()[999], -1);
  EXPECT_FALSE(a->copy_from(std::vector<int32_t>(1001)).ok());
  EXPECT_EQ(message(DeviceMemory::allocate(device, uint64_t{1} << 60)).substr(0, 10), "allocating");
}

TEST(CpuMemory, IsFreeOnlyBehindItsWork) {
  const Stream stream = new_stream();
  std::vector<int32_t> there(1 << 16, 5), back(1 << 16);
  for (int round = 0; round < 20; ++round) {
    auto buffer = DeviceBuffer<int32_t>::allocate(open_cpu(), there.size());
    ASSERT_TRUE(buffer.ok());
    ASSERT_TRUE(buffer->copy_from(there, stream).ok());
    ASSERT_TRUE(buffer->copy_to(back, stream).ok());
  }
  ASSERT_TRUE(open_cpu().synchronise().ok());
  EXPECT_EQ(back, there);
}

TEST_F(CpuStreams, OfAParentAreNotTheChilds) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer allows the child of a process with threads none of its own";
#endif
  const Stream stream = new_stream();
  std::vector<int32_t> x = {0};
  ASSERT_TRUE(append_.launch({.stream = &stream}, x, 1).ok());
  ASSERT_TRUE(stream.synchronise().ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool told = message(stream.synchronise()).find("before fork()") != std::string::npos &&
                      message(append_.launch({.stream = &stream}, x, 2)).find("before fork()") != std::string::npos;
    auto device = Device::open("cpu");
    auto mine = device ? Stream::create(*device) : device.error();
    const bool ran = mine && append_.launch({.stream = &*mine}, x, 3).ok() && mine->synchronise().ok() && x[0] == 13;
    ::_exit(told && ran ? 0 : told ? 1 : 2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
}

}  // namespace
}  // namespace kiln::test
