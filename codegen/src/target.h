// The CPU a kernel is compiled for.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "kiln/dsl/result.h"

namespace kiln::codegen {

struct CpuTarget {
  std::string name;  // as requested: "cpu:znver5,+avx512f,…"
  std::string triple;
  std::string cpu;
  std::string features;
  int vector_bytes = 16;  // width of the widest fast vector register
  int vector_registers = 16;
  bool has_fma = false;
  bool has_f16c = false;
  std::unique_ptr<llvm::TargetMachine> machine;
};

// Registers LLVM's targets; once per process, before any other call.
void initialise_llvm();

// `name` is resolved: "cpu:CPU[,+feature|-feature]…". Error kInvalidArgument names what is unknown.
Result<std::unique_ptr<CpuTarget>> make_cpu_target(const std::string& name);

}  // namespace kiln::codegen
