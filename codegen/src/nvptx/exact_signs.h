// Signs flipped and cleared as docs/reference/ops.md has it, where ptxas 13.0 does otherwise. It makes additions of neg
// and abs of floats, which put a NaN of their own in the place of one; and it takes the results of abs.s16 and neg.s16
// of -32768 for 32768 when they are widened or compared, and those of abs.s32 and abs.s64 for never negative.
//
// before                                       after (assembly, which neither LLVM nor ptxas turns round)
//   %y = fneg float %x           ; is stored     %y = xor.b32 of its bits
//   %y = fneg float %x           ; is added      the same: there it is a modifier of the instruction that reads it
//   %y = sub i16 0, %x                           %y = neg.s32, narrowed
//   %y = call i32 @llvm.abs.i32(i32 %x, false)   %y = max(%x, -%x)
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::nvptx {

void make_signs_exact(llvm::Function& function);

}  // namespace kiln::codegen::nvptx
