// What a layout means for loads from and stores to global memory.
#pragma once

#include "gpu/layout/layout.h"

namespace kiln::codegen::gpu {

// So many elements a thread can access at once. Of the tile's pointers is known that groups of `contiguous` neighbours
// along the last axis point to neighbours, the first of each at a multiple of `multiple_of_bytes`; the widest access of
// the target has max_bytes. The group's registers are those that `contiguous_per_thread` speaks of.
int64_t vector_width(const Layout& layout, int64_t contiguous, int64_t multiple_of_bytes, int element_bits,
                     int64_t max_bytes = 16);

// So many different lines of `line_bytes` a warp touches in one such access of row-major memory, where the rows begin
// at lines: the measure of coalescing.
int64_t lines_touched(const Layout& layout, int64_t width, int element_bits, int64_t line_bytes = 128);

}  // namespace kiln::codegen::gpu
