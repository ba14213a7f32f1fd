// The lower part of a float's bits, by an instruction without a type.
//
// before                                    after
//   %b = bitcast double %x to i64             %b = bitcast double %x to i64
//   %t = trunc i64 %b to i32                  %t = call i32 asm "{ .reg .b32 high; mov.b64 {$0, high}, $1; }"(i64 %b)
//
// LLVM 22's registers have no types in PTX, and it stores a part of one without naming the part. ptxas 13.0 then goes
// by what made the register: it converts the float to an integer.
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::nvptx {

void take_low_parts(llvm::Function& function);

}  // namespace kiln::codegen::nvptx
