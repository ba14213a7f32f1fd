#include "amdgcn/generate.h"

#include <llvm/Analysis/ConstantFolding.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

#include "amdgcn/metadata.h"
#include "amdgcn/target.h"
#include "amdgcn/target_info.h"
#include "amdgcn/zero_signs.h"
#include "emit.h"
#include "gpu/compute_late.h"
#include "gpu/launch_shape.h"
#include "gpu/parts.h"
#include "gpu/read_late.h"
#include "gpu/shared_memory.h"
#include "gpu/supported.h"
#include "kiln/dsl/config.h"
#include "plan.h"

namespace kiln::codegen::amdgcn {
namespace {

constexpr int kCodeObjectVersion = 500;
using target::kMostThreads;

// What a function is passed unless its attributes say that it has no use for it ("AMDGPU Usage", "amdgpu-no-…").
constexpr const char* kKernelInputs[] = {"dispatch-ptr",   "queue-ptr",          "dispatch-id",   "workgroup-id-x",
                                         "workgroup-id-y", "workgroup-id-z",     "workitem-id-x", "workitem-id-y",
                                         "workitem-id-z",  "implicitarg-ptr",    "lds-kernel-id", "hostcall-ptr",
                                         "heap-ptr",       "multigrid-sync-arg", "default-queue", "completion-action"};

// What LLVM's code generator says. It ends the process at an error unless somebody listens.
class Diagnostics {
 public:
  explicit Diagnostics(llvm::LLVMContext& context) { context.setDiagnosticHandlerCallBack(&Diagnostics::note, this); }
  Diagnostics(const Diagnostics&) = delete;
  Diagnostics& operator=(const Diagnostics&) = delete;

  const std::string& errors() const { return errors_; }

 private:
  static void note(const llvm::DiagnosticInfo* info, void* self) {
    if (info->getSeverity() != llvm::DS_Error) return;
    std::string& errors = static_cast<Diagnostics*>(self)->errors_;
    llvm::raw_string_ostream stream(errors);
    if (!errors.empty()) stream << "; ";
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info->print(printer);
  }

