// Differences of 64 bits whose operands fit 32, in 32 bits.
//
// before                                    after
//   %d = sub i64 %a, %b      ; both < 2^31    %d = sext i32 (sub nsw i32 %a, %b) to i64
//   %d = sub i64 %q, %b      ; both < 2^32,   %d = or i64 (zext i32 (sub i32 %q, %b) to i64), %borrow
//                            ; %q a quotient  %borrow = -2^32 where %q < %b, else 0
//
// ptxas 13.0 adds the negative of %b to the upper half of a product (mul.hi.u32, as of quotients) in one instruction,
// with the carry, and takes the negative's upper half for -1. Of 0 it is 0: the difference is 2^32 too small.
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::nvptx {

void shorten_differences(llvm::Function& function);

}  // namespace kiln::codegen::nvptx
