// Reductions.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

Result<void> lower_reduce(Context& ctx, const Op& op);

}  // namespace kiln::codegen::cpu
