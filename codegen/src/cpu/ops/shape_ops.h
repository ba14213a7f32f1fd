// reshape, slice, split, cat and gather.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

Result<void> lower_shape_op(Context& ctx, const Op& op);

}  // namespace kiln::codegen::cpu
