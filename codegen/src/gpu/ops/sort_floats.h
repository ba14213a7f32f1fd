// A row of floats in order by their keys alone, which take half of the registers and exchanges of records with places.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// Whether the sort is of one row of floats, alone, that is long enough for it to pay, and the target's shared memory
// has place for two tiles.
bool sorts_floats(const Context& ctx, const Op& op);
Result<void> lower_sort_of_floats(Context& ctx, const Op& op);

}  // namespace kiln::codegen::gpu
