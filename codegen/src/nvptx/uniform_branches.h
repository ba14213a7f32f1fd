// Branches that all threads take alike, told to ptxas: LLVM has no word for them.
//
//   before                                    after
//     mov.pred %p2, %p1; // uniform             mov.pred %p2, %p1;
//     @%p2 bra $L__BB0_4;                       @%p2 bra.uni $L__BB0_4;
//
// ptxas 13.0 takes a condition that was read from memory for one that parts the threads of a warp. Where the branches
// meet at a barrier it then leaves out that they join, and turns a load under a predicate at the end of one of them
// into a jump to the barrier: the lanes that load go on by themselves, and shuffles behind it lack the others.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <string>

namespace kiln::codegen::nvptx {

// `condition`, which is the same in all threads of the block or of the warp that is alone in its program, for the
// branch that follows at once.
llvm::Value* mark_uniform(llvm::IRBuilder<>& ir, llvm::Value* condition);

// PTX whose branches on marked conditions are `bra.uni`.
std::string say_uniform(const std::string& ptx);

}  // namespace kiln::codegen::nvptx
