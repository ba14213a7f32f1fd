// CPUs: all launches of a kernel are functions of one module, each a loop over programs.
#include "backend.h"

#include "cpu/custom.h"
#include "cpu/f16_bits.h"
#include "cpu/frozen_gathers.h"
#include "cpu/pair_orders.h"
#include "cpu/single_stores.h"
#include "cpu/wide_roundings.h"
#include "emit.h"
#include "reports.h"
#include "supported.h"

namespace kiln::codegen::cpu {
namespace {

constexpr std::string_view kForms[] = {"so", abi::kQuickEmit, "obj", "asm", "llvm"};
constexpr dsl::CodeForm kCustomForms[] = {dsl::CodeForm::kLlvmIr};

CpuTarget& target_of(const Job& job) { return **cpu_target(job.request.target); }

// LLVM's code generator without its optimisations while this lives: half to three quarters of a compile's time, for
// code that keeps its values in memory.
class QuickCode {
 public:
  QuickCode(llvm::TargetMachine& machine, bool wanted) : machine_(machine), level_(machine.getOptLevel()) {
    if (wanted) machine_.setOptLevel(llvm::CodeGenOptLevel::None);
  }
  ~QuickCode() { machine_.setOptLevel(level_); }
  QuickCode(const QuickCode&) = delete;
  QuickCode& operator=(const QuickCode&) = delete;

 private:
  llvm::TargetMachine& machine_;
  const llvm::CodeGenOptLevel level_;
};

Result<void> check_target(const std::string& name) {
  auto target = cpu_target(name);
  return target ? Result<void>() : target.error();
}

target::Processor processor_of(const CpuTarget& target) {
  const target::Family family = target.is_x86 ? target::Family::kX86 : target::Family::kAarch64;
  return {.family = family, .cpu = target::cpu_units(family, target.needs)};
}

// Without an FMA instruction a contraction would be a library call a lane.
void restrict_options(const std::string& target, dsl::KernelOptions& options) {
  if (!(*cpu_target(target))->has_fma) options.contract = false;
}

Result<void> lower(const Backend& self, Job& job) {
  job.observer.begin("lower");
  CpuTarget& target = target_of(job);
  job.module.setTargetTriple(target.machine->getTargetTriple());
  job.module.setDataLayout(target.machine->createDataLayout());
  auto lowered = cpu::lower(job.sequence, target, job.module);
  if (!lowered) return lowered.error();
  const CodeFacts facts{job, job.sequence.steps.back()};
  run_passes(self.lowered_passes, job.module, job.observer.passes, facts);
  if (auto valid = check_module(job.module); !valid) return valid;
  job.lowered = std::move(*lowered);
  job.observer.begin("optimise");
  run_passes(self.llvm_passes, job.module, job.observer.passes, facts);
  return {};
}

constexpr CodePass kLoweredPasses[] = {
    {"hold_f16_as_bits",
     [](llvm::Module& module, const CodeFacts& facts) {
       if (!target_of(facts.job).has_f16c) hold_f16_as_bits(module);
     },
     "before any pass of LLVM's makes fneg and fabs of what flips and clears signs"},
};

constexpr CodePass kLlvmPasses[] = {
    {"clean_up",
     [](llvm::Module& module, const CodeFacts& facts) {
       clean_up(module, *target_of(facts.job).machine, Invariants::kInPlace);
     },
     "code is final but for what lowering writes down plainly"},
    {"store_single_lanes",
     [](llvm::Module& module, const CodeFacts&) {
       for (llvm::Function& function : module) store_single_lanes(function);
     },
     "after clean_up, by which masks become constants"},
    {"widen_roundings",
     [](llvm::Module& module, const CodeFacts& facts) {
       if (!target_of(facts.job).is_x86) return;
       for (llvm::Function& function : module) widen_roundings(function);
     },
     "after clean_up, which takes the conversions away"},
    {"order_pairs",
     [](llvm::Module& module, const CodeFacts& facts) {
       const CpuTarget& target = target_of(facts.job);
       if (!target.is_x86 || target.vector_bytes != 32) return;
       for (llvm::Function& function : module) order_pairs(function);
     },
     "after clean_up, which makes one shuffle of several"},
    {"freeze_gathers",
     [](llvm::Module& module, const CodeFacts& facts) {
       if (target_of(facts.job).sve_bits <= 128) return;
       for (llvm::Function& function : module) freeze_gathers(function);
     },
     "after clean_up, which takes away what it sees no use for"},
};

Result<std::vector<std::byte>> make_code(Job& job) {
  const std::string& form = job.request.emit;
  CpuTarget& target = target_of(job);
  job.observer.begin("codegen");
  const QuickCode level(*target.machine, form == abi::kQuickEmit);
  if (form == "llvm") return to_bytes(print_module(job.module));
  if (form == "asm") {
    auto text = emit_assembly(job.module, target);
    return text ? Result<std::vector<std::byte>>(to_bytes(*text)) : text.error();
  }
  auto object = emit_object(job.module, target);
  if (!object || form == "obj") return object;
  if (auto fine = job.diagnostics.check(); !fine) return fine.error();
  job.observer.begin("link");
  return link_shared(*object);
}

Result<Code> emit(Job& job) {
  auto bytes = make_code(job);
  if (!bytes) return bytes.error();
  const auto& lowered = std::get<Lowered>(job.lowered);
  const CpuTarget& target = target_of(job);
  job.metadata.needs = {target.machine->getTargetTriple().getArchName().str(), target.needs};
  job.metadata.scratch_bytes = static_cast<int64_t>(lowered.scratch_bytes);
  job.metadata.entry = job.sequence.steps.back().entry;
  describe_launch(job.sequence, lowered, job.metadata);
  return Code{std::move(*bytes)};
}

}  // namespace

const Backend& backend() {
  static const Backend out{.family = "cpu",
                           .forms = kForms,
                           .names_entries = true,
                           .initialise = [](const Outside&) { initialise_llvm(); },
                           .check_target = check_target,
                           .restrict_options = restrict_options,
                           .check_supported =
                               [](const dsl::Kernel& kernel, const std::string& name) {
                                 return codegen::check_supported(kernel, processor_of(**cpu_target(name)), name);
                               },
                           .tile_passes = cpu_passes(),
                           .cut = make_launches,
                           .lower = lower,
                           .lowered_passes = kLoweredPasses,
                           .llvm_passes = kLlvmPasses,
                           .emit = emit,
                           .custom_forms = kCustomForms,
                           .compile_custom = compile_custom};
  return out;
}

}  // namespace kiln::codegen::cpu
