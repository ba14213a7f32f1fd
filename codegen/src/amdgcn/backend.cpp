// AMD's GPUs: code objects by LLVM, whose assembler is its own.
#include "backend.h"

#include <llvm/Analysis/ConstantFolding.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>

#include <algorithm>

#include "amdgcn/custom.h"
#include "amdgcn/metadata.h"
#include "amdgcn/target.h"
#include "amdgcn/target_info.h"
#include "amdgcn/zero_signs.h"
#include "emit.h"
#include "gpu/llvm_passes/compute_late.h"
#include "gpu/llvm_passes/parts.h"
#include "gpu/llvm_passes/read_late.h"
#include "gpu/shared/shared_memory.h"
#include "kiln/dsl/config.h"
#include "reports.h"
#include "supported.h"

namespace kiln::codegen::amdgcn {
namespace {

constexpr std::string_view kForms[] = {"hsaco", "obj", "asm", "llvm"};
constexpr dsl::CodeForm kCustomForms[] = {dsl::CodeForm::kAmdAssembly, dsl::CodeForm::kLlvmIr};
using target::kMostThreads;

// What a function is passed unless its attributes say that it has no use for it ("AMDGPU Usage", "amdgpu-no-…").
constexpr const char* kKernelInputs[] = {"dispatch-ptr",   "queue-ptr",          "dispatch-id",   "workgroup-id-x",
                                         "workgroup-id-y", "workgroup-id-z",     "workitem-id-x", "workitem-id-y",
                                         "workitem-id-z",  "implicitarg-ptr",    "lds-kernel-id", "hostcall-ptr",
                                         "heap-ptr",       "multigrid-sync-arg", "default-queue", "completion-action"};

AmdTarget& target_of(const Job& job) { return **amd_target(job.request.target); }

Result<void> check_target(const std::string& name) {
  auto target = amd_target(name);
  return target ? Result<void>() : target.error();
}

std::optional<int> option(const Job& job, std::string_view name) {
  const auto given = job.request.constexprs.find(std::string(name));
  if (given == job.request.constexprs.end()) return std::nullopt;
  return static_cast<int>(given->second);
}

Result<gpu::LaunchShape> choose_shape(const Job& job, const LaunchStep& launch) {
  const Processor& processor = target_of(job).processor;
  gpu::LaunchShape out = job.sequence.steps.size() == 1
                             ? gpu::launch_shape(launch.kernel, job.config(), processor.lanes)
                             : gpu::step_shape(launch.kernel, job.config(), processor.lanes);
  out.programs = 1;  // a workgroup of one wave is as cheap as a wave of a larger one
  if (out.warps * processor.lanes > kMostThreads) {
    return invalid_argument("`num_warps` is " + std::to_string(out.warps) + ": " + processor.name +
                            " has workgroups of " + std::to_string(kMostThreads / processor.lanes) + " waves at most");
  }
  return out;
}

Result<void> lower(const Backend& self, Job& job) {
  const AmdTarget& target = target_of(job);
  job.module.setTargetTriple(target.machine->getTargetTriple());
  job.module.setDataLayout(target.machine->createDataLayout());
  job.module.addModuleFlag(llvm::Module::Error, kCodeObjectVersionFlag, kCodeObjectVersion);
  const AmdTargetInfo info(target, option(job, dsl::kChiplets).value_or(1));
  return gpu::lower_launches(self, job, info, target.processor.name);
}

// Shared memory as the code object's own, so that its descriptor says how much there is: a launch adds none.
void size_shared_memory(llvm::Module& module, int64_t bytes) {
  llvm::GlobalVariable* dynamic = nullptr;
  for (llvm::GlobalVariable& global : module.globals()) {
    if (global.getAddressSpace() == gpu::kSharedSpace) dynamic = &global;
  }
  if (!dynamic) return;
  auto* type = llvm::ArrayType::get(llvm::Type::getInt8Ty(module.getContext()), static_cast<uint64_t>(bytes));
  auto* sized =
      new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage, llvm::PoisonValue::get(type),
                               "", nullptr, llvm::GlobalValue::NotThreadLocal, gpu::kSharedSpace);
  sized->setAlignment(dynamic->getAlign());
  sized->takeName(dynamic);
  dynamic->replaceAllUsesWith(sized);
  dynamic->eraseFromParent();
}

bool has_several_calls(const llvm::Function& function) {
  return function.hasFnAttribute(llvm::Attribute::NoInline) && function.hasNUsesOrMore(2);
}

// A function of values, of which there are several calls, stays one: called, it takes registers alone, and nothing of
// what a kernel is told of itself. Another's frame, or what it keeps for another call, would cost a stack.
bool stays_function(const llvm::Function& function) {
  const auto is_value = [](const llvm::Argument& argument) { return !argument.getType()->isPointerTy(); };
  const bool is_called_by_another = llvm::any_of(function.users(), [](const llvm::User* user) {
    const auto* call = llvm::dyn_cast<llvm::CallInst>(user);
    return call && has_several_calls(*call->getFunction());
  });
  return has_several_calls(function) && !is_called_by_another && std::ranges::all_of(function.args(), is_value);
}

void inline_functions(llvm::Module& module) {
  llvm::SmallVector<llvm::Function*> staying, others;
  for (llvm::Function& function : module) {
    if (function.hasFnAttribute(gpu::kPartAttribute)) continue;
    if (function.hasInternalLinkage()) (stays_function(function) ? staying : others).push_back(&function);
  }
  for (llvm::Function* function : staying) {
    function->addFnAttr(llvm::Attribute::NoRecurse);  // else a stack of any size would be asked for
    for (const char* input : kKernelInputs) function->addFnAttr(std::string("amdgpu-no-") + input);
  }
  for (llvm::Function* function : others) {
    function->removeFnAttr(llvm::Attribute::NoInline);
    function->addFnAttr(llvm::Attribute::AlwaysInline);
  }
}

bool has_matrix_instructions(const llvm::Module& module) {
  return llvm::any_of(module, [](const llvm::Function& function) {
    return function.getName().starts_with("llvm.amdgcn.mfma.") || function.getName().starts_with("llvm.amdgcn.wmma.");
  });
}

// LLVM's AMDGPUCodeGenPrepare takes for granted that casts of constants can be folded, which those of expressions
// that nobody folded yet cannot: it crashes.
void fold_expressions(llvm::Function& function) {
  const llvm::DataLayout& layout = function.getParent()->getDataLayout();
  for (llvm::Instruction& instruction : llvm::instructions(function)) {
    for (llvm::Use& use : instruction.operands()) {
      auto* expression = llvm::dyn_cast<llvm::ConstantExpr>(use);
      if (!expression) continue;
      if (llvm::Constant* folded = llvm::ConstantFoldConstant(expression, layout)) use.set(folded);
    }
  }
}

// Where a wave may have more than 256 registers, a mode says which of them an instruction means (s_set_vgpr_msb). On
// the emulator two products that used it were wrong, and it is not known whether by the code or by the emulator.
constexpr int kRegistersByNumber = 256;

void limit_registers(llvm::Module& module, const Processor& processor) {
  if (processor.matrix != target::AmdMatrix::kWmma1250) return;
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) function.addFnAttr("amdgpu-num-vgpr", std::to_string(kRegistersByNumber));
  }
}

