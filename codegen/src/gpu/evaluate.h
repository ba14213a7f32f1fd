// Values without a home: computed in the layout in which somebody wants them.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// A value without a home, in a layout.
Result<Registers> compute(Context& ctx, ValueId id, const Layout& layout);
// The layout of a permute's operand whose registers are those of its result.
Layout before_permute(const Op& op, const Layout& layout);
// A value in a layout some of whose register bits may be free: from the registers of the layout without them.
Result<Registers> get_without_copies(Context& ctx, ValueId id, const Layout& layout);

}  // namespace kiln::codegen::gpu
