// Linear forms as code: where a tile lies in its tensor.
#pragma once

#include "gpu/analysis/tensor_access.h"
#include "gpu/context.h"

namespace kiln::codegen::gpu {

// What a form without coordinates comes to, i64.
Value* emit_form(Context& ctx, const Linear& form);
// The coordinates of the tile's first element, i32, innermost first; outside the tensor where a guard does not hold.
// Scalars in `instead` have other values: those of a later iteration, say.
std::vector<Value*> tile_coordinates(Context& ctx, const TensorAccess& access,
                                     const std::map<ValueId, Value*>& instead = {});

}  // namespace kiln::codegen::gpu
