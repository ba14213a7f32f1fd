// AMD's estimates of elementary functions, and its conversions of small floats.
#pragma once

#include "amdgcn/target.h"
#include "elementwise/elementwise.h"
#include "math/vector_math.h"

namespace kiln::codegen::amdgcn {

llvm::Value* emit_estimate(llvm::IRBuilder<>& ir, Estimate function, llvm::Value* x);

// Conversions from f32 to bf16, and between f32 and f8 where the processor has OCP's.
SmallFloatInstructions small_float_instructions(const Processor& processor);

}  // namespace kiln::codegen::amdgcn
