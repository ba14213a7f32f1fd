// Gathered integers that no extension becomes part of, for code of long scalable vectors.
//
// before                                                     after
//   %g = call <4 x i8> @llvm.masked.gather(…)                  %g = call <4 x i8> @llvm.masked.gather(…)
//   %w = zext <4 x i8> %g to <4 x i32>                         %f = freeze <4 x i8> %g
//                                                              %w = zext <4 x i8> %f to <4 x i32>
//
// LLVM 22 makes one wider gather of the two. Where its result fits a register of Neon, it finds no instruction for
// what it made, and ends the process.
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::cpu {

void freeze_gathers(llvm::Function& function);

}  // namespace kiln::codegen::cpu
