// Matrices in shared memory as matrix instructions and bulk copies want them: panels of lines of 128, 64 or 32 bytes,
// swizzled (layout/shared_layout.h).
#pragma once

#include <optional>

#include "gpu/layout/layout.h"
#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

struct SharedPanels {
  Layout memory;            // from offsets to elements
  int fast = 1;             // the axis along which lines run
  int swizzle_bytes = 128;  // of a line
  int64_t bytes = 0;        // of the tile
};

// Nothing where the tile is no matrix, or its lines would be shorter than 32 bytes, or fewer than eight.
std::optional<SharedPanels> shared_panels_of(const dsl::Type& type, int fast);

}  // namespace kiln::codegen::gpu
