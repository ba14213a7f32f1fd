// Constants of 64 bits that an instruction cannot hold, back in the form that becomes two instructions.
//
//   %0:sreg_64 = S_MOV_B64 4652552666608566272     →     %0:sreg_64 = S_MOV_B64_IMM_PSEUDO 4652552666608566272
//
// LLVM 22's peephole optimiser makes the former where it folds the latter into a copy. The encoder keeps 32 bits of it.
// With the common subexpressions of machine code eliminated there are few such copies; they are not (passes.cpp).
#pragma once

#include <llvm/CodeGen/MachineFunctionPass.h>

namespace kiln::codegen::amdgcn {

// To run behind the peephole optimiser. Owned by the pass manager that it is added to.
llvm::MachineFunctionPass* make_wide_constants_pass();

}  // namespace kiln::codegen::amdgcn
