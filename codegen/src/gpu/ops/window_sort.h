// Records of a tile in order along an axis by comparisons inside threads alone; between them the tile changes its
// layout. For rows of which a thread holds many records.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// Ascending, as unsigned ints, in the layout that they come in: one of sort_layout's. Of a record the low `used_bits`
// may differ from 0. An error where a word of each does not fit into shared memory.
Result<Registers> sort_in_windows(Context& ctx, const Registers& records, int used_bits, const Layout& layout,
                                  int axis);

}  // namespace kiln::codegen::gpu
