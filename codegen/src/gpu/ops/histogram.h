// Counts of equal elements.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

Result<void> lower_histogram(Context& ctx, const Op& op);

}  // namespace kiln::codegen::gpu
