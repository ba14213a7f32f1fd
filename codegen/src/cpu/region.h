// The ops of a region.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

// Lowers all ops of a region, in program order.
Result<void> lower_region(Context& ctx, const dsl::Region& region);

}  // namespace kiln::codegen::cpu
