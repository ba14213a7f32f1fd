#include "gpu/layout/reduction.h"

#include <gtest/gtest.h>

#include <map>

#include "execute.h"
#include "gpu/layout/algebra.h"
#include "gpu/layout/fragments.h"
#include "random_layout.h"

namespace kiln::codegen::gpu {
namespace {

Value value_of(Bits element) { return (element + 1) * 0x9e3779b97f4a7c15; }

// The sums along the axis, of each element of the slice.
std::map<std::vector<int64_t>, Value> sums(const Layout& layout, int axis) {
  std::map<std::vector<int64_t>, Value> out;
  for (Bits element = 0; element < Bits{1} << layout.element_bits(); ++element) {
    std::vector<int64_t> at = layout.coordinates(element);
    at.erase(at.begin() + axis);
    out[at] += value_of(element);
  }
  return out;
}

ReductionPlan checked(const Layout& layout, int axis, int element_bits = 32) {
  const Result<ReductionPlan> plan = plan_reduction(layout, axis);
  EXPECT_TRUE(plan.ok());
  const std::map<std::vector<int64_t>, Value> expected = sums(layout, axis);
  const Threads result = execute(*plan, spread(layout, value_of), element_bits, {});
  EXPECT_EQ(result, spread(plan->result, [&](Bits element) { return expected.at(plan->result.coordinates(element)); }))
      << to_string(layout) << " along " << axis;
  EXPECT_EQ(plan->result, without_copies_in_registers(slice(layout, axis)).layout);
  return *plan;
}

TEST(Reduction, RandomLayouts) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const Layout layout = random_layout(random, random_shape(random, pick(random, 0, 10)),
                                        {.lane_bits = round % 5 == 0 ? 6 : 5,
                                         .warp_bits = pick(random, 0, 2),
                                         .free_bits = pick(random, 0, 2),
                                         .swizzled = round % 2 == 0});
    checked(layout, pick(random, 0, layout.rank() - 1));
  }
}

// Rows of an accumulator: in the thread, then over a quad.
TEST(Reduction, RowsOfAnAccumulatorTakeTwoShuffles) {
  const ReductionPlan plan = checked(wgmma_accumulator(64), 1);
  EXPECT_EQ(plan.in_thread, (Columns{1, 4, 8, 16}));
  ASSERT_EQ(plan.shuffles.size(), 2u);
  EXPECT_EQ(plan.shuffles[0].lane, Bits{1});
  EXPECT_EQ(plan.shuffles[1].lane, Bits{2});
  EXPECT_EQ(plan.partial.shape().back(), 1);
  EXPECT_EQ(to_string(plan.result), "[64]: register=[(8)] lane=[(0), (0), (1), (2), (4)] warp=[(16), (32)]");
}

TEST(Reduction, ColumnsOfAnAccumulatorGoThroughWarps) {
  const ReductionPlan plan = checked(wgmma_accumulator(64), 0);
  EXPECT_EQ(plan.in_thread, (Columns{2}));
  EXPECT_EQ(plan.shuffles.size(), 3u);
  EXPECT_EQ(plan.partial.shape(), (std::vector<int64_t>{64, 4}));
  EXPECT_EQ(plan.gathered.bits(Dim::kRegister), plan.result.bits(Dim::kRegister) + 2);
}

// Copies in lanes and warps are counted once.
TEST(Reduction, CopiesAreCountedOnce) {
  const Layout layout = blocked({4, 8}, {1, 2}, {8, 4}, {2, 2}, {1, 0});
  ASSERT_NE(layout.free_mask(Dim::kLane), 0u);
  ASSERT_NE(layout.free_mask(Dim::kWarp), 0u);
  checked(layout, 0);
  checked(layout, 1);
}

TEST(Reduction, OperandsOfGfx11HaveEverythingTwice) {
  checked(wmma_gfx11_a(32), 0);
  const ReductionPlan plan = checked(wmma_gfx11_a(64), 1);
  EXPECT_TRUE(plan.shuffles.empty());
}

TEST(Reduction, RefusesAxesSplitOverBlocks) {
  const Layout layout = product(identity(2, 1, Dim::kBlock, 2), identity(2, 0, Dim::kLane, 32));
  EXPECT_TRUE(plan_reduction(layout, 0).ok());
  EXPECT_NE(plan_reduction(layout, 1).error().message.find("axis 1"), std::string::npos);
}

}  // namespace
}  // namespace kiln::codegen::gpu
