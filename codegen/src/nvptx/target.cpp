#include "nvptx/target.h"

#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>

#include "kiln/target/gpu.h"

namespace kiln::codegen::nvptx {
namespace {

constexpr char kPrefix[] = "cuda:";
constexpr char kTriple[] = "nvptx64-nvidia-cuda";

Error unknown_target(const std::string& name) {
  std::string known;
  for (const target::NvidiaGpu& gpu : target::nvidia_gpus()) {
    known += std::string(known.empty() ? "" : ", ") + gpu.name;
  }
  return invalid_argument("target `" + name.substr(0, 80) +
                          "`: an NVIDIA target is cuda (the device of this machine) or " +
                          "cuda:NAME with NAME one of " + known);
}

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
  if (!name.starts_with(kPrefix)) return unknown_target(name);
  const std::string wanted = name.substr(sizeof kPrefix - 1);
  const target::NvidiaGpu* found = target::find_nvidia_gpu(wanted);
  if (found == nullptr) return unknown_target(name);

  std::string message;
  const llvm::Triple triple(kTriple);
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target) return internal_error("LLVM: " + message);
  auto out = std::make_unique<CudaTarget>();
  out->name = name;
  out->processor = found->name;
  out->capability = found->capability;
  out->is_specific = found->is_specific;
  out->ptx_version = found->ptx_version;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // nothing is contracted; the IR says where
  // Code generation below the default serialises wgmma: tied operands of inline assembly become copies.
  out->machine.reset(target->createTargetMachine(triple, out->processor, "+ptx" + std::to_string(out->ptx_version),
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
