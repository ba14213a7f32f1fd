// Sorting along an axis.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

Result<void> lower_sort(Context& ctx, const Op& op);
Result<void> lower_topk(Context& ctx, const Op& op);

}  // namespace kiln::codegen::gpu
