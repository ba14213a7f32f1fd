// The NVIDIA GPU a kernel is compiled for.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "kiln/dsl/result.h"

namespace kiln::codegen::nvptx {

struct CudaTarget {
  std::string name;       // as requested: "cuda:sm_90a"
  std::string processor;  // "sm_90a"
  int capability = 0;     // 90
  // Code for exactly this processor, which may use what later ones lack: wgmma and TMA's multicast on sm_90a.
  bool is_specific = false;
  int ptx_version = 0;  // 84: of the PTX we write
  std::unique_ptr<llvm::TargetMachine> machine;
};

// Registers LLVM's target; once per process, before any other call.
void initialise_llvm();

bool is_cuda_target(const std::string& name);

// `name` is resolved: "cuda:sm_90a". Error kInvalidArgument names what is unknown.
Result<std::unique_ptr<CudaTarget>> make_cuda_target(const std::string& name);

// The same, kept from one call to the next. Valid until the next call.
Result<CudaTarget*> cuda_target(const std::string& name);

}  // namespace kiln::codegen::nvptx