  std::string errors_;
};

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

Result<llvm::SmallVector<char, 0>> emit_file(llvm::Module& module, AmdTarget& target, llvm::CodeGenFileType type,
                                             const Diagnostics& diagnostics) {
  std::unique_ptr<CodeGenerator>& generator = target.generators[type];
  if (!generator) generator = CodeGenerator::create(*target.machine, type);
  if (!generator) return internal_error("LLVM's AMDGPU target cannot emit this file type");
  llvm::SmallVector<char, 0> file = generator->emit(module);
  if (diagnostics.errors().empty()) return file;
  generator = nullptr;
  return error(ErrorCode::kCompileFailed, "LLVM: " + diagnostics.errors());
}

template <class Text>
std::vector<std::byte> to_bytes(const Text& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

void describe(const Resources& resources, const Processor& processor, abi::Device& device) {
  device.registers = resources.registers;
  device.accumulator_registers = resources.accumulator_registers;
  device.scalar_registers = resources.scalar_registers;
  device.lds_bytes = resources.lds_bytes;
  device.scratch_bytes = resources.scratch_bytes;
  // Scalar ones go to lanes of vector registers, not to memory.
  device.spill_bytes = 4 * resources.vector_spills;
  device.scalar_spills = resources.scalar_spills;
  device.waves_per_simd = waves_per_simd(resources, processor, static_cast<int>(*device.threads));
}

Result<gpu::Generated> emit_code(llvm::Module& module, AmdTarget& target, gpu::Generated out,
                                 const Diagnostics& diagnostics, const gpu::PhaseBegin& begin) {
  if (out.emitted == "llvm") {
    out.code = to_bytes(print_module(module));
    return out;
  }
  begin("codegen");
  const bool is_text = out.emitted == "asm";
  auto file = emit_file(module, target,
                        is_text ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile, diagnostics);
  if (!file) return file.error();
  out.code = to_bytes(*file);
  if (out.emitted != "hsaco") return out;
  begin("link");
  auto linked = link_shared(out.code);
  if (!linked) return linked.error();
  out.code = std::move(*linked);
  auto resources = read_resources(out.code);
  if (!resources) return resources.error();
  describe(*resources, target.processor, out.device);
  return out;
}

// LLVM 19's AMDGPUCodeGenPrepare takes for granted that casts of constants can be folded, which those of expressions
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

// From the tile IR of a stage to LLVM IR that is ready to become machine code.
Result<gpu::Lowered> lower_stage(const Stage& stage, bool is_alone, AmdTarget& target,
                                 const dsl::ConstexprValues& config, llvm::Module& module,
                                 const gpu::PhaseBegin& begin) {
  begin("lower");
  const auto chiplets = config.find(std::string(dsl::kChiplets));
  const AmdTargetInfo info(target, chiplets == config.end() ? 1 : static_cast<int>(chiplets->second));
  gpu::LaunchShape launch = is_alone ? gpu::launch_shape(stage.kernel, config, info.lanes())
                                     : gpu::stage_shape(stage.kernel, config, info.lanes());
  launch.programs = 1;  // a workgroup of one wave is as cheap as a wave of a larger one
  if (launch.warps * info.lanes() > kMostThreads) {
    return invalid_argument("`num_warps` is " + std::to_string(launch.warps) + ": " + target.processor.name +
                            " has workgroups of " + std::to_string(kMostThreads / info.lanes()) + " waves at most");
  }
  auto lowered = gpu::lower(stage.kernel, info, launch, target.processor.name, module, stage.entry);
  if (!lowered) return lowered;
  size_shared_memory(module, lowered->shared_bytes);
  llvm::Function& entry = *module.getFunction(stage.entry);
  if (!gpu::has_products(stage.kernel.body)) gpu::split_into_parts(entry);
  if (const auto waves = config.find(std::string(dsl::kWavesPerEu)); waves != config.end()) {
    entry.addFnAttr("amdgpu-waves-per-eu", std::to_string(waves->second));
  }
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(module, &stream)) return internal_error("the compiler made invalid LLVM IR: " + message);

  begin("optimise");
  inline_functions(module);
  clean_up(module, *target.machine, Invariants::kHoist);
  gpu::compute_late(entry, gpu::has_products(stage.kernel.body));
  if (!has_matrix_instructions(module)) gpu::read_late(entry);
  for (llvm::Function& function : module) {
    keep_signs_of_zeros(function);
    fold_expressions(function);
  }
  return lowered;
}

Result<gpu::Generated> generate(const dsl::Kernel& kernel, const std::string& target_name,
                                const dsl::ConstexprValues& config, gpu::Effort, const std::string& emit,
                                const gpu::PhaseBegin& begin) {
  auto found = amd_target(target_name);
  if (!found) return found.error();
  AmdTarget& target = **found;
  if (auto fine = gpu::check_supported(kernel, target.processor.name); !fine) return fine.error();
  llvm::LLVMContext context;
  const Diagnostics diagnostics(context);
  llvm::Module module("kiln", context);
  module.setTargetTriple(target.machine->getTargetTriple().str());
  module.setDataLayout(target.machine->createDataLayout());
  module.addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", kCodeObjectVersion);
  const Plan plan = make_gpu_plan(kernel, config);
  auto lowered = gpu::lower_plan(plan, module, [&](const Stage& stage, llvm::Module& own) {
    return lower_stage(stage, plan.stages.size() == 1, target, config, own, begin);
  });
  if (!lowered) return lowered.error();
  gpu::Generated out{std::move(*lowered), {}, emit, {}};
  out.device.threads = out.plan.first.threads;
  out.device.shared_bytes = 0;  // beyond what the code object's descriptor says
  for (gpu::LoweredStage& stage : out.plan.stages) stage.shared_bytes = 0;
  return emit_code(module, target, std::move(out), diagnostics, begin);
}

Result<void> check_target(const std::string& name) {
  auto target = amd_target(name);
  return target ? Result<void>() : target.error();
}

}  // namespace

const gpu::Vendor& vendor() {
  static const gpu::Vendor out{.family = "amd",
                               .forms = {"hsaco", "obj", "asm", "llvm"},
                               .initialise = initialise_llvm,
                               .start_helpers = nullptr,
                               .check_target = check_target,
                               .generate = generate};
  return out;
}

}  // namespace kiln::codegen::amdgcn
