// Division of f32 without a subroutine: ptxas's own correctly rounded division calls a slow path. For kernels with
// products of several warps, which ptxas serialises in functions that call anything (its message C7509), and for those
// with few divisions on GPUs with doubles at half the rate of floats: registers need not be kept over calls.
//
// before                        after
//   %q = fdiv float %a, %b        %r = 1 / %b to 20 bits, in double      ; two steps of Newton bring 52
//                                 %y = %a·%r, corrected once by the remainder
//                                 %q = %y to float; %a·%r where one of them is infinite or NaN, or %b is 0
//
// The double quotient is exact where it is representable, as ties of f32 are, subnormal ones too, and within an ulp of
// its own otherwise, where no quotient of two f32 comes nearer to a tie than 2^-49: so rounding it once more is right.
#pragma once

#include <llvm/IR/Module.h>

namespace kiln::codegen::nvptx {

void inline_divisions(llvm::Module& module, bool doubles_are_fast);

}  // namespace kiln::codegen::nvptx
