// Tile IR to LLVM IR for CPUs.
#pragma once

#include <llvm/IR/Module.h>

#include "kiln/dsl/ir.h"
#include "kiln/dsl/result.h"
#include "target.h"

namespace kiln::codegen::cpu {

struct ParamSlot {
  uint64_t offset;
  uint64_t bytes;
};

// Where each argument lies in the parameter block: in order, naturally aligned, i1 as one byte.
std::vector<ParamSlot> param_layout(const dsl::Kernel& kernel, uint64_t& total_bytes);

struct Lowered {
  uint64_t scratch_bytes = 0;  // per program, 64-byte aligned
};

// Adds `kiln_entry` to the module: int32 (const void* params, const uint32 grid[3], uint64 first, uint64 last, ctx*),
// which runs programs first…last-1. `kernel` is instantiated.
Result<Lowered> lower(const dsl::Kernel& kernel, CpuTarget& target, llvm::Module& module);

}  // namespace kiln::codegen::cpu
