// Products of several warps at once, for lower_dot.
#pragma once

#include "gpu/context.h"
#include "gpu/dot/dot_layouts.h"

namespace kiln::codegen::gpu {

// Whether A is taken from registers: it is there, in the instruction's order but for a renaming, or shuffles of bytes.
bool takes_a_from_registers(Context& ctx, const Op& dot);
// What an operand, 0 or 1, is a view of.
ValueId operand_source(const Context& ctx, const Op& dot, size_t number);
// Whether nothing that the product reads in shared memory is written again before the end of the next iteration: it is
// staged, or comes from outside the loop.
bool operands_stay(Context& ctx, const Op& dot);
// Whether all elements are zeros, without a sign.
bool is_zero(const Context& ctx, ValueId id);
Result<void> lower_group_dot(Context& ctx, const Op& op, const DotLayouts& layouts);

}  // namespace kiln::codegen::gpu
