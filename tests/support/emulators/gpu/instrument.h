// What is done to a lowered kernel so that the host can run it.
#pragma once

#include <llvm/IR/Module.h>

namespace kiln::test {

// The block's shared memory is a parameter of the kernel instead of a global.
void place_shared_memory(llvm::Module& module, llvm::Function& kernel);
// Each access of shared memory is told to the emulator.
void watch_shared_memory(llvm::Function& kernel);
// kiln_emulated_entry(params, thread, shared): calls the kernel with its parameters from slots of 8 bytes; and an i32
// kiln_emulated_lanes, of a warp.
void add_entry(llvm::Module& module, llvm::Function& kernel, int lanes);

}  // namespace kiln::test
