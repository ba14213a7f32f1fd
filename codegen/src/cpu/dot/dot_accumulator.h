// Where the accumulators of a dot are kept.
#pragma once

#include "cpu/dot/dot_plan.h"

namespace kiln::codegen::cpu {

// Where the accumulators begin and end, in a slot of the result or where it is stored.
Result<OperandC> accumulator(Context& ctx, const DotBlocking& blocking, ValueId acc, ValueId result);
// What loops carry from zeros on, if that is what the accumulators are; else null.
const DotAccumulator* accumulators_of_loops(const Context& ctx, const DotBlocking& blocking, ValueId acc,
                                            ValueId result);

// Whether number i of what a `for` carries is the accumulator of a dot, which stands in it or in the last of loops in
// it, and starts from zeros. Its slot then need not be filled, but where no dot ever runs.
bool accumulates_from_zeros(const Context& ctx, const Op& loop, size_t i);
// Whether it is an accumulator that a loop around this one carries already, whose slot serves this one too.
bool continues_accumulator(const Context& ctx, const Op& loop, size_t i);
// `has_effects`: whether the loop has.
DotAccumulator make_dot_accumulator(Context& ctx, const Op& loop, size_t i, bool has_effects);

}  // namespace kiln::codegen::cpu
