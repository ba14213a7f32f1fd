#include "nvptx/target.h"

#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
namespace kiln::codegen::nvptx {
namespace {

constexpr char kPrefix[] = "cuda:";
constexpr char kTriple[] = "nvptx64-nvidia-cuda";

// LLVM takes this from its command line alone: pointers to shared memory have 32 bits.
void shorten_shared_pointers() {
  auto& options = llvm::cl::getRegisteredOptions();
  const auto found = options.find("nvptx-short-ptr");
  if (found != options.end()) static_cast<llvm::cl::opt<bool>*>(found->second)->setValue(true);
}

}  // namespace

void initialise_llvm() {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  shorten_shared_pointers();
}

bool is_cuda_target(const std::string& name) { return name == "cuda" || name.starts_with(kPrefix); }

Result<std::unique_ptr<CudaTarget>> make_cuda_target(const std::string& name) {
  if (auto known = target::check_gpu_target(name); !known) return known.error();
  if (!name.starts_with(kPrefix)) return invalid_argument("target `" + name + "`: a processor's name must follow");
  const std::string wanted = name.substr(sizeof kPrefix - 1);
  const target::NvidiaGpu* found = target::find_nvidia_gpu(wanted);

  std::string message;
  const llvm::Triple triple(kTriple);
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target) return internal_error("LLVM: " + message);
  auto out = std::make_unique<CudaTarget>();
  out->name = name;
  out->processor = found->name;
  out->gpu = found;
  out->is_ptx_only = target::is_ptx_only(wanted);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // nothing is contracted; the IR says where
  // Code generation below the default serialises wgmma: tied operands of inline assembly become copies.
  out->machine.reset(target->createTargetMachine(triple, out->processor, "+ptx" + std::to_string(found->ptx_version),
                                                 options, llvm::Reloc::PIC_, std::nullopt,
                                                 llvm::CodeGenOptLevel::Default, true));
  if (!out->machine) return internal_error(std::string("LLVM has no target machine for ").append(kTriple));
  return out;
}

Result<CudaTarget*> cuda_target(const std::string& name) {
  static std::unique_ptr<CudaTarget> last;
  if (!last || last->name != name) {
    auto made = make_cuda_target(name);
    if (!made) return made.error();
    last = std::move(*made);
  }
  return last.get();
}

}  // namespace kiln::codegen::nvptx
