// for, while and if.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

Result<void> lower_for(Context& c, const Op& op);
Result<void> lower_while(Context& c, const Op& op);
Result<void> lower_if(Context& c, const Op& op);

}  // namespace kiln::codegen::cpu
