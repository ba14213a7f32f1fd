// What dot and dot_scaled do with fragments of matrix instructions in registers.
#pragma once

#include "gpu/context.h"
#include "gpu/dot/dot_layouts.h"

namespace kiln::codegen::gpu {

// A sum in all registers of its fragments, from its home, and back.
Result<Registers> fragment_accumulators(Context& ctx, ValueId id, const DotLayouts& layouts);
Registers without_copies(const Registers& accumulators, const DotLayouts& layouts);

// sums += a·b for one step along the inner axis, of one matrix of the batch.
void multiply_fragments(Context& ctx, const DotFragments& all, const Registers& a, const Registers& b,
                        Registers& accumulators, int64_t batch, int64_t k);

// The same of a dot_scaled with an instruction of its own, by the scales of all fragments.
void multiply_scaled_fragments(Context& ctx, const DotFragments& all, const Registers& a, const Registers& b,
                               const Registers& a_scales, const Registers& b_scales, Registers& accumulators,
                               int64_t k);

}  // namespace kiln::codegen::gpu
