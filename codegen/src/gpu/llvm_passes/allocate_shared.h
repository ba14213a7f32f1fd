// Places of buffers in shared memory (shared_memory.h).
#pragma once

#include <llvm/IR/Function.h>

#include <cstdint>
#include <vector>

namespace kiln::codegen::gpu {

struct SharedRange {
  int64_t offset = 0, bytes = 0;
};
struct SharedPlan {
  std::vector<SharedRange> buffers;  // by number
  int64_t bytes = 0;                 // in all
};

// Gives each buffer its place, and its calls the address.
// `part`: an instruction, which of so many equal parts it is that this thread's program has; null where it has all.
// `consumer groups`: so many parts are behind what is the block's, and the plan's bytes are of all.
SharedPlan allocate_shared_memory(llvm::Function& function, llvm::Instruction* part = nullptr, int consumer_groups = 1);

}  // namespace kiln::codegen::gpu
