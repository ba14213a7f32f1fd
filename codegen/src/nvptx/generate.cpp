#include "nvptx/generate.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Pass.h>
#include <llvm/Support/raw_ostream.h>

#include "emit.h"
#include "gpu/compute_late.h"
#include "gpu/launch_shape.h"
#include "gpu/parts.h"
#include "gpu/supported.h"
#include "kiln/dsl/config.h"
#include "nvptx/byte_conversions.h"
#include "nvptx/exact_signs.h"
#include "nvptx/grid_wait.h"
#include "nvptx/inline_division.h"
#include "nvptx/occupancy.h"
#include "nvptx/paired_conversions.h"
#include "nvptx/target_info.h"
#include "nvptx/uniform_branches.h"
#include "plan.h"

namespace kiln::codegen::nvptx {
namespace {

// Passes of LLVM's code generator by whose work short code gains little: ptxas optimises what it is given, and what
// they take is up to half of the time.
constexpr llvm::StringLiteral kLeftOut[] = {
    "CodeGen Prepare",
    "Early CSE",
    "GPU Load and Store Vectorizer",
    "Loop Strength Reduction",
    "Machine Common Subexpression Elimination",
    "Nary reassociation",
    "Speculatively execute instructions",
    "Split GEPs to a variadic base and a constant offset for better CSE",
    "Straight line strength reduction",
};

// Code of so many instructions goes without them too: they take time that grows faster than it does.
constexpr unsigned kLongCode = 32768;

class CodePasses : public llvm::legacy::PassManager {
 public:
  explicit CodePasses(gpu::Effort effort) : effort_(effort) {}
  void add(llvm::Pass* pass) override {
    if (effort_ == gpu::Effort::kShort && llvm::is_contained(kLeftOut, pass->getPassName())) {
      delete pass;
    } else {
      llvm::legacy::PassManager::add(pass);
    }
  }

 private:
  gpu::Effort effort_;
};

Result<std::string> emit_ptx(llvm::Module& module, llvm::TargetMachine& machine, gpu::Effort effort) {
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  CodePasses passes(module.getInstructionCount() > kLongCode ? gpu::Effort::kShort : effort);
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    return internal_error("LLVM's NVPTX target cannot emit assembly");
  }
  passes.run(module);
  return say_uniform(std::string(buffer.begin(), buffer.end()));
}

int64_t spilled_bytes(const std::optional<Resources>& resources) {
  return resources ? resources->spill_store_bytes + resources->spill_load_bytes : 0;
}

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

// From the tile IR of a stage to LLVM IR that is ready to become PTX.
Result<gpu::Lowered> lower_stage(const Stage& stage, const gpu::LaunchShape& launch, const CudaTarget& target,
                                 llvm::Module& module, const std::function<void(std::string_view)>& begin) {
  begin("lower");
  auto lowered = gpu::lower(stage.kernel, CudaTargetInfo(target), launch, target.processor, module, stage.entry);
  if (!lowered) return lowered;
  if (!gpu::has_products(stage.kernel.body)) gpu::split_into_parts(*module.getFunction(stage.entry));
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(module, &stream)) return internal_error("the compiler made invalid LLVM IR: " + message);

  begin("optimise");
  inline_divisions(module, target.capability == 80 || target.capability == 90);
  for (llvm::Function& function : module) pair_conversions(function);
  clean_up(module, *target.machine, launch.effort == gpu::Effort::kShort ? Invariants::kLeave : Invariants::kHoist);
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    convert_bytes_by_addition(function);
    gpu::compute_late(function, gpu::has_products(stage.kernel.body));
    make_signs_exact(function);
  }
  if (target.capability >= kLeastWaitingCapability) wait_for_earlier_grids(*module.getFunction(stage.entry));
  return lowered;
}

}  // namespace

Result<Generated> generate(const dsl::Kernel& kernel, const CudaTarget& target, const dsl::ConstexprValues& config,
                           gpu::Effort effort, const std::string& emit,
                           const std::function<void(std::string_view)>& begin) {
  if (auto fine = gpu::check_supported(kernel, target.processor); !fine) return fine.error();
  llvm::LLVMContext context;
  llvm::Module module("kiln", context);
  module.setTargetTriple(target.machine->getTargetTriple().str());
  module.setDataLayout(target.machine->createDataLayout());
  const Plan plan = make_gpu_plan(kernel, config);
  const int lanes = CudaTargetInfo(target).lanes();
  auto lowered = gpu::lower_plan(plan, module, [&](const Stage& stage, llvm::Module& own) {
    const bool is_alone = plan.stages.size() == 1;
    auto launch =
        is_alone ? gpu::launch_shape(stage.kernel, config, lanes) : gpu::stage_shape(stage.kernel, config, lanes);
    launch.effort = effort;
    return lower_stage(stage, launch, target, own, begin);
  });
  if (!lowered) return lowered.error();
  Generated out{std::move(*lowered), {}, emit, {}};
  if (emit == "llvm") {
    out.code = to_bytes(print_module(module));
    return out;
  }
  begin("codegen");
  auto ptx = emit_ptx(module, *target.machine, effort);
  if (!ptx) return ptx.error();
  if (emit == "cubin") {
    begin("assemble");
    const bool lines = kernel.options.names_lines();
    const gpu::Lowered& first = out.plan.first;
    const BlockNeeds needs = {first.threads, first.shared_bytes, gpu::largest_load(*first.kernel) * first.programs};
    auto assembled = gpu::has_products(kernel.body)
                         ? assemble_for_products(*ptx, target.processor, target.capability, needs, lines)
                         : assemble_for_memory(*ptx, target.processor, target.capability, needs, lines);
    if (!assembled) return assembled.error();
    if (*assembled && (*assembled)->resources.ignores_registers()) {
      // The program's warps would have too few: they copy by themselves.
      dsl::ConstexprValues without = config;
      without.erase(std::string(dsl::kWarpSpecialise));
      return generate(kernel, target, without, effort, emit, begin);
    }
    if (*assembled && effort == gpu::Effort::kShort && spilled_bytes((*assembled)->resources) > 0) {
      // Short code that is short of registers bridges nothing well.
      auto fast = generate(kernel, target, config, gpu::Effort::kFast, emit, begin);
      if (!fast || spilled_bytes(fast->resources) < spilled_bytes((*assembled)->resources)) return fast;
    }
    if (*assembled) {
      out.code = std::move((*assembled)->cubin);
      out.resources = std::move((*assembled)->resources);
      return out;
    }
  }
  out.emitted = "ptx";
  out.code = to_bytes(*ptx);
  return out;
}

}  // namespace kiln::codegen::nvptx
