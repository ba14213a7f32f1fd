// The micro-kernel of a product with a single column.
#pragma once

#include "cpu/dot/dot_plan.h"

namespace kiln::codegen::cpu {

// As micro_kernel has it (dot_kernel.h).
llvm::Function* column_kernel(Context& ctx, const DotBlocking& blocking, int rows);

}  // namespace kiln::codegen::cpu
