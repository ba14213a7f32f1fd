// What `quickstart.sh --gpu` does around the launches of its cases.
#include "case_makers.h"
#include "fake_case.h"
#include "kiln/dsl/kernels.h"
#include "machine.h"

namespace kiln::quickstart {
namespace {

class QuickstartOnGpu : public test::FakeCase {
 protected:
  Client client_;
  // Not before the fake driver is the process's.
  Machine machine() { return {client_, "cuda:sm_90a", test::open_device()}; }
};

TEST_F(QuickstartOnGpu, ArraysMoveToTheDeviceAndBackAndNumbersStay) {
  const Machine gpu = machine();
  Buffer<float> x = allocate<float>(3);
  for (size_t i = 0; i < 3; ++i) x[i] = static_cast<float>(i);
  std::tuple<Placed<Buffer<float>>, Placed<int32_t>> placed = {{x}, {7}};
  ASSERT_TRUE(for_each_argument(placed, [&](auto& each) { return each.upload(gpu); }).ok());
  float* there = std::get<0>(placed).raw();
  EXPECT_NE(there, x.get());
  EXPECT_EQ(std::get<1>(placed).raw(), 7);
  for (size_t i = 0; i < 3; ++i) there[i] += 10;  // the fake's memory is the host's
  EXPECT_EQ(x[2], 2);
  ASSERT_TRUE(for_each_argument(placed, [](const auto& each) { return each.download(); }).ok());
  EXPECT_EQ(x[2], 12);
}

TEST_F(QuickstartOnGpu, AFullDeviceIsAnErrorAndEndsTheUpload) {
  const Machine gpu = machine();
  fake_fail("cuMemAlloc_v2", 2, 0);
  std::tuple<Placed<Buffer<float>>, Placed<Buffer<float>>> placed = {{allocate<float>(3)}, {allocate<float>(3)}};
  const auto status = for_each_argument(placed, [&](auto& each) { return each.upload(gpu); });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(std::get<1>(placed).there, nullptr);
}

TEST_F(QuickstartOnGpu, LaunchesAreTimedByEvents) {
  const Machine gpu = machine();
  const size_t before = fake_calls("cuEventRecord");
  int launches = 0;
  const auto time = time_ms(gpu, [&]() -> Result<void> { return ++launches, Result<void>(); });
  ASSERT_TRUE(time.ok()) << time.error().message;
  EXPECT_EQ(launches, 1);
  EXPECT_EQ(fake_calls("cuEventRecord") - before, 2u);
  const auto copy = DeviceCopy::create(gpu, true);
  ASSERT_TRUE(copy.ok()) << copy.error().message;
  EXPECT_TRUE(copy->measure(gpu).ok());
}

TEST(QuickstartConfig, WhatAKernelHasDefaultsForOnGpusIsNotTheCpus) {
  const dsl::Kernel& kernel = *kernels::attention().ir();
  const dsl::ConstexprValues config = {{"D", 128}, {"CAUSAL", 1}, {"BM", 16}, {"BN", 16}};
  EXPECT_EQ(config_on("cpu", kernel, config), config);
  EXPECT_EQ(config_on("cuda:sm_90a", kernel, config), (dsl::ConstexprValues{{"D", 128}, {"CAUSAL", 1}}));
}

}  // namespace
}  // namespace kiln::quickstart
