// AMD's estimates of elementary functions.
#pragma once

#include "math/vector_math.h"

namespace kiln::codegen::amdgcn {

llvm::Value* emit_estimate(llvm::IRBuilder<>& b, Estimate function, llvm::Value* x);

}  // namespace kiln::codegen::amdgcn
