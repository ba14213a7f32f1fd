// Products of matrices.
#pragma once

#include "cpu/dot/dot_plan.h"

namespace kiln::codegen::cpu {

Result<void> lower_dot(Context& ctx, const Op& op);
Result<void> lower_dot_scaled(Context& ctx, const Op& op);

// How the product of a dot is computed.
DotBlocking choose_blocking(Context& ctx, const Op& dot);
// Runs the micro-kernel over the blocks of C.
void run_blocks(Context& ctx, const DotBlocking& blocking, const OperandA& a, const OperandB& b,
                const OperandC& accumulators, Value* steps);

}  // namespace kiln::codegen::cpu