constexpr CodePass kLoweredPasses[] = {
    {"size_shared_memory",
     [](llvm::Module& module, const CodeFacts& facts) { size_shared_memory(module, facts.shared_bytes); },
     "once it is known how much there is"},
    {"split_into_parts",
     [](llvm::Module& module, const CodeFacts& facts) {
       if (facts.may_be_parted()) gpu::split_into_parts(facts.entry(module));
     },
     "before LLVM's passes, which take a time that grows faster than a function"},
    {"limit_registers",
     [](llvm::Module& module, const CodeFacts& facts) {
       const auto waves = option(facts.job, dsl::kWavesPerEu);
       if (waves) facts.entry(module).addFnAttr("amdgpu-waves-per-eu", std::to_string(*waves));
       limit_registers(module, target_of(facts.job).processor);
     },
     "before code generation, which reads the attribute"},
};

constexpr CodePass kLlvmPasses[] = {
    {"inline_functions", [](llvm::Module& module, const CodeFacts&) { inline_functions(module); },
     "before clean_up, which inlines what this marks"},
    {"clean_up",
     [](llvm::Module& module, const CodeFacts& facts) {
       clean_up(module, *target_of(facts.job).machine, Invariants::kHoist);
     },
     "before what must not be turned round again"},
    {"compute_late",
     [](llvm::Module& module, const CodeFacts& facts) { gpu::compute_late(facts.entry(module), facts.has_products()); },
     "behind clean_up, whose order of computations it changes"},
    {"read_late",
     [](llvm::Module& module, const CodeFacts& facts) {
       if (!has_matrix_instructions(module)) gpu::read_late(facts.entry(module));
     },
     "behind clean_up, which hoists the addresses that this computes again"},
    {"keep_signs_of_zeros",
     [](llvm::Module& module, const CodeFacts&) {
       for (llvm::Function& function : module) keep_signs_of_zeros(function);
     },
     "behind clean_up, which would make multiplications of it again"},
    {"fold_expressions",
     [](llvm::Module& module, const CodeFacts&) {
       for (llvm::Function& function : module) fold_expressions(function);
     },
     "last: code generation takes for granted that expressions are folded"},
};

