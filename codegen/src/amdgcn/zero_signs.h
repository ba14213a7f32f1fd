// Products that are rounded to f16 at once.
//
//   %p = fmul float %x, %y                    %p = call float @llvm.fma.f32(float %x, float %y, float -0.0)
//   %h = fptrunc float %p to half       →     %h = fptrunc float %p to half
//
// LLVM 22 makes v_fma_mixlo_f16 of the former with an addend of +0, which takes its sign from a product of -0
// (mended in llvm-project's pull request 214544); of the latter it makes the same instruction with the addend that it
// has.
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::amdgcn {

void keep_signs_of_zeros(llvm::Function& function);

}  // namespace kiln::codegen::amdgcn
