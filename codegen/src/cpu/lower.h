// Tile IR to LLVM IR for CPUs.
#pragma once

#include <llvm/IR/Module.h>

#include "kiln/dsl/ir.h"
#include "kiln/dsl/result.h"
#include "launches/launch_sequence.h"
#include "target.h"

namespace kiln::codegen::cpu {

// An op that may fail a launch, or prints: what code names by number, the artifact's metadata describes.
struct Report {
  const dsl::Kernel* kernel;  // of the sequence
  const dsl::Op* op;
};

struct Lowered {
  uint64_t scratch_bytes = 0;  // per program, 64-byte aligned
  std::vector<Report> checks, prints;
};

// Adds the entry of each step to the module: int32 (const void* params, const uint32 grid[3], uint64 first, uint64
// last, ctx*), which runs programs first…last-1. Kernels are instantiated.
Result<Lowered> lower(const LaunchSequence& sequence, CpuTarget& target, llvm::Module& module);

}  // namespace kiln::codegen::cpu
