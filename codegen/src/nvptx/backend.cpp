// NVIDIA's GPUs: PTX by LLVM, and machine code where an assembler is at hand.
#include "backend.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Pass.h>
#include <llvm/Support/raw_ostream.h>

#include "emit.h"
#include "gpu/llvm_passes/compute_late.h"
#include "gpu/llvm_passes/parts.h"
#include "nvptx/asm.h"
#include "nvptx/byte_conversions.h"
#include "nvptx/custom.h"
#include "nvptx/exact_signs.h"
#include "nvptx/frozen_parameters.h"
#include "nvptx/grid_wait.h"
#include "nvptx/inline_division.h"
#include "nvptx/low_parts.h"
#include "nvptx/occupancy.h"
#include "nvptx/paired_conversions.h"
#include "nvptx/short_differences.h"
#include "nvptx/target_info.h"
#include "nvptx/uniform_branches.h"
#include "reports.h"
#include "supported.h"

namespace kiln::codegen::nvptx {
namespace {

constexpr std::string_view kForms[] = {"cubin", "ptx", "asm", "llvm"};
constexpr dsl::CodeForm kCustomForms[] = {dsl::CodeForm::kPtx, dsl::CodeForm::kLlvmIr};

CudaTarget& target_of(const Job& job) { return **cuda_target(job.request.target); }

void initialise(const Outside& outside) {
  initialise_llvm();
  load_assembler(outside);
}

Result<void> check_target(const std::string& name) {
  auto target = cuda_target(name);
  return target ? Result<void>() : target.error();
}

Result<gpu::LaunchShape> choose_shape(const Job& job, const LaunchStep& launch) {
  const int lanes = CudaTargetInfo(target_of(job)).lanes();
  gpu::LaunchShape out = job.sequence.steps.size() == 1 ? gpu::launch_shape(launch.kernel, job.config(), lanes)
                                                        : gpu::step_shape(launch.kernel, job.config(), lanes);
  out.effort = job.attempt.effort;
  return out;
}

Result<void> lower(const Backend& self, Job& job) {
  const CudaTarget& target = target_of(job);
  job.module.setTargetTriple(target.machine->getTargetTriple());
  job.module.setDataLayout(target.machine->createDataLayout());
  return gpu::lower_launches(self, job, CudaTargetInfo(target), target.processor);
}

template <void (*kRun)(llvm::Function&)>
void in_each_function(llvm::Module& module, const CodeFacts&) {
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) kRun(function);
  }
}

constexpr CodePass kLoweredPasses[] = {
    {"split_into_parts",
     [](llvm::Module& module, const CodeFacts& facts) {
       llvm::Function& entry = facts.entry(module);
       if (facts.may_be_parted() && !multiplies_in_groups(entry)) gpu::split_into_parts(entry);
     },
     "before LLVM's passes, which take a time that grows faster than a function"},
};

constexpr CodePass kLlvmPasses[] = {
    {"inline_divisions",
     [](llvm::Module& module, const CodeFacts& facts) {
       inline_divisions(module, target_of(facts.job).units().fast_f64);
     },
     "before clean_up, which shares what divisions by the same number have in common"},
    {"pair_conversions", in_each_function<pair_conversions>,
     "before clean_up, which takes away what was put together of bytes"},
    {"clean_up",
     [](llvm::Module& module, const CodeFacts& facts) {
       const bool is_short = facts.job.attempt.effort == gpu::Effort::kShort;
       clean_up(module, *target_of(facts.job).machine, is_short ? Invariants::kLeave : Invariants::kHoist);
     },
     "before what must not be turned round again"},
    {"convert_bytes_by_addition", in_each_function<convert_bytes_by_addition>,
     "behind clean_up: what is converted twice is one conversion by then"},
    {"compute_late",
     [](llvm::Module& module, const CodeFacts& facts) {
       for (llvm::Function& function : module) {
         if (!function.isDeclaration()) gpu::compute_late(function, facts.has_products());
       }
     },
     "behind clean_up, whose order of computations it changes"},
    {"shorten_differences", in_each_function<shorten_differences>, "late: what merges instructions would widen them"},
    {"freeze_parameters", in_each_function<freeze_parameters>, "late: what merges instructions would take it away"},
    {"take_low_parts", in_each_function<take_low_parts>, "late: it makes assembly, which no pass sees through"},
    {"make_signs_exact", in_each_function<make_signs_exact>, "late: it makes assembly, which no pass sees through"},
    {"wait_for_earlier_grids",
     [](llvm::Module& module, const CodeFacts& facts) {
       if (target_of(facts.job).units().waits_for_grids) wait_for_earlier_grids(facts.entry(module));
     },
     "last: before the first access to global memory, wherever that is by then"},
};

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

