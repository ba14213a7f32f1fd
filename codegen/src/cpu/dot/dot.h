// Products of matrices.
#pragma once

#include "cpu/dot/dot_plan.h"

namespace kiln::codegen::cpu {

Result<void> lower_dot(Context& c, const Op& op);
Result<void> lower_dot_scaled(Context& c, const Op& op);

// How the product of a dot is computed.
DotPlan plan_dot(Context& c, const Op& dot);
// Runs the micro-kernel over the blocks of C.
void run_blocks(Context& c, const DotPlan& plan, const OperandA& a, const OperandB& b, const OperandC& sums,
                Value* steps);

}  // namespace kiln::codegen::cpu
