#include "amdgcn/target.h"

#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>

namespace kiln::codegen::amdgcn {
namespace {

constexpr char kPrefix[] = "amd:";
constexpr char kTriple[] = "amdgcn-amd-amdhsa";

}  // namespace

void initialise_llvm() {
  LLVMInitializeAMDGPUTargetInfo();
  LLVMInitializeAMDGPUTarget();
  LLVMInitializeAMDGPUTargetMC();
  LLVMInitializeAMDGPUAsmPrinter();
  LLVMInitializeAMDGPUAsmParser();  // of inline assembly
}

Result<std::unique_ptr<AmdTarget>> make_amd_target(const std::string& name) {
  if (auto known = target::check_gpu_target(name); !known) return known.error();
  if (!name.starts_with(kPrefix)) return invalid_argument("target `" + name + "`: a processor's name must follow");
  const std::string wanted = name.substr(sizeof kPrefix - 1);
  const Processor* found = target::find_amd_gpu(wanted);

  std::string message;
  const llvm::Triple triple(kTriple);
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target) return internal_error("LLVM: " + message);
  auto out = std::make_unique<AmdTarget>();
  out->name = name;
  out->processor = *found;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // nothing is contracted; the IR says where
  // A workgroup's waves stay on one compute unit, whose cache they share: barriers need not wait for global memory.
  const char* features = found->major >= 10 ? "+cumode" : "";
  out->machine.reset(target->createTargetMachine(triple, found->name, features, options, llvm::Reloc::PIC_,
                                                 std::nullopt, llvm::CodeGenOptLevel::Default, true));
  if (!out->machine) return internal_error(std::string("LLVM has no target machine for ").append(kTriple));
  return out;
}

Result<AmdTarget*> amd_target(const std::string& name) {
  static std::map<std::string, std::unique_ptr<AmdTarget>> known;
  std::unique_ptr<AmdTarget>& target = known[name];
  if (!target) {
    auto made = make_amd_target(name);
    if (!made) {
      known.erase(name);
      return made.error();
    }
    target = std::move(*made);
  }
  return target.get();
}

}  // namespace kiln::codegen::amdgcn
