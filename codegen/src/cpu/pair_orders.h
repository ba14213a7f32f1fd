// Pairs that are taken apart, computed with lane by lane, and put together again: in an order of lanes that AVX2 makes
// within the halves of its registers. The usual order takes two more shuffles a register, across the halves.
//
// before                                                        after: lanes 0 1 4 5 2 3 6 7
//   %a = shufflevector <16 x float> %x, …, <0, 2, 4, … 14>        %a = shufflevector …, <0, 2, 8, 10, 4, 6, 12, 14>
//   %b = shufflevector <16 x float> %x, …, <1, 3, 5, … 15>        %b = shufflevector …, <1, 3, 9, 11, 5, 7, 13, 15>
//   %s = fadd <8 x float> %a, %b                                  %s = fadd <8 x float> %a, %b
//   %z = shufflevector %s, %a, <0, 8, 1, 9, … 15>                 %z = shufflevector %s, %a, <0, 8, 1, 9, 4, 12, …>
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::cpu {

// For registers of 32 bytes.
void order_pairs(llvm::Function& function);

}  // namespace kiln::codegen::cpu
