// Counts of equal elements.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

Result<void> lower_histogram(Context& ctx, const Op& op);

}  // namespace kiln::codegen::cpu
