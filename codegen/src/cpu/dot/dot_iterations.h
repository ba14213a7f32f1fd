// Turns of a loop with few steps along K each, whose products wait for each other in a list.
#pragma once

#include "cpu/dot/dot_plan.h"

namespace kiln::codegen::cpu {

// Of how many iterations the products may wait for each other, 1 if they may not, and such a dot.
int64_t fused_iterations(const Context& ctx, const DotBlocking& blocking, const Op& dot);
Result<void> lower_iterations(Context& ctx, DotBlocking blocking, const Op& dot, Value* steps, int64_t most);
// The list: numbers of each iteration, of eight bytes each; then a row of zeros; then the order of the rows, i64.
constexpr int64_t kMostIterations = 9;
enum IterationField : uint8_t {
  kIterationRows,
  kIterationB,
  kIterationBRow,
  kIterationBPanel,
  kIterationSteps,
  kIterationLeavesOut,
  kIterationFields
};
constexpr int64_t kIterationZeros = kMostIterations * kIterationFields * 8;
inline int64_t order_of_iterations(const DotBlocking& blocking) {
  return kIterationZeros + (blocking.k_units * blocking.unit_bytes + 7) / 8 * 8;
}

}  // namespace kiln::codegen::cpu
