// The AMD GPU a kernel is compiled for.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <map>
#include <memory>
#include <string>

#include "amdgcn/passes.h"
#include "kiln/dsl/result.h"
#include "kiln/target/gpu.h"

namespace kiln::codegen::amdgcn {

using Matrix = target::AmdMatrix;
using Processor = target::AmdGpu;

// The module flag of LLVM's, and its value: version 5.
inline constexpr const char* kCodeObjectVersionFlag = "amdhsa_code_object_version";
inline constexpr int kCodeObjectVersion = 500;

struct AmdTarget {
  std::string name;  // as requested: "amd:gfx942"
  Processor processor = target::amd_gpus().front();
  std::unique_ptr<llvm::TargetMachine> machine;
  std::map<llvm::CodeGenFileType, std::unique_ptr<CodeGenerator>> generators;  // those asked for
};

// Registers LLVM's target; once per process, before any other call.
void initialise_llvm();

// `name`: "amd:gfx942". Error kInvalidArgument names what is unknown.
Result<std::unique_ptr<AmdTarget>> make_amd_target(const std::string& name);

// The same, kept: with what is put together once for a target, for the process's later compiles.
Result<AmdTarget*> amd_target(const std::string& name);

}  // namespace kiln::codegen::amdgcn
