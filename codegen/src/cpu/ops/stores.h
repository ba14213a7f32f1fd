// A store of a tile or a scalar, or of several tiles at once.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

Result<void> lower_store(Context& ctx, const Op& op);

}  // namespace kiln::codegen::cpu
