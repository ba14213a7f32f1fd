// Halves that are rounded to whole numbers where no instruction does it: as f32.
//
// before                                                     after
//   %y = call <8 x half> @llvm.floor.v8f16(<8 x half> %x)      %w = fpext <8 x half> %x to <8 x float>
//                                                              %f = call <8 x float> @llvm.floor.v8f32(<8 x float> %w)
//                                                              %y = fptrunc <8 x float> %f to <8 x half>
//
// Kernels say it so, but LLVM's passes take the two conversions for superfluous, and its code generator then takes the
// vector apart.
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::cpu {

void widen_roundings(llvm::Function& function);

}  // namespace kiln::codegen::cpu
