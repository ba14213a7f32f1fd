// Products of matrices.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

Result<void> lower_dot(Context& ctx, const Op& op);

}  // namespace kiln::codegen::gpu
