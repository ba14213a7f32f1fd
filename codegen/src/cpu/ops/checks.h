// Checks of accesses to memory, with the option check_bounds.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

// A load or a store.
Result<void> lower_checked_access(Context& ctx, const Op& op);
// The indices of a gather.
Result<void> check_gather(Context& ctx, const Op& op);
// Leaves the entry where the address of a lane lies outside the buffer of the op's pointer. `number`: of the lane.
void check_address(Context& ctx, const Op& op, Value* pointer, llvm::function_ref<Value*()> number);

}  // namespace kiln::codegen::cpu
