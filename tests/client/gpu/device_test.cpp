// Devices, memory, streams, events and graphs, without kernels.
#include <gmock/gmock.h>

#include <numeric>
#include <thread>

#include "fake_case.h"

namespace kiln::test {
namespace {

using testing::HasSubstr;

using Devices = FakeCase;

TEST_F(Devices, AreListedWithoutBeingOpened) {
  fake_set_capability(1, 8, 6);
  auto present = devices("cuda");
  ASSERT_TRUE(present.ok()) << present.error().message;
  ASSERT_EQ(present->size(), 2u);
  EXPECT_EQ((*present)[0].name, "Fake 0");
  EXPECT_EQ((*present)[0].target, "cuda:sm_90a");
  EXPECT_EQ((*present)[0].multiprocessors, 132u);
  EXPECT_EQ((*present)[0].shared_bytes, 232448u);
  EXPECT_EQ((*present)[0].memory_bytes, uint64_t{8} << 30);
  EXPECT_EQ((*present)[1].ordinal, 1);
  EXPECT_EQ((*present)[1].target, "cuda:sm_86");
  EXPECT_EQ(fake_calls("cuDevicePrimaryCtxRetain"), 0u);
}

TEST_F(Devices, AreSharedByAllWhoOpenThem) {
  std::vector<std::thread> threads;
  const Device first = open_device();
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(open_device().state(), first.state()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(open_device(1).state(), first.state());
  EXPECT_EQ(fake_calls("cuDevicePrimaryCtxRetain"), 2u);
}

TEST_F(Devices, ThatAreNotThereAreNamed) {
  EXPECT_EQ(message(Device::open("cuda", 2)), "there is no device cuda:2; the driver sees 2");
  EXPECT_EQ(message(Device::open("cuda", -1)), "there is no device cuda:-1; the driver sees 2");
  EXPECT_EQ(message(Device::open("abacus")), "unknown kind of device `abacus`; there are `cuda`, `amd` and `cpu`");
  fake_fail("cuDeviceGetCount", 100, 0);
  EXPECT_EQ(message(devices("cuda")), "cuDeviceGetCount: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)");
}

using Memory = FakeCase;

TEST_F(Memory, IsCopiedThereAndBack) {
  const Device device = open_device();
  const Stream stream = new_stream(device);
  auto a = DeviceBuffer<int32_t>::allocate(device, 100);
  auto b = DeviceBuffer<int32_t>::allocate(device, 100);
  ASSERT_TRUE(a.ok() && b.ok());
  std::vector<int32_t> there(100), back(100);
  std::iota(there.begin(), there.end(), 1);
  ASSERT_TRUE(a->copy_from(there).ok());
  ASSERT_TRUE(b->fill(0xff, stream).ok());
  ASSERT_TRUE(b->copy_to(back, stream).ok());
  ASSERT_TRUE(stream.synchronise().ok());
  EXPECT_EQ(back, std::vector<int32_t>(100, -1));
  ASSERT_TRUE(b->copy_from(*a, stream).ok());
  ASSERT_TRUE(stream.synchronise().ok());
  ASSERT_TRUE(b->copy_to(back).ok());
  EXPECT_EQ(back, there);
  EXPECT_EQ(fake_live("memory"), 2);
}

TEST_F(Memory, RepeatsItsFirstBytes) {
  const Device device = open_device();
  const Stream stream = new_stream(device);
  auto a = DeviceBuffer<uint8_t>::allocate(device, 20);
  ASSERT_TRUE(a.ok());
  const std::vector<uint8_t> there = {1, 2, 3, 4, 5, 6};
  std::vector<uint8_t> back(20);
  ASSERT_TRUE(a->copy_from(there).ok());
  ASSERT_TRUE(a->memory().repeat(6, stream).ok());
  ASSERT_TRUE(stream.synchronise().ok());
  ASSERT_TRUE(a->copy_to(back).ok());
  for (size_t i = 0; i < back.size(); ++i) EXPECT_EQ(back[i], there[i % 6]) << i;
  EXPECT_FALSE(a->memory().repeat(0, stream).ok());
}

TEST_F(Memory, OfNoElementsIsFine) {
  auto none = DeviceBuffer<double>::allocate(open_device(), 0);
  ASSERT_TRUE(none.ok()) << none.error().message;
  std::vector<double> host;
  EXPECT_TRUE(none->copy_from(host).ok());
  EXPECT_TRUE(none->copy_to(host).ok());
}

TEST_F(Memory, MovesLeaveNothingBehind) {
  auto a = DeviceBuffer<float>::allocate(open_device(), 4);
  ASSERT_TRUE(a.ok());
  float* const data = a->data();
  DeviceBuffer<float> b = std::move(*a);
  EXPECT_EQ(b.data(), data);
  auto c = DeviceBuffer<float>::allocate(open_device(), 8);
  ASSERT_TRUE(c.ok());
  *c = std::move(b);
  EXPECT_EQ(c->data(), data);
  EXPECT_EQ(c->size(), 4u);
  EXPECT_EQ(fake_live("memory"), 1);
}

TEST_F(Memory, CopiesThatDoNotFitAreRefused) {
  auto small = DeviceBuffer<float>::allocate(open_device(), 2);
  ASSERT_TRUE(small.ok());
  std::vector<float> host(3);
  EXPECT_EQ(message(small->copy_from(host)), "a copy of 12 bytes and device memory of 8 bytes");
  EXPECT_EQ(message(small->copy_to(host)), "a copy of 12 bytes and device memory of 8 bytes");
}

TEST_F(Memory, ThatThereIsNotSaysHowMuchAndWhere) {
  const auto none = DeviceMemory::allocate(open_device(1), uint64_t{1} << 40);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(none.error().message,
            "allocating 1099511627776 bytes on cuda:1 (Fake 1): cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY)");
  EXPECT_FALSE(DeviceBuffer<double>::allocate(open_device(), SIZE_MAX / 2).ok());
}

// Kiln neither needs a current context nor disturbs one.
TEST_F(Memory, AThreadsOwnContextIsPutBack) {
  const Device one = open_device(0), two = open_device(1);
  EXPECT_TRUE(DeviceMemory::allocate(one, 8).ok());  // this thread had none and keeps that of cuda:0
  const size_t before = fake_calls("cuCtxSetCurrent");
  EXPECT_TRUE(one.synchronise().ok());
  EXPECT_EQ(fake_calls("cuCtxSetCurrent"), before);
  EXPECT_TRUE(two.synchronise().ok());
  EXPECT_EQ(fake_calls("cuCtxSetCurrent"), before + 2);
  EXPECT_TRUE(one.synchronise().ok());
  EXPECT_EQ(fake_calls("cuCtxSetCurrent"), before + 2);
}

using Events = FakeCase;

TEST_F(Events, TellTheTimeInBetween) {
  const Device device = open_device();
  const Stream stream = new_stream(device);
  const auto from = Event::create(device), to = Event::create(device);
  ASSERT_TRUE(from.ok() && to.ok());
  EXPECT_THAT(message(elapsed_ms(*from, *to)), HasSubstr("taking the time between two events on cuda:0 (Fake 0)"));
  const dsl::Kernel kernel = kernel_of("");
  auto variant = loaded(kernel, artifact_of(kernel));
  ASSERT_TRUE(from->record(stream).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(launch(*variant, kernel, {}, {.stream = &stream}).ok());
  ASSERT_TRUE(to->record(stream).ok());
  ASSERT_TRUE(to->synchronise().ok());
  const auto elapsed = elapsed_ms(*from, *to);
  ASSERT_TRUE(elapsed.ok()) << elapsed.error().message;
  EXPECT_EQ(*elapsed, 3);  // the fake's kernels take a millisecond each
  EXPECT_TRUE(to->hold_back(device.default_stream()).ok());
  EXPECT_EQ(fake_calls("cuStreamWaitEvent"), 1u);
}

using Sticky = FakeCase;

TEST_F(Sticky, ErrorsAreRecognisedAndTheFirstIsRemembered) {
  const Device device = open_device();
  const Stream stream = new_stream(device);
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 2, 3]");
  auto variant = loaded(kernel, artifact_of(kernel));
  ASSERT_TRUE(launch(*variant, kernel, {scalar(7)}, {.stream = &stream}).ok());
  fake_break(0, 700);
  const auto first = stream.synchronise();
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().code, ErrorCode::kUnavailable);
  const std::string what =
      "waiting for a stream on cuda:0 (Fake 0): cuStreamSynchronize: an illegal memory access was encountered "
      "(CUDA_ERROR_ILLEGAL_ADDRESS); the last launch on the stream was kernel `k` (k.kiln:3:3), grid 7×2×3";
  const std::string lost =
      "\nThis process can use the device no more: every call from now on fails, and only a new process helps";
  EXPECT_EQ(first.error().message, what + lost);
  EXPECT_EQ(message(launch(*variant, kernel, {scalar(1)}, {.stream = &stream})),
            "kernel `k` (k.kiln:3:3), grid 1×2×3 of 128 threads, on cuda:0 (Fake 0): cuLaunchKernel: an illegal memory "
            "access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)" +
                lost + ". The first failure was: " + what);
  // The other device is fine.
  EXPECT_TRUE(open_device(1).synchronise().ok());
}

TEST_F(Sticky, AnOrdinaryErrorIsNotTaken) {
  const Device device = open_device();
  fake_fail("cuMemAlloc_v2", 2, 0);
  EXPECT_THAT(message(DeviceMemory::allocate(device, 8)), testing::Not(HasSubstr("no more")));
  EXPECT_TRUE(DeviceMemory::allocate(device, 8).ok());
}

// A call that fails half-way through making something leaves nothing behind; TearDown looks.
TEST_F(Devices, EveryFailureOnTheWayIsAnError) {
  for (const char* call :
       {"cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain"}) {
    fake_fail(call, 999, 0);
    const auto device = Device::open("cuda");
    ASSERT_FALSE(device.ok()) << call;
    EXPECT_EQ(device.error().code, ErrorCode::kUnavailable) << call;
    EXPECT_THAT(device.error().message, HasSubstr("CUDA error 999")) << call;
  }
  const Device device = open_device();
  fake_fail("cuStreamCreate", 999, 0);
  EXPECT_THAT(message(Stream::create(device)), HasSubstr("creating a stream on cuda:0 (Fake 0): cuStreamCreate"));
  fake_fail("cuEventCreate", 999, 0);
  EXPECT_THAT(message(Event::create(device)), HasSubstr("cuEventCreate"));
}

}  // namespace
}  // namespace kiln::test
