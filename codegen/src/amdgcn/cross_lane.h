// What lanes of a wave do together.
#pragma once

#include "elementwise/elementwise.h"

namespace kiln::codegen::amdgcn {

// x, which nobody moves into a branch. LLVM 19 does not know that v_permlanex16_b32 and v_wmma are of all lanes
// together, and sinks them to where fewer are active.
llvm::Value* pinned(Builder& ir, llvm::Value* x);

}  // namespace kiln::codegen::amdgcn
