// Stores of large tiles by the engine of bulk_engine.h, through shared memory.
#pragma once

#include "gpu/context.h"
#include "gpu/pipeline/bulk_copy.h"

namespace kiln::codegen::gpu {

// The threads that tell the engine of stores: the first one of each group of warps, or of all.
Value* tells_of_stores(Context& ctx);
Result<void> lower_bulk_store(Context& ctx, const Op& op, const BulkAccess& access);

}  // namespace kiln::codegen::gpu
