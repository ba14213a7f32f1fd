// A long kernel in parts: what comes behind takes a time that grows faster than a function, LLVM's passes, register
// allocators and schedulers as well as NVIDIA's assembler. So the straight line of a kernel of very many ops, and that
// of its loops, becomes functions of a bounded size, called one after the other. Kernels of ordinary length stay whole,
// and so do those of few products, whose code is long in a loop, and of products whose instructions may not be apart.
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::gpu {

constexpr char kPartAttribute[] = "kiln-part";  // of the functions

void split_into_parts(llvm::Function& kernel);

}  // namespace kiln::codegen::gpu
