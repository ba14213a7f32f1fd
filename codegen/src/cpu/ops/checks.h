#pragma once

#include "cpu/ops/lanes.h"

namespace kiln::codegen::cpu {

// Leaves the entry where the address of a lane lies outside the buffer of the op's pointer. `number`: of the lane.
void check_address(Context& c, const Op& op, Value* pointer, llvm::function_ref<Value*()> number);

}  // namespace kiln::codegen::cpu
