// Turns of a loop with few steps along K each, whose products wait for each other in a list.
#pragma once

#include "cpu/dot/dot_plan.h"

namespace kiln::codegen::cpu {

// Of how many turns the products may wait for each other, 1 if they may not, and such a dot.
int64_t turns_together(const Context& c, const DotPlan& plan, const Op& dot);
Result<void> lower_turn(Context& c, DotPlan plan, const Op& dot, Value* steps, int64_t most);
// The list: numbers of each turn, of eight bytes each; then a row of zeros; then the order of the rows, i64.
constexpr int64_t kMostTurns = 9;
enum TurnField : uint8_t { kTurnRows, kTurnB, kTurnBRow, kTurnBPanel, kTurnSteps, kTurnLeavesOut, kTurnFields };
constexpr int64_t kTurnZeros = kMostTurns * kTurnFields * 8;
inline int64_t order_of_turns(const DotPlan& plan) { return kTurnZeros + (plan.k_units * plan.unit_bytes + 7) / 8 * 8; }

}  // namespace kiln::codegen::cpu
