#include "gpu/lower_plan.h"

#include <llvm/Linker/Linker.h>

#include "backend.h"

namespace kiln::codegen::gpu {

Result<LoweredPlan> lower_plan(const Plan& plan, llvm::Module& module, const LowerStage& lower_stage) {
  LoweredPlan out;
  const bool has_several = plan.stages.size() > 1;
  if (has_several) out.workspace_bytes = plan.workspace_bytes;
  for (const Stage& stage : plan.stages) {
    const bool is_first = &stage == &plan.stages.front();
    std::unique_ptr<llvm::Module> own;
    if (!is_first) {
      own = std::make_unique<llvm::Module>(stage.entry, module.getContext());
      own->setTargetTriple(module.getTargetTriple());
      own->setDataLayout(module.getDataLayout());
    }
    auto lowered = lower_stage(stage, is_first ? module : *own);
    if (!lowered) return lowered.error();
    // Maps describe arguments, and stand behind the workspace's pointer: stages that have none have no use for them.
    if (!is_first && !lowered->tensor_maps.empty()) return internal_error("a later stage of a plan has tensor maps");
    if (own && llvm::Linker::linkModules(module, std::move(own))) return internal_error("stages do not link");
    if (has_several) out.stages.push_back({stage.entry, stage.chunks, lowered->threads, lowered->shared_bytes});
    if (is_first) out.first = std::move(*lowered);
  }
  return out;
}

Result<void> lower_launches(const Backend& backend, Job& job, const TargetInfo& target, const std::string& processor) {
  const PassObserver& passes = job.observer.passes;
  auto lowered = lower_plan(job.plan, job.module, [&](const Stage& launch, llvm::Module& module) -> Result<Lowered> {
    job.observer.begin("lower");
    if (passes.launch) passes.launch(launch.entry);
    const auto shape = backend.choose_shape(job, launch);
    if (!shape) return shape.error();
    auto function = lower(launch.kernel, target, *shape, processor, module, launch.entry, passes);
    if (!function) return function;
    const CodeFacts facts{job, launch, function->shared_bytes};
    run_passes(backend.lowered_passes, module, passes, facts);
    if (auto valid = check_module(module); !valid) return valid.error();
    job.observer.begin("optimise");
    run_passes(backend.llvm_passes, module, passes, facts);
    return function;
  });
  if (!lowered) return lowered.error();
  job.lowered = std::move(*lowered);
  return {};
}

}  // namespace kiln::codegen::gpu
