// From the tile IR to LLVM IR for a GPU: one kernel function, in which a block of threads is a program.
#pragma once

#include <llvm/IR/Module.h>

#include "gpu/placement.h"
#include "gpu/target_info.h"
#include "kiln/dsl/ir.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::gpu {

struct LaunchShape {
  int warps = 4;
};

struct Lowered {
  int threads = 0;  // of a block
  // Bytes that a launch must give each block; allocated when the kernel is complete.
  int64_t shared_bytes = 0;
};

// `kernel` is instantiated. `processor` names the target in errors.
Result<Lowered> lower(const dsl::Kernel& kernel, const TargetInfo& target, const LaunchShape& launch,
                      const std::string& processor, llvm::Module& module);

}  // namespace kiln::codegen::gpu
