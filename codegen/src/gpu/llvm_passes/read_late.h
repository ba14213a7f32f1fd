// Reads of shared memory are put where they are wanted first, in loops too.
//
// A product by multiply-adds is lowered as reads of all its operands, then the accumulators, one step of the inner axis
// after the other. LLVM's schedulers start from that order and keep most of what it holds in registers at once, which
// are too few. In the order of steps each needs the registers of its own operands. Addresses that LLVM has hoisted out
// of loops are computed again beside the read: they differ from each other by an xor, and are as many as the reads.
#pragma once

#include <llvm/IR/Function.h>

namespace kiln::codegen::gpu {

void read_late(llvm::Function& function);

}  // namespace kiln::codegen::gpu
