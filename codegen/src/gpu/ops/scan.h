// Scans, and reductions by a region, whose elements are combined in order.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

Result<void> lower_in_order(Context& ctx, const Op& op);

}  // namespace kiln::codegen::gpu
