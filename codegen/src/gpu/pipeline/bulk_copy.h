// Which accesses of a kernel the engine of bulk_engine.h makes.
#pragma once

#include <llvm/IR/Value.h>

#include "gpu/pipeline/bulk_tile.h"
#include "gpu/placement.h"

namespace kiln::codegen::gpu {

class Context;

// Which accesses a kernel makes so, with or without stores; each has a map, in this order among the kernel's
// parameters.
struct BulkAccess {
  BulkTile tile;
  unsigned map = 0;
  // Of stores in persistent blocks: by box, which group of warps holds all of it; empty: some are held by several.
  std::vector<int> owners = {};
};
using BulkAccesses = std::map<const dsl::Op*, BulkAccess>;
BulkAccesses plan_bulk_accesses(const dsl::Kernel& kernel, const Placement& placement,
                                const std::vector<AxisInfo>& info, const BlockShape& block, bool stores);

// The coordinates of the tile's first element, i32, innermost first; outside the tensor where a guard does not hold.
// Scalars in `instead` have other values: those of a later iteration, say.
std::vector<llvm::Value*> tile_coordinates(Context& c, const TensorAccess& access,
                                           const std::map<dsl::ValueId, llvm::Value*>& instead = {});

// bulk_store.cpp: the threads that tell the engine of stores: the first one of each group of warps, or of all.
llvm::Value* tells_of_stores(Context& c);
// … through shared memory.
Result<void> lower_bulk_store(Context& c, const dsl::Op& op, const BulkAccess& access);

}  // namespace kiln::codegen::gpu
