// Sorting along an axis.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

Result<void> lower_sort(Context& c, const Op& op);
Result<void> lower_topk(Context& c, const Op& op);

}  // namespace kiln::codegen::gpu
