// The NVIDIA GPU a kernel is compiled for.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "kiln/dsl/result.h"
#include "kiln/target/gpu.h"

namespace kiln::codegen::nvptx {

struct CudaTarget {
  std::string name;                        // as requested: "cuda:sm_90a"
  std::string processor;                   // "sm_90a"
  const target::NvidiaGpu* gpu = nullptr;  // what it has; never null
  bool is_ptx_only = false;                // "cuda:compute_90": the driver translates it for a newer device
  std::unique_ptr<llvm::TargetMachine> machine;

  const target::NvidiaUnits& units() const { return gpu->units; }
};

// Registers LLVM's target; once per process, before any other call.
void initialise_llvm();

bool is_cuda_target(const std::string& name);

// `name` is resolved: "cuda:sm_90a". Error kInvalidArgument names what is unknown.
Result<std::unique_ptr<CudaTarget>> make_cuda_target(const std::string& name);

// The same, kept from one call to the next. Valid until the next call.
Result<CudaTarget*> cuda_target(const std::string& name);

}  // namespace kiln::codegen::nvptx