bool is_in_parts(const llvm::Module& module) {
  return llvm::any_of(module,
                      [](const llvm::Function& function) { return function.hasFnAttribute(gpu::kPartAttribute); });
}

// Code in parts takes the assembler seconds: it gets the registers that it gets at once.
Result<std::optional<Assembled>> assemble_job(const Job& job, const std::string& ptx) {
  const CudaTarget& target = target_of(job);
  const gpu::Lowered& first = std::get<gpu::LoweredSequence>(job.lowered).first;
  const dsl::Kernel& kernel = *first.kernel;
  const bool lines = job.request.kernel.options.names_lines();
  if (is_in_parts(job.module)) return assemble(ptx, target.gpu->name, lines);
  const BlockNeeds needs = {first.threads, first.shared_bytes, gpu::largest_load(kernel) * first.programs};
  const bool has_products = std::ranges::any_of(
      job.sequence.steps, [](const LaunchStep& launch) { return gpu::has_products(launch.kernel.body); });
  return has_products ? assemble_for_products(ptx, *target.gpu, needs, lines)
                      : assemble_for_memory(ptx, *target.gpu, needs, lines);
}

abi::Device describe_device(const gpu::Lowered& first, const std::optional<Resources>& resources,
                            const llvm::Module& module, const target::NvidiaGpu& gpu) {
  abi::Device device;
  device.threads = first.threads;
  device.shared_bytes = first.shared_bytes;
  device.waits = gpu.units.waits_for_grids && may_begin_early(module);
  if (first.persistent) {
    device.persistent = blocks_at_once(resources, {first.threads, first.shared_bytes}, gpu);
  }
  if (first.cluster > 1) device.cluster = {first.cluster, 1, 1};
  device.tensor_maps = first.tensor_maps;
  if (resources) {
    device.registers = resources->registers;
    device.spill_bytes = resources->spill_store_bytes + resources->spill_load_bytes;
    device.assembler_us = resources->assembler_us;
    device.warnings = resources->warnings;
  }
  return device;
}

Result<Code> emit_code(Job& job) {
  const auto describe = [&](const std::string& form, const std::optional<Resources>& resources) {
    const auto& lowered = std::get<gpu::LoweredSequence>(job.lowered);
    job.metadata.emit = form;
    job.metadata.device = describe_device(lowered.first, resources, job.module, *target_of(job).gpu);
    describe_launches(lowered, job.metadata);
  };
  const std::string& form = job.request.emit;
  if (form == "llvm") {
    describe(form, {});
    return Code{to_bytes(print_module(job.module))};
  }
  job.observer.begin("codegen");
  auto ptx = emit_ptx(job.module, *target_of(job).machine, job.attempt.effort);
  if (!ptx) return ptx.error();
  if (form == "cubin" && !target_of(job).is_ptx_only) {
    job.observer.begin("assemble");
    auto assembled = assemble_job(job, *ptx);
    if (!assembled) return assembled.error();
    if (*assembled) {
      const Resources& resources = (*assembled)->resources;
      describe(form, resources);
      return Code{std::move((*assembled)->cubin), resources.spill_store_bytes + resources.spill_load_bytes,
                  resources.ignores_registers()};
    }
  }
  describe("ptx", {});
  return Code{to_bytes(*ptx)};
}

}  // namespace

const Backend& backend() {
  static const Backend out{.family = "cuda",
                           .forms = kForms,
                           .initialise = initialise,
                           .start_helpers = start_assembler,
                           .check_target = check_target,
                           .check_supported =
                               [](const dsl::Kernel& kernel, const std::string& target) {
                                 const CudaTarget& on = **cuda_target(target);
                                 return codegen::check_supported(
                                     kernel, {.family = target::Family::kNvidia, .nvidia = on.gpu}, on.processor);
                               },
                           .tile_passes = {},
                           .cut = make_gpu_launches,
                           .choose_shape = choose_shape,
                           .lower = lower,
                           .lowered_passes = kLoweredPasses,
                           .llvm_passes = kLlvmPasses,
                           .emit = emit_code,
                           .custom_forms = kCustomForms,
                           .compile_custom = compile_custom};
  return out;
}

}  // namespace kiln::codegen::nvptx
