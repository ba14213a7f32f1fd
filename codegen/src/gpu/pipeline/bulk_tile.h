// Tiles that are copied between global and shared memory by the engine of bulk_engine.h: how the tile lies in shared
// memory, and in which boxes it travels.
#pragma once

#include "gpu/analysis/tensor_access.h"
#include "gpu/layout/shared_layout.h"
#include "gpu/pipeline/tensor_map.h"

namespace kiln::codegen::gpu {

// One copy: from the tile's first element so far along each dimension, so many bytes into the tile's shared memory.
struct TileBox {
  std::vector<int64_t> start;
  int64_t shared_bytes = 0;
};

struct BulkTile {
  TensorAccess access;
  TensorMap map;
  // Of the tile padded to powers of two: lines of up to 128 bytes along the innermost dimension, swizzled, in panels.
  // Panels that are all padding are the last.
  SharedLayout memory;
  int64_t bytes = 0;  // in shared memory, padding included
  std::vector<TileBox> boxes;
  int64_t box_bytes = 0;  // that one box moves
};

// In `least_boxes` boxes or more where one can be halved. The error says why not.
Result<BulkTile> plan_bulk_tile(const dsl::Kernel& kernel, const dsl::Op& access, LinearForms& forms,
                                int64_t least_boxes = 1);

// Warps that store together, as many as share a product.
inline constexpr int kStoringWarps = 4;
// By box, the number of the group of kStoringWarps that holds all of it; empty where some box is held by several.
std::vector<int> owners_of_boxes(const BulkTile& tile, const Layout& layout);

}  // namespace kiln::codegen::gpu
