// Parameters of functions that kernels call, read where they lie.
//
// before                                                 after
//   define internal float @f(i1 %c, float %x, float %y)    define internal float @f(i1 %c, float %x, float %y)
//                                                            %a = freeze float %x
//                                                            %b = freeze float %y
//     %z = select i1 %c, float %x, float %y                  %z = select i1 %c, float %a, float %b
//
// LLVM 22 reads one of two parameters that it selects by the address that it selects, which PTX has for kernels'
// parameters alone: of others the assembler takes it, and gives another value.
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::nvptx {

void freeze_parameters(llvm::Function& function);

}  // namespace kiln::codegen::nvptx
