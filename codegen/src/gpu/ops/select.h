// topk of long rows, of which few elements are wanted: of each row a bound is found that no more than some candidates
// are below, and these are sorted.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// How many candidates of a row a topk may leave; nothing where the tile has many rows, or is better sorted as a whole,
// or does not fit into so many bytes of shared memory.
std::optional<int64_t> candidates_of(const dsl::Kernel& kernel, const Op& op, const BlockShape& block,
                                     int64_t shared_bytes);
// The tile of the candidates, whose sort_layout the results have, as far as they are the first.
std::vector<int64_t> candidates_shape(const dsl::Kernel& kernel, const Op& op, int64_t candidates);
// Whether each thread has elements, all of its own, and of every row.
bool can_select(const Layout& layout, int axis);
// The tiles that topk selects from, and those of their shape that they are computed from element by element: along
// which axis.
std::map<ValueId, int> selected_tiles(const dsl::Kernel& kernel, const BlockShape& block, int64_t shared_bytes);

Result<void> lower_selection(Context& ctx, const Op& op, int64_t candidates);

}  // namespace kiln::codegen::gpu
