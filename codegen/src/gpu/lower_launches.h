// A kernel of several launches (launches/launch_sequence.h) as functions of one module, with the same parameters.
#pragma once

#include "gpu/lower.h"
#include "launches/launch_sequence.h"

namespace kiln::codegen {

struct Backend;
struct Job;

namespace gpu {

struct LoweredStep {
  std::string entry;
  int64_t chunks = 1;
  int threads = 0;
  int64_t shared_bytes = 0;
};

struct LoweredSequence {
  Lowered first;                   // the first step, of most kernels the only one
  std::vector<LoweredStep> steps;  // where there are several
  int64_t workspace_bytes = 0;
};

// `lower_step` makes a step's function in a module, and all of it that has to be done by itself: what it names does
// not meet what another step names so. `module` gets all functions.
using LowerStep = std::function<Result<Lowered>(const LaunchStep& step, llvm::Module& module)>;
Result<LoweredSequence> lower_sequence(const LaunchSequence& sequence, llvm::Module& module,
                                       const LowerStep& lower_step);

// Of backend.h: `Backend::lower` of GPUs.
Result<void> lower_launches(const Backend& backend, Job& job, const TargetInfo& target, const std::string& processor);

}  // namespace gpu

}  // namespace kiln::codegen
