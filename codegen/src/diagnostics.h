// What LLVM's passes and code generators say. They end the process at an error unless somebody listens.
#pragma once

#include <llvm/IR/LLVMContext.h>

#include <string>

#include "kiln/dsl/result.h"

namespace llvm {
class DiagnosticInfo;
}

namespace kiln::codegen {

class Diagnostics {
 public:
  explicit Diagnostics(llvm::LLVMContext& context) { context.setDiagnosticHandlerCallBack(&Diagnostics::note, this); }
  Diagnostics(const Diagnostics&) = delete;
  Diagnostics& operator=(const Diagnostics&) = delete;

  // The errors so far, as one.
  Result<void> check() const;

 private:
  static void note(const llvm::DiagnosticInfo* info, void* self);

  std::string errors_;
};

}  // namespace kiln::codegen
