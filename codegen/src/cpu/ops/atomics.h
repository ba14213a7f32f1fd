// atomic_rmw and atomic_cas.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

Result<void> lower_atomic(Context& ctx, const Op& op);

}  // namespace kiln::codegen::cpu
