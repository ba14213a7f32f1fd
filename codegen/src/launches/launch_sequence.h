// A kernel as the launches it takes. Most take one. A sequence has more: each step is a kernel of its own, run for all
// programs before the next one begins, and they hand tiles on through a workspace in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/dsl/ir.h"
#include "passes/pass.h"

namespace kiln::codegen {

struct LaunchStep {
  dsl::Kernel kernel;
  std::string entry;
  // Programs of the step for each program of the kernel's grid: axis 0 of the grid times this. A program of a step
  // has the program id and the number of programs of the one it works for.
  int64_t chunks = 1;
};

// The parameters of a step begin with the kernel's own. Where there are several steps, the number of the chunk (i32)
// follows, then pointers into the workspace: each program of the grid has `workspace_bytes` of it, and the pointers are
// at these offsets of its part.
struct LaunchSequence {
  std::vector<LaunchStep> steps;  // in order; the last one has the entry `kiln_entry`
  size_t kernel_params = 0;
  std::vector<int64_t> workspace_offsets;
  int64_t workspace_bytes = 0;
};

// The steps of an instantiated, optimised kernel: launches/product.h, launches/stream.h, launches/reduce.h,
// launches/scan.h, launches/topk.h and launches/sort.h say what is split, launches/join.h what is put together again.
// `config` has schedule options (split_k, stream_k).
LaunchSequence make_launches(dsl::Kernel kernel, const dsl::ConstexprValues& config = {},
                             const PassObserver& observer = {});

// The same for a GPU, in chunks that a block holds in registers, and with long stores cut too (launches/stores.h).
// Kernels of steps are complete: behind the kernel's own parameters they have but a pointer to the workspace, and
// their own grids (launches/bind.h).
LaunchSequence make_gpu_launches(dsl::Kernel kernel, const dsl::ConstexprValues& config,
                                 const PassObserver& observer = {});

// What is cut, in order; `gpu_bindings`: of sequences of several steps.
struct Cutting;  // a sequence on its way
struct CutPass {
  std::string_view name;
  void (*run)(Cutting& cut);
  std::string_view place;
};
std::span<const CutPass> cpu_cuts();
std::span<const CutPass> gpu_cuts();
std::span<const CutPass> gpu_bindings();

// The entry of the last step is this name, and those of the others are made of it.
void name_entries(LaunchSequence& sequence, const std::string& name);

// Its steps as text, each behind a line with its entry.
std::string print(const LaunchSequence& sequence);

}  // namespace kiln::codegen
