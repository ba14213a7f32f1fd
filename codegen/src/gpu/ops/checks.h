// Checks under the options debug and check_bounds.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// What an op is checked for before it is run.
Result<void> lower_check(Context& ctx, const Op& op);

}  // namespace kiln::codegen::gpu
