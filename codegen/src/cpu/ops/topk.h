// The largest or smallest elements along an axis.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

Result<void> lower_topk(Context& ctx, const Op& op);

}  // namespace kiln::codegen::cpu
