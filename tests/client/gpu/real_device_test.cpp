// The same calls on a real driver and device, where there are any: PTX as text, its first load by the driver's
// compiler.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "device_case.h"

namespace kiln::test {
namespace {

// y[i] = i + n for i < n, one block; a failure record behind the parameters; the launch has 100000 shared bytes.
constexpr const char* kPtx = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry kiln_entry(.param .u64 y, .param .u32 n, .param .u64 failure)
{
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [y];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %p, %r2, %r1;
  @%p bra DONE;
  cvta.to.global.u64 %d1, %d1;
  mad.wide.u32 %d2, %r2, 4, %d1;
  add.u32 %r3, %r1, %r2;
  st.global.u32 [%d2], %r3;
  setp.ne.u32 %p, %r1, 77;
  @%p bra DONE;
  ld.param.u64 %d3, [failure];
  cvta.to.global.u64 %d3, %d3;
  mov.u32 %r3, 1;
  st.global.u32 [%d3+4], %r3;
DONE:
  ret;
}
)";

class RealDevice : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("KILN_CUDA_DRIVER");
    if (auto present = devices("cuda"); !present) GTEST_SKIP() << present.error().message;
  }
  const dsl::Kernel kernel = kernel_of("%y: ptr<i32>, %n: i32");
  Artifact artifact() const {
    Artifact out = artifact_of(kernel, {{"target", "cuda:sm_80"},
                                        {"failure_param", 16},
                                        {"device", {{"threads", 128}, {"shared_bytes", 100000}}},
                                        {"checks", {{{"op", "assert"}, {"message", "n is not 77"}}}}});
    const auto* text = reinterpret_cast<const std::byte*>(kPtx);
    out.code.assign(text, text + std::strlen(kPtx));
    return out;
  }
};

TEST_F(RealDevice, LaunchesCopiesRecordsAndReplays) {
  auto variant = loaded(kernel, artifact());
  ASSERT_NE(variant, nullptr);
  const Device device = open_device();
  const Stream stream = new_stream(device);
  auto y = DeviceBuffer<int32_t>::allocate(device, 128);
  const auto from = Event::create(device), to = Event::create(device);
  ASSERT_TRUE(y.ok() && from.ok() && to.ok());
  std::vector<int32_t> host(128), expected(100);
  ASSERT_TRUE(y->fill(0, stream).ok());
  ASSERT_TRUE(from->record(stream).ok());
  EXPECT_EQ(message(launch(*variant, kernel, {y->argument(), scalar(100)}, {.stream = &stream})), "");
  ASSERT_TRUE(to->record(stream).ok());
  ASSERT_TRUE(y->copy_to(host, stream).ok());
  EXPECT_EQ(message(stream.synchronise()), "");
  std::iota(expected.begin(), expected.end(), 100);
  expected.resize(128);
  EXPECT_EQ(host, expected);
  auto elapsed = elapsed_ms(*from, *to);
  ASSERT_TRUE(elapsed.ok()) << elapsed.error().message;
  EXPECT_GT(*elapsed, 0);

  auto graph = Recording::capture(stream, [&]() -> Result<void> {
    if (auto filled = y->fill(0xff, stream); !filled) return filled;
    return launch(*variant, kernel, {y->argument(), scalar(1)}, {.stream = &stream});
  });
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  ASSERT_TRUE(graph->replay(stream).ok());
  ASSERT_TRUE(y->copy_to(host, stream).ok());
  EXPECT_EQ(message(stream.synchronise()), "");
  EXPECT_EQ(host[0], 1);
  EXPECT_EQ(host[1], -1);

  ASSERT_TRUE(launch(*variant, kernel, {y->argument(), scalar(77)}, {.stream = &stream}).ok());
  EXPECT_NE(message(stream.synchronise()).find("n is not 77"), std::string::npos);
  EXPECT_EQ(message(stream.synchronise()), "");
}

// Each from a thread of its own, then the copy of one result into the memory of the other.
TEST_F(RealDevice, SeveralDevicesWorkInOneProcess) {
  const auto present = devices("cuda");
  ASSERT_TRUE(present.ok()) << present.error().message;
  if (present->size() < 2) GTEST_SKIP() << "one device";
  auto variant = loaded(kernel, artifact());
  ASSERT_NE(variant, nullptr);
  std::vector<std::vector<int32_t>> results(2, std::vector<int32_t>(128));
  std::vector<std::thread> threads;
  for (int ordinal : {0, 1}) {
    threads.emplace_back([&, ordinal] {
      const Device device = open_device(ordinal);
      const Stream stream = new_stream(device);
      auto y = DeviceBuffer<int32_t>::allocate(device, 128);
      ASSERT_TRUE(y.ok()) << y.error().message;
      for (int round = 0; round < 100; ++round) {
        const auto done = launch(*variant, kernel, {y->argument(), scalar(101 + ordinal)}, {.stream = &stream});
        ASSERT_EQ(message(done), "");
      }
      ASSERT_TRUE(y->copy_to(results[static_cast<size_t>(ordinal)], stream).ok());
      EXPECT_EQ(message(stream.synchronise()), "");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int32_t ordinal : {0, 1}) {
    const std::vector<int32_t>& result = results[static_cast<size_t>(ordinal)];
    for (int32_t i : {0, 1, 99, 100}) EXPECT_EQ(result[static_cast<size_t>(i)], i + 101 + ordinal);
  }

  const Device one = open_device(0), two = open_device(1);
  auto from = DeviceBuffer<int32_t>::allocate(one, 128), to = DeviceBuffer<int32_t>::allocate(two, 128);
  ASSERT_TRUE(from.ok() && to.ok());
  ASSERT_TRUE(from->copy_from(results[0]).ok());
  const Stream stream = new_stream(two);
  EXPECT_EQ(message(to->copy_from(*from, stream)), "");
  EXPECT_EQ(message(stream.synchronise()), "");
  ASSERT_TRUE(to->copy_to(results[1]).ok());
  EXPECT_EQ(results[1], results[0]);
}

TEST_F(RealDevice, BadPtxIsAnErrorWithTheLog) {
  Artifact broken = artifact();
  const std::string_view text = ".version 7.0\n.target sm_80\n.address_size 64\nnonsense\n";
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  broken.code.assign(bytes, bytes + text.size());
  EXPECT_NE(message(load(kernel, broken)).find("line 4"), std::string::npos) << message(load(kernel, broken));
}

}  // namespace
}  // namespace kiln::test