Result<llvm::SmallVector<char, 0>> emit_file(Job& job, llvm::CodeGenFileType type) {
  AmdTarget& target = target_of(job);
  std::unique_ptr<CodeGenerator>& generator = target.generators[type];
  if (!generator) generator = CodeGenerator::create(*target.machine, type);
  if (!generator) return internal_error("LLVM's AMDGPU target cannot emit this file type");
  llvm::SmallVector<char, 0> file = generator->emit(job.module);
  if (auto fine = job.diagnostics.check(); !fine) {
    generator = nullptr;
    return fine.error();
  }
  // What writes text remembers the section that it wrote last, and would begin the next file without `.text`.
  if (type == llvm::CodeGenFileType::AssemblyFile) generator = nullptr;
  return file;
}

Result<Code> emit(Job& job) {
  auto& lowered = std::get<gpu::LoweredSequence>(job.lowered);
  abi::Device& device = job.metadata.device.emplace();
  device.threads = lowered.first.threads;
  device.shared_bytes = 0;  // beyond what the code object's descriptor says
  for (gpu::LoweredStep& step : lowered.steps) step.shared_bytes = 0;
  describe_launches(lowered, job.metadata);
  const std::string& form = job.request.emit;
  if (form == "llvm") return Code{to_bytes(print_module(job.module))};
  job.observer.begin("codegen");
  auto file = emit_file(job, form == "asm" ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile);
  if (!file) return file.error();
  Code out{to_bytes({file->data(), file->size()})};
  if (form != "hsaco") return out;
  job.observer.begin("link");
  auto linked = link_shared(out.bytes);
  if (!linked) return linked.error();
  out.bytes = std::move(*linked);
  auto resources = read_resources(out.bytes);
  if (!resources) return resources.error();
  describe(*resources, target_of(job).processor, device);
  return out;
}

}  // namespace

const Backend& backend() {
  static const Backend out{.family = "amd",
                           .forms = kForms,
                           .initialise = [](const Outside&) { initialise_llvm(); },
                           .check_target = check_target,
                           .check_supported =
                               [](const dsl::Kernel& kernel, const std::string& target) {
                                 const Processor& on = (*amd_target(target))->processor;
                                 return codegen::check_supported(kernel, {.family = target::Family::kAmd, .amd = &on},
                                                                 on.name);
                               },
                           .tile_passes = {},
                           .cut = make_gpu_launches,
                           .choose_shape = choose_shape,
                           .lower = lower,
                           .lowered_passes = kLoweredPasses,
                           .llvm_passes = kLlvmPasses,
                           .emit = emit,
                           .custom_forms = kCustomForms,
                           .compile_custom = compile_custom};
  return out;
}

}  // namespace kiln::codegen::amdgcn
