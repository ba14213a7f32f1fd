// Line tables: which line of the kernel's source each instruction comes from, for profilers and sanitizers.
#pragma once

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/IRBuilder.h>

#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

class DebugLines {
 public:
  // `function`: the kernel's.
  DebugLines(const dsl::Kernel& kernel, llvm::Function& function);

  // Instructions from here on come from this place.
  void set(llvm::IRBuilderBase& ir, const dsl::Location& loc);
  // When the function is complete.
  void finish() { builder_.finalize(); }

 private:
  llvm::DIBuilder builder_;
  std::vector<llvm::DIFile*> files_;
  llvm::DISubprogram* function_ = nullptr;
  std::vector<llvm::DIScope*> scopes_;  // the function as seen from each file
};

}  // namespace kiln::codegen::gpu
