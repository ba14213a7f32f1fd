// Two conversions of f32 to bf16 whose results become neighbours in a word are one instruction.
//
// before                                             after
//   %p = bitcast (call @llvm.nvvm.f2bf16.rn(%x))       %w = bitcast (call @llvm.nvvm.ff2bf16x2.rn(%y, %x)) to <2 x i16>
//   %q = bitcast (call @llvm.nvvm.f2bf16.rn(%y))       %v = insertelement …, (extractelement %w, 0), 0
//   %v = insertelement …, %p, 0                        %u = insertelement %v, (extractelement %w, 1), 1
//   %u = insertelement %v, %q, 1
#pragma once

#include <llvm/IR/Module.h>

namespace kiln::codegen::nvptx {

void pair_conversions(llvm::Module& module);

}  // namespace kiln::codegen::nvptx
