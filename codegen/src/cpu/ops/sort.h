// Sorting along an axis.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

Result<void> lower_sort(Context& ctx, const Op& op);

}  // namespace kiln::codegen::cpu
