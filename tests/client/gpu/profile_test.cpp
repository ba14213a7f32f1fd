// Profiles of GPUs: launches on the host and, by events around them, on the device.
#include "kiln/client/profile.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "fake_case.h"

namespace kiln::test {
namespace {

using profile::Kind;
using profile::Span;

class GpuProfiles : public FakeCase {
 protected:
  void TearDown() override {
    (void)profile::stop();
    FakeCase::TearDown();
  }
  // Spans of so many launches of a kernel `test` on a stream, or on the default one.
  std::vector<Span> of_launches(int launches, const Stream* stream, const profile::Options& options) {
    const dsl::Kernel kernel = kernel_of("");
    auto variant = loaded(kernel, artifact_of(kernel));
    EXPECT_TRUE(profile::start(options).ok());
    for (int i = 0; i < launches; ++i) EXPECT_TRUE(launch(*variant, kernel, {}, {.stream = stream}).ok());
    auto out = profile::stop();
    EXPECT_TRUE(out.ok());
    return out ? out->spans : std::vector<Span>();
  }
  static std::vector<Span> done_of(const std::vector<Span>& spans) {
    std::vector<Span> out;
    std::ranges::copy_if(spans, std::back_inserter(out), &Span::on_device);
    return out;
  }
};

TEST_F(GpuProfiles, HaveLaunchesOnTheHostAlone) {
  const std::vector<Span> spans = of_launches(3, nullptr, {});
  ASSERT_EQ(spans.size(), 3u);
  for (const Span& span : spans) {
    EXPECT_EQ(span.kind, Kind::kLaunch);
    EXPECT_EQ(span.device, "cuda:0");
    EXPECT_EQ(span.flow, 0u);
    EXPECT_FALSE(span.on_device);
  }
  EXPECT_EQ(fake_calls("cuEventCreate"), 0u);
}

// The fake's kernels take a millisecond each, one after the other.
TEST_F(GpuProfiles, HaveTheDevicesTimesWhereAsked) {
  const Device device = open_device();
  const Stream stream = new_stream(device);
  const std::vector<Span> spans = of_launches(3, &stream, {.device_times = true});
  const std::vector<Span> done = done_of(spans);
  ASSERT_EQ(done.size(), 3u);
  for (size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].end_ns - done[i].begin_ns, 1'000'000);
    EXPECT_EQ(done[i].begin_ns - done[0].begin_ns, static_cast<int64_t>(i) * 1'000'000);
    EXPECT_EQ(done[i].track, reinterpret_cast<uint64_t>(stream.native()));
    EXPECT_EQ(done[i].device, "cuda:0");
    EXPECT_EQ(std::ranges::count(spans, done[i].flow, &Span::flow), 2);
  }
}

// Of more launches than events are kept for, too.
TEST_F(GpuProfiles, HaveThemOfManyLaunches) {
  EXPECT_EQ(done_of(of_launches(10'000, nullptr, {.device_times = true})).size(), 10'000u);
}

// A launch that is recorded runs later; events in between would be in the graph. Its replay has the time of all.
TEST_F(GpuProfiles, TimeNoLaunchThatIsRecorded) {
  const Device device = open_device();
  const Stream stream = new_stream(device);
  const dsl::Kernel kernel = kernel_of("");
  auto variant = loaded(kernel, artifact_of(kernel));
  ASSERT_TRUE(profile::start({.device_times = true}).ok());
  {
    auto recording = Recording::capture(stream, [&] { return launch(*variant, kernel, {}, {.stream = &stream}); });
    ASSERT_TRUE(recording.ok()) << recording.error().message;
    ASSERT_TRUE(recording->replay(stream).ok());
  }
  auto profile = profile::stop();
  ASSERT_TRUE(profile.ok());
  const std::vector<Span> done = done_of(profile->spans);
  ASSERT_EQ(done.size(), 1u) << "the replay alone";
  EXPECT_EQ(done[0].kind, Kind::kReplay);
  EXPECT_EQ(std::ranges::count(profile->spans, Kind::kReplay, &Span::kind), 2);
}

// Of copies and fills on any stream; on processors the call itself is the copy.
TEST_F(GpuProfiles, HaveTheTimesOfCopies) {
  const Device device = open_device();
  const Stream stream = new_stream(device);
  std::vector<std::byte> host(4096);
  ASSERT_TRUE(profile::start({.device_times = true}).ok());
  for (const Device& each : {device, *Device::open("cpu")}) {
    const auto memory = DeviceMemory::allocate(each, host.size());
    ASSERT_TRUE(memory.ok());
    ASSERT_TRUE(memory->copy_from(host).ok());
    ASSERT_TRUE(memory->fill(3, each.default_stream()).ok());
  }
  const auto memory = DeviceMemory::allocate(device, host.size());
  ASSERT_TRUE(memory->copy_to(host, stream).ok());
  auto profile = profile::stop();
  ASSERT_TRUE(profile.ok());
  std::vector<Span> done = done_of(profile->spans);
  ASSERT_EQ(done.size(), 3u);
  for (const Span& span : done) {
    EXPECT_EQ(span.device, "cuda:0");
    EXPECT_EQ(span.bytes, host.size());
    EXPECT_EQ(std::ranges::count(profile->spans, span.flow, &Span::flow), 2);
  }
  EXPECT_EQ(std::ranges::count(done, Kind::kFill, &Span::kind), 1);
  EXPECT_EQ(std::ranges::count(done, reinterpret_cast<uint64_t>(stream.native()), &Span::track), 1);
}

// A driver without events to give takes nothing from the launch.
TEST_F(GpuProfiles, DoWithoutEvents) {
  for (const char* call : {"cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime"}) {
    fake_reset(2);
    fake_fail(call, 2, 1);  // out of memory
    const std::vector<Span> spans = of_launches(2, nullptr, {.device_times = true});
    EXPECT_EQ(std::ranges::count(spans, false, &Span::on_device), 2) << call;
    EXPECT_LE(done_of(spans).size(), 2u) << call;
    EXPECT_EQ(fake_launches(), 2u) << call;
  }
}

}  // namespace
}  // namespace kiln::test
