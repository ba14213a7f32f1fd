// Branches and loops inside the code of one op. Where a condition is not the same in all threads of a program, nothing
// inside may need a barrier.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

using Branch = llvm::function_ref<Result<Registers>()>;
// What `then` gives where the condition holds, else what `otherwise` gives: registers of the same types.
Result<Registers> emit_either(Context& ctx, Value* condition, const char* name, Branch then, Branch otherwise);
Result<Registers> emit_if(Context& ctx, Value* condition, const char* name, const Registers& otherwise, Branch then);
void emit_if(Context& ctx, Value* condition, const char* name, llvm::function_ref<void()> then);

// while (condition(x)) x = body(x): what x is in the end.
Result<Registers> emit_while(Context& ctx, const char* name, const Registers& start,
                             llvm::function_ref<Value*(const Registers&)> condition,
                             llvm::function_ref<Result<Registers>(const Registers&)> body);

}  // namespace kiln::codegen::gpu
