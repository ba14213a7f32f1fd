// Which accesses of a kernel the engine of bulk_engine.h makes.
#pragma once

#include "gpu/pipeline/bulk_tile.h"
#include "gpu/placement.h"

namespace kiln::codegen::gpu {

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

}  // namespace kiln::codegen::gpu
