// A kernel of several launches (launches/launch_sequence.h) as functions of one module, with the same parameters.
#pragma once

#include "gpu/lower.h"
#include "launches/launch_sequence.h"

namespace kiln::codegen {

struct Backend;
struct Job;

namespace gpu {

struct LoweredStage {
  std::string entry;
  int64_t chunks = 1;
  int threads = 0;
  int64_t shared_bytes = 0;
};

struct LoweredPlan {
  Lowered first;                     // the first stage, of most kernels the only one
  std::vector<LoweredStage> stages;  // where there are several
  int64_t workspace_bytes = 0;
};

// `lower_stage` makes a stage's function in a module, and all of it that has to be done by itself: what it names does
// not meet what another stage names so. `module` gets all functions.
using LowerStage = std::function<Result<Lowered>(const Stage& stage, llvm::Module& module)>;
Result<LoweredPlan> lower_plan(const Plan& plan, llvm::Module& module, const LowerStage& lower_stage);

// Of backend.h: `Backend::lower` of GPUs.
Result<void> lower_launches(const Backend& backend, Job& job, const TargetInfo& target, const std::string& processor);

}  // namespace gpu

}  // namespace kiln::codegen
