// Plans on a GPU: what is copied where and when, on a fake of the driver that runs host functions as kernels.
#include <gmock/gmock.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "fake_case.h"
#include "graph/hand_plan.h"
#include "kiln/client/graph.h"
#include "kiln/dsl/instantiate.h"

namespace kiln {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

// The arguments of both kernels: three pointers and an i32.
struct Params {
  const float *a, *b;
  float* out;
  int32_t n;
};
Params params_of(const unsigned char* bytes) {
  Params out{};
  std::memcpy(&out, bytes, 28);
  return out;
}

void scale(const unsigned char* bytes, const unsigned[3]) {
  const Params p = params_of(bytes);
  for (int32_t i = 0; i < p.n; ++i) p.out[i] = p.a[i] * p.b[0];
}
void add(const unsigned char* bytes, const unsigned[3]) {
  const Params p = params_of(bytes);
  for (int32_t i = 0; i < p.n; ++i) p.out[i] = p.a[i] + p.b[i];
}

class GraphOnGpu : public test::FakeCase {
 protected:
  void SetUp() override {
    FakeCase::SetUp();
    fake_kernel("kiln_entry", scale);
    fake_kernel("first_stage", add);
    const graph::Plan plan = planned::hand_plan("cuda:sm_90a");
    std::vector<Artifact> artifacts;
    for (const graph::PlannedKernel& kernel : plan.kernels) {
      const bool adds = !artifacts.empty();
      artifacts.push_back(test::artifact_of(kernel.kernel, {{"entry", adds ? "first_stage" : "kiln_entry"}}));
      auto concrete = dsl::instantiate(kernel.kernel, kernel.constexprs, {});
      ASSERT_TRUE(concrete) << concrete.error().message;
      artifacts.back().metadata.grid_expr.assign(concrete->grid.begin(), concrete->grid.end());
    }
    auto loaded = client::load_plan(plan, artifacts);
    ASSERT_TRUE(loaded) << loaded.error().message;
    fn = *loaded;
    std::iota(x.begin(), x.end(), 1.0f);
    std::iota(state.begin(), state.end(), 7.0f);
    for (size_t i = 0; i < x.size(); ++i) {
      next.push_back(state[i] + 2 * x[i]);
      y.push_back(2 * x[i] + next[i]);
    }
  }
  void TearDown() override {
    fn = CompiledGraph();
    FakeCase::TearDown();
  }

  CompiledGraph fn;
  std::vector<float> x = std::vector<float>(12), state = std::vector<float>(12), y, next;
};

TEST_F(GraphOnGpu, HostArraysGoThereAndBack) {
  const long before = fake_live("memory");
  EXPECT_EQ(before, 2);  // constants
  for (int round = 0; round < 3; ++round) {
    auto results = fn({array(x, {3, 4}), array(state, {3, 4})});
    ASSERT_TRUE(results) << results.error().message;
    EXPECT_THAT((*results)[0].as<float>(), ElementsAreArray(y));
    EXPECT_THAT((*results)[1].as<float>(), ElementsAreArray(next));
    EXPECT_THAT((*results)[2].as<float>(), ElementsAreArray(y.end() - 4, y.end()));
    EXPECT_EQ(fake_live("memory"), before + 1);  // the arena, which the next run takes over
  }
  EXPECT_EQ(fake_launches(), 15u);
}

TEST_F(GraphOnGpu, StridedAndDonatedHostArrays) {
  std::vector<float> turned(12);
  for (size_t i = 0; i < 12; ++i) turned[i % 4 * 3 + i / 4] = x[i];
  auto results = fn({array(turned.data(), {3, 4}, {1, 3}), donated(state, {3, 4})});
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_THAT((*results)[0].as<float>(), ElementsAreArray(y));
  EXPECT_EQ((*results)[1].data(), state.data());
  EXPECT_EQ(state, next);
}

TEST_F(GraphOnGpu, ArraysOnTheDeviceStayThere) {
  const Device device = test::open_device();
  const auto filled = [&](const std::vector<float>& from) {
    auto buffer = DeviceBuffer<float>::allocate(device, from.size());
    EXPECT_TRUE(buffer);
    EXPECT_TRUE(buffer->copy_from(from));
    return std::move(*buffer);
  };
  const auto x_there = filled(x), state_there = filled(state);
  const auto y_there = filled(std::vector<float>(12)), last_there = filled(std::vector<float>(4));
  const std::vector<ArrayView> inputs = {array(x_there, {3, 4}), array(state_there, {3, 4})};
  const std::vector<ArrayView> outputs = {donated(y_there, {3, 4}), donated(state_there, {3, 4}),
                                          donated(last_there, {4})};
  auto done = fn.run_into(inputs, outputs);
  ASSERT_TRUE(done) << done.error().message;
  std::vector<float> back(12);
  ASSERT_TRUE(y_there.copy_to(back));
  EXPECT_EQ(back, y);
  ASSERT_TRUE(state_there.copy_to(back));
  EXPECT_EQ(back, next);

  std::vector<ArrayView> strided = inputs;
  strided[0].strides = {1, 3};
  auto refused = fn(strided);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "input `x`: an array on a device is row-major and aligned here");
}

TEST_F(GraphOnGpu, FailuresLeaveNothingBehind) {
  const std::vector<ArrayView> inputs = {array(x, {3, 4}), array(state, {3, 4})};
  ASSERT_TRUE(fn(inputs));
  const long before = fake_live("memory");
  for (int skip = 0; skip < 5; ++skip) {
    fake_fail("cuMemAlloc_v2", 2, skip);
    auto result = fn(inputs);
    ASSERT_FALSE(result) << skip;
    EXPECT_EQ(result.error().code, ErrorCode::kOutOfMemory) << result.error().message;
    EXPECT_EQ(fake_live("memory"), before);
  }
  auto result = fn(inputs);
  ASSERT_TRUE(result) << result.error().message;
}

TEST_F(GraphOnGpu, MemoryOfTheDeviceCountsForTheLimit) {
  const std::vector<ArrayView> inputs = {array(x, {3, 4}), array(state, {3, 4})};
  const auto result = fn(inputs, {.memory_limit = 100});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("128 of arena, 112 of results, 96 of copies of inputs"));
}

}  // namespace
}  // namespace kiln
