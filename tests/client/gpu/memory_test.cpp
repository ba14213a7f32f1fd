// How much memory of a device this process has, for whom, and its limits: on the fake driver and on processors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "fake_case.h"
#include "gpu/device_state.h"

namespace kiln {
namespace {

using testing::HasSubstr;

class MemoryOfDevice : public test::FakeCase, public testing::WithParamInterface<const char*> {};

Result<DeviceMemory> allocate(const Device& device, uint64_t bytes, const char* holder = "arrays") {
  return DeviceMemory::allocate(device, bytes, holder);
}

// So many bytes as a fraction of all.
double fraction_of(const Device& device, uint64_t bytes) {
  return (static_cast<double>(bytes) + 0.5) / static_cast<double>(device.info().memory_bytes);
}

TEST_P(MemoryOfDevice, IsCounted) {
  const auto device = Device::open(GetParam());
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(device->memory_use().bytes, 0u);
  {
    const auto x = allocate(*device, 1000), y = allocate(*device, 500), other = allocate(*device, 2000, "weights");
    ASSERT_TRUE(x && y && other);
    const MemoryUse use = device->memory_use();
    EXPECT_EQ(use.bytes, 3500u);
    EXPECT_EQ(use.pieces, 3u);
    ASSERT_EQ(use.holders.size(), 2u);
    EXPECT_EQ(use.holders[0].name, "weights");
    EXPECT_EQ(use.holders[1].bytes, 1500u);
    EXPECT_EQ(use.holders[1].pieces, 2u);
  }
  EXPECT_EQ(device->memory_use().bytes, 0u);
  EXPECT_TRUE(device->memory_use().holders.empty());
  EXPECT_EQ(device->memory_use().peak_bytes, 3500u);
  device->forget_memory_peak();
  EXPECT_EQ(device->memory_use().peak_bytes, 0u);
}

TEST_P(MemoryOfDevice, HasALimit) {
  const auto device = Device::open(GetParam());
  ASSERT_TRUE(device) << device.error().message;
  ASSERT_TRUE(device->set_memory_fraction(fraction_of(*device, 1 << 20)));
  const uint64_t limit = device->memory_use().hard_limit;
  EXPECT_NEAR(static_cast<double>(limit), 1 << 20, 16);
  std::vector<DeviceMemory> kept;
  for (const auto& [bytes, holder] : {std::pair(100'000, "a"), {400'000, "b"}, {50'000, "c"}, {300'000, "d"}}) {
    auto memory = allocate(*device, static_cast<uint64_t>(bytes), holder);
    ASSERT_TRUE(memory);
    kept.push_back(std::move(*memory));
  }
  const auto more = allocate(*device, 300'000, "e");
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(more.error().message, HasSubstr("the limit of this process is " + std::to_string(limit) +
                                              " bytes, and 300000 more for e would pass it; Kiln has 850000 bytes of "
                                              "it: 400000 in 1 piece for b, 300000 in 1 piece for d, 100000 in 1 "
                                              "piece for a, …"));
  EXPECT_EQ(device->memory_use().bytes, 850'000u);
  kept.clear();
  EXPECT_TRUE(allocate(*device, 300'000));
  ASSERT_TRUE(device->set_memory_fraction(0));
  EXPECT_TRUE(allocate(*device, 2 << 20));
  for (const double wrong : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(device->set_memory_fraction(wrong).error().message, HasSubstr("from 0 to 1"));
    EXPECT_THAT(device->set_memory_fraction(1, wrong).error().message, HasSubstr("from 0 to 1"));
  }
}

TEST_P(MemoryOfDevice, IsCountedByThreads) {
  const auto device = Device::open(GetParam());
  ASSERT_TRUE(device) << device.error().message;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) EXPECT_TRUE(allocate(*device, 64, "threads"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device->memory_use().bytes, 0u);
  EXPECT_LE(device->memory_use().peak_bytes, 256u);
}

TEST_P(MemoryOfDevice, IsTakenAgainInTheOrderOfAStream) {
  const auto device = Device::open(GetParam());
  ASSERT_TRUE(device) << device.error().message;
  const auto stream = Stream::create(*device), other = Stream::create(*device);
  ASSERT_TRUE(stream && other);
  const auto address_of_next = [](const Stream& on, uint64_t bytes) {
    const auto memory = DeviceMemory::allocate(on, bytes);
    EXPECT_TRUE(memory) << memory.error().message;
    EXPECT_EQ(memory->bytes(), bytes);
    return memory->data();
  };
  void* const first = address_of_next(*stream, 2000);
  MemoryUse use = device->memory_use();
  EXPECT_EQ(use.bytes, 2048u);
  ASSERT_EQ(use.holders.size(), 1u);
  EXPECT_EQ(use.holders[0].name, "what waits for a stream");
  EXPECT_EQ(address_of_next(*stream, 1200), first) << "in order";
  EXPECT_EQ(device->memory_use().pieces, 1u);
  EXPECT_NE(address_of_next(*other, 2000), first) << "of another stream, whose work is in no order with it";
  EXPECT_NE(address_of_next(*stream, 0), first) << "a piece that is much too large";
  const auto one = DeviceMemory::allocate(*stream, 2000), two = DeviceMemory::allocate(*stream, 2000);
  ASSERT_TRUE(one && two);
  EXPECT_NE(one->data(), two->data()) << "what is used is nobody else's";
  use = device->memory_use();
  EXPECT_EQ(use.bytes, 3 * 2048u + 512u);
  EXPECT_EQ(device->give_back_caches(), 2048u + 512u);
  EXPECT_EQ(device->memory_use().bytes, 2 * 2048u);
}

// What waits counts, and goes before an allocation is refused.
TEST_P(MemoryOfDevice, ThatWaitsForAStreamIsGivenBack) {
  const auto device = Device::open(GetParam());
  ASSERT_TRUE(device) << device.error().message;
  const auto stream = Stream::create(*device);
  ASSERT_TRUE(stream);
  ASSERT_TRUE(device->set_memory_fraction(fraction_of(*device, 1 << 20)));
  ASSERT_TRUE(DeviceMemory::allocate(*stream, 900'000));
  EXPECT_EQ(device->memory_use().pieces, 1u);
  EXPECT_TRUE(allocate(*device, 900'000));
  EXPECT_EQ(device->memory_use().bytes, 0u);
  const auto refused = DeviceMemory::allocate(*stream, 2 << 20);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  ASSERT_TRUE(device->set_memory_fraction(0));
}

// It outlives the stream, and the stream's end gives back what waits.
TEST_P(MemoryOfDevice, OfAStreamMayOutliveIt) {
  const auto device = Device::open(GetParam());
  ASSERT_TRUE(device) << device.error().message;
  std::optional<DeviceMemory> memory;
  {
    const auto stream = Stream::create(*device);
    ASSERT_TRUE(stream);
    ASSERT_TRUE(DeviceMemory::allocate(*stream, 5000));
    auto last = DeviceMemory::allocate(*stream, 100);
    ASSERT_TRUE(last);
    memory = std::move(*last);
  }
  EXPECT_EQ(device->memory_use().bytes, 5120u + 512u);
  memory.reset();
  EXPECT_EQ(device->memory_use().bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, MemoryOfDevice, testing::Values("cuda", "cpu"));

// To free memory is to wait for the device: a capture would not survive it.
TEST_F(MemoryOfDevice, OfAStreamIsRefusedWhileItIsCaptured) {
  const Device device = test::open_device();
  const Stream stream = test::new_stream(device);
  const auto recording =
      Recording::capture(stream, [&]() -> Result<void> { return DeviceMemory::allocate(stream, 100).error(); });
  ASSERT_FALSE(recording);
  EXPECT_THAT(recording.error().message, HasSubstr("allocating 100 bytes on a stream of cuda:0 that is captured"));
}

TEST_F(MemoryOfDevice, IsNotGivenBackWhileAStreamIsCaptured) {
  const auto device = Device::open("cuda");
  ASSERT_TRUE(device) << device.error().message;
  int asked = 0;
  const client::gpu::MemoryBook::Cache cache(device->state()->driver->memory(), [&] {
    ++asked;
    return uint64_t{8};
  });
  ASSERT_TRUE(device->set_memory_fraction(0, 1 / static_cast<double>(device->info().memory_bytes)));
  std::vector<DeviceMemory> kept;
  const auto work = [&]() -> Result<void> {
    auto memory = allocate(*device, 64);
    if (!memory) return memory.error();
    kept.push_back(std::move(*memory));
    return {};
  };
  const auto stream = Stream::create(*device);
  ASSERT_TRUE(stream);
  EXPECT_TRUE(Recording::capture(*stream, work));
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(work());
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(device->give_back_caches(), 8u);
}

// A hundred thousand, of which the driver refuses some: none is left, and each refusal says who has what.
TEST_F(MemoryOfDevice, IsNotLostWhereTheDriverRefuses) {
  const auto device = Device::open("cuda");
  ASSERT_TRUE(device) << device.error().message;
  const auto kept = allocate(*device, 4096, "weights");
  ASSERT_TRUE(kept);
  size_t refused = 0;
  for (int i = 0; i < 100'000; ++i) {
    if (i % 97 == 0) fake_fail("cuMemAlloc_v2", 2, 0);
    const auto memory = allocate(*device, static_cast<uint64_t>(i));
    if (memory) continue;
    ++refused;
    ASSERT_THAT(memory.error().message, HasSubstr("out of memory"));
    ASSERT_THAT(memory.error().message, HasSubstr("; Kiln has 4096 bytes of it: 4096 in 1 piece for weights"));
  }
  EXPECT_EQ(refused, 1031u);
  EXPECT_EQ(device->memory_use().bytes, 4096u);
  EXPECT_EQ(fake_live("memory"), 1);
}

}  // namespace
}  // namespace kiln
