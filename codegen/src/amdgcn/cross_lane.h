// What lanes of a wave do together.
#pragma once

#include "elementwise/elementwise.h"

namespace kiln::codegen::amdgcn {

// x, which nobody moves into a branch. LLVM 22 does not know that v_wmma is of all lanes together, and
// sinks it to where fewer are active.
llvm::Value* pinned(Builder& ir, llvm::Value* x);

}  // namespace kiln::codegen::amdgcn
