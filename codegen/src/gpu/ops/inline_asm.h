// Assembly of the target.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

Result<Registers> compute_inline_asm(Context& ctx, const Op& op, const Layout& layout);

}  // namespace kiln::codegen::gpu
