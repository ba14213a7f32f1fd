// topk of a long row, of which few elements are wanted: a bound is found that no more than some candidates are below,
// and these are sorted.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// How many candidates a topk of one row may leave; nothing where the whole tile is better sorted, or does not fit into
// so many bytes of shared memory. `wants_places`: of the elements.
std::optional<int64_t> candidates_of(const dsl::Kernel& kernel, const Op& op, bool wants_places, int64_t shared_bytes);
// The tile of the candidates, whose sort_layout the results have, as far as they are the first.
std::vector<int64_t> candidates_shape(const dsl::Kernel& kernel, const Op& op, int64_t candidates);

Result<void> lower_selection(Context& c, const Op& op, int64_t candidates);

}  // namespace kiln::codegen::gpu
