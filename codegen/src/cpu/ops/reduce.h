// Reductions.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

Result<void> lower_reduce(Context& c, const Op& op);

}  // namespace kiln::codegen::cpu
