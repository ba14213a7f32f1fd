// Products of matrices whose elements share scales.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

Result<void> lower_dot_scaled(Context& ctx, const Op& op);

}  // namespace kiln::codegen::gpu
