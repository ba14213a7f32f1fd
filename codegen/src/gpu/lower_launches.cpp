#include "gpu/lower_launches.h"

#include <llvm/Linker/Linker.h>

#include "backend.h"

namespace kiln::codegen::gpu {

Result<LoweredSequence> lower_sequence(const LaunchSequence& sequence, llvm::Module& module,
                                       const LowerStep& lower_step) {
  LoweredSequence out;
  const bool has_several = sequence.steps.size() > 1;
  if (has_several) out.workspace_bytes = sequence.workspace_bytes;
  for (const LaunchStep& step : sequence.steps) {
    const bool is_first = &step == &sequence.steps.front();
    std::unique_ptr<llvm::Module> own;
    if (!is_first) {
      own = std::make_unique<llvm::Module>(step.entry, module.getContext());
      own->setTargetTriple(module.getTargetTriple());
      own->setDataLayout(module.getDataLayout());
    }
    auto lowered = lower_step(step, is_first ? module : *own);
    if (!lowered) return lowered.error();
    // Maps describe arguments, and stand behind the workspace's pointer: steps that have none have no use for them.
    if (!is_first && !lowered->tensor_maps.empty()) return internal_error("a later stage of a plan has tensor maps");
    if (own && llvm::Linker::linkModules(module, std::move(own))) return internal_error("stages do not link");
    if (has_several) out.steps.push_back({step.entry, step.chunks, lowered->threads, lowered->shared_bytes});
    if (is_first) out.first = std::move(*lowered);
  }
  return out;
}

Result<void> lower_launches(const Backend& backend, Job& job, const TargetInfo& target, const std::string& processor) {
  const PassObserver& passes = job.observer.passes;
  auto lowered =
      lower_sequence(job.sequence, job.module, [&](const LaunchStep& launch, llvm::Module& module) -> Result<Lowered> {
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
