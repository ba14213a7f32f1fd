// atomic_rmw and atomic_cas.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

Result<void> lower_atomic(Context& ctx, const Op& op);

}  // namespace kiln::codegen::gpu
