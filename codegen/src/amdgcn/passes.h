// LLVM's code generator for AMD GPUs, without the passes that find nothing in our code.
#pragma once

#include <llvm/IR/LegacyPassManager.h>

namespace kiln::codegen::amdgcn {

// Takes the passes of TargetMachine::addPassesToEmitFile, and leaves out some of them.
class CodeGenerationPasses : public llvm::legacy::PassManager {
 public:
  void add(llvm::Pass* pass) override;
};

}  // namespace kiln::codegen::amdgcn
