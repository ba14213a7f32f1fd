// Records of a tile in order along an axis: a bitonic network, in registers, between lanes and between warps; of large
// tiles in windows (window_sort.h). Records are ints of any width, ordered as unsigned.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// Neighbours along the axis in one thread, then in one warp; rows in different warps.
Layout sort_layout(const std::vector<int64_t>& shape, int axis, const BlockShape& block);

// The first `count` (a power of two) records of each row, in the layout first(layout, axis, count), without copies in
// registers. Of a record the low `used_bits` may differ from 0. An error where they neither fit into registers nor into
// shared memory.
Result<Registers> sort_records(Context& ctx, const Op& op, Registers records, int used_bits, const Layout& layout,
                               int axis, int64_t count);

}  // namespace kiln::codegen::gpu
