// The operands of dot_scaled, decoded into the packed form of an f64 dot.
#pragma once

#include "cpu/dot/dot_plan.h"

namespace kiln::codegen::cpu {

Result<OperandA> unpack_scaled_a(Context& ctx, const DotBlocking& blocking, ValueId id, ValueId scale);
Result<OperandB> unpack_scaled_b(Context& ctx, const DotBlocking& blocking, ValueId id, ValueId scale);

}  // namespace kiln::codegen::cpu
