// for, while and if.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

Result<void> lower_for(Context& ctx, const Op& op);
Result<void> lower_while(Context& ctx, const Op& op);
Result<void> lower_if(Context& ctx, const Op& op);

}  // namespace kiln::codegen::cpu
