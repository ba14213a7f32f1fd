// What reductions and scans combine elements with: one of the kinds, or the region of `custom`.
#pragma once

#include "cpu/context.h"
#include "elementwise/combine.h"

namespace kiln::codegen::cpu {

using Registers = llvm::SmallVector<Value*, 4>;  // one per operand: scalars, or vectors of equally many lanes

// left ∘ right by the op's kind or region; the operands of a kind are accumulators.
Result<Registers> combine_operands(Context& ctx, const Op& op, const Registers& left, const Registers& right);

}  // namespace kiln::codegen::cpu
