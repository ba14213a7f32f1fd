// The passes on the tile IR of a launch that know the block it will run in.
#pragma once

#include "gpu/block/block_shape.h"
#include "gpu/target_info.h"
#include "passes/pipeline.h"

namespace kiln::codegen::gpu {

struct BlockFacts {
  const TargetInfo& target;
  const BlockShape& block;
};
using BlockPass = TilePass<BlockFacts>;

std::span<const BlockPass> block_passes();
// Behind them, where a thread would hold too much otherwise (held_tiles.h).
std::span<const Pass> relieving_passes();

}  // namespace kiln::codegen::gpu
