// Tiles in shared memory: written by the threads that hold them, read by those that want them.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// Puts a matrix into shared memory, once, where it is defined; `fast`: the axis along which lines run.
Result<SharedTile> materialise_in_shared(Context& ctx, ValueId id, int fast);
Result<Registers> read_shared_tile(Context& ctx, const SharedTile& tile, const dsl::Type& type, const Layout& layout);

}  // namespace kiln::codegen::gpu
