// Masked stores of one lane, which is known, as stores of an element.
//
// before                                                     after
//   call void @llvm.masked.store.v4i16.p0(                     %x = extractelement <4 x i16> %v, i64 2
//       <4 x i16> %v, ptr align 2 %p,                          %q = getelementptr i16, ptr %p, i64 2
//       <4 x i1> <i1 0, i1 0, i1 1, i1 0>)                     store i16 %x, ptr %q, align 2
//
// LLVM 22 does the same for AVX-512, but where the vector was truncated before it stores the wider element, over
// what lies behind.
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::cpu {

void store_single_lanes(llvm::Function& function);

}  // namespace kiln::codegen::cpu
