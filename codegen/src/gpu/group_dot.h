// Products of several warps at once, for lower_dot.
#pragma once

#include "gpu/context.h"
#include "gpu/dot_layouts.h"

namespace kiln::codegen::gpu {

Result<void> lower_group_dot(Context& c, const Op& op, const DotLayouts& layouts);

}  // namespace kiln::codegen::gpu
