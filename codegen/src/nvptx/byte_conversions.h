// Bytes to f32 by a mask and an addition: the instruction that converts them runs on the slow unit that computes
// estimates too, at a quarter of the rate (SASS: I2F.S8). For weights of bytes, which are widened beside products.
//
// before                                after
//   %y = sitofp i8 %x to float            %u = xor (zext i8 %x to i32), 0x4b000080     ; the f32 2^23 + 128 + %x
//                                         %y = fsub %u, 2^23 + 128
//   %y = uitofp i8 %x to float            %u = or (zext i8 %x to i32), 0x4b000000      ; 2^23 + %x
//                                         %y = fsub %u, 2^23
//
// Both are exact.
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::nvptx {

void convert_bytes_by_addition(llvm::Function& function);

}  // namespace kiln::codegen::nvptx
