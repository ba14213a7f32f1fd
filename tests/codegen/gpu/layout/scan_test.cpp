#include "gpu/layout/scan.h"

#include <gtest/gtest.h>

#include <bit>

#include "execute.h"
#include "gpu/layout/algebra.h"
#include "random_layout.h"

namespace kiln::codegen::gpu {
namespace {

// x → a·x + b: two of these one after the other are a third, and the order matters. Both halves in one value.
Value function_of(Bits element) { return (element * 2 + 3) << 32 | ((element * 0x9e3779b9) & 0xffffffff); }
Value then(Value first, Value second) {
  const uint32_t a1 = first >> 32, b1 = static_cast<uint32_t>(first), a2 = second >> 32,
                 b2 = static_cast<uint32_t>(second);
  return Value{a2 * a1} << 32 | static_cast<uint32_t>(a2 * b1 + b2);
}

Threads execute(const std::vector<ScanStep>& steps, Threads scan) {
  Threads total = scan;
  for (const ScanStep& step : steps) {
    Threads before = total;
    for_each_thread(scan, [&](const Index& at, Value* scans) {
      const Value* beside = before.at(static_cast<int64_t>(at.lane ^ step.lane),
                                      static_cast<int64_t>(at.warp ^ step.warp), static_cast<int64_t>(at.block));
      Value* totals =
          total.at(static_cast<int64_t>(at.lane), static_cast<int64_t>(at.warp), static_cast<int64_t>(at.block));
      for (Bits reg = 0; reg < static_cast<Bits>(scan.registers); ++reg) {
        const int odd = std::popcount(reg & step.upper.reg) + std::popcount(at.lane & step.upper.lane) +
                        std::popcount(at.warp & step.upper.warp) + std::popcount(at.block & step.upper.block);
        const Value other = beside[reg ^ step.reg];
        if (odd % 2) scans[reg] = then(other, scans[reg]);
        totals[reg] = odd % 2 ? then(other, totals[reg]) : then(totals[reg], other);
      }
    });
  }
  return scan;
}

Value scanned(const Layout& layout, int axis, Bits element) {
  std::vector<int64_t> at = layout.coordinates(element);
  const int64_t last = at[axis];
  Value out = 0;
  for (at[axis] = 0; at[axis] <= last; ++at[axis]) {
    const Value next = function_of(layout.element(at));
    out = at[axis] == 0 ? next : then(out, next);
  }
  return out;
}

std::vector<ScanStep> checked(const Layout& layout, int axis) {
  const Result<std::vector<ScanStep>> plan = plan_scan(layout, axis);
  EXPECT_TRUE(plan.ok());
  EXPECT_EQ(execute(*plan, spread(layout, function_of)),
            spread(layout, [&](Bits element) { return scanned(layout, axis, element); }))
      << to_string(layout) << " along " << axis;
  return *plan;
}

TEST(Scan, RandomLayouts) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const Layout layout =
        random_layout(random, random_shape(random, pick(random, 0, 9)),
                      {.warp_bits = pick(random, 0, 2), .free_bits = pick(random, 0, 2), .swizzled = round % 2 == 0});
    checked(layout, pick(random, 0, layout.rank() - 1));
  }
}

TEST(Scan, RowsOfABlockedTileGoThroughRegistersThenLanes) {
  const std::vector<ScanStep> steps = checked(blocked({4, 64}, {1, 4}, {2, 16}, {2, 1}, {1, 0}), 1);
  ASSERT_EQ(steps.size(), 6u);
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].lane != 0, i >= 2);
    EXPECT_EQ(steps[i].warp, 0u);
  }
}

TEST(Scan, RefusesAxesSplitOverBlocks) {
  const Layout layout = product(identity(2, 1, Dim::kBlock, 2), identity(2, 0, Dim::kLane, 32));
  EXPECT_TRUE(plan_scan(layout, 0).ok());
  EXPECT_NE(plan_scan(layout, 1).error().message.find("axis 1"), std::string::npos);
}

}  // namespace
}  // namespace kiln::codegen::gpu
