// Computations of straight code are put where they are wanted.
//
//   a0 = f(x0); a1 = f(x1)…           a0 = f(x0); b0 = g(a0); store b0
//   b0 = g(a0); b1 = g(a1)…     →     a1 = f(x1); b1 = g(a1); store b1
//   store b0; store b1…               …
//
// Ops of tiles are lowered one after the other, each for all registers, so that all of what one op leaves to the next
// is alive at once. In loops that is for the assembler to arrange, since there computations run beside products of
// several warps; behind them, where large tiles are finished and stored, they would not fit into registers.
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::gpu {

// Where nothing is multiplied no more than a thread has registers for is loaded before what waits for it is computed.
void compute_late(llvm::Function& function, bool has_products);

}  // namespace kiln::codegen::gpu
