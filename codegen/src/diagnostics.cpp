#include "diagnostics.h"

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/Support/raw_ostream.h>

namespace kiln::codegen {

Result<void> Diagnostics::check() const {
  if (errors_.empty()) return {};
  return error(ErrorCode::kCompileFailed, "LLVM: " + errors_);
}

void Diagnostics::note(const llvm::DiagnosticInfo* info, void* self) {
  if (info->getSeverity() != llvm::DS_Error) return;
  std::string& errors = static_cast<Diagnostics*>(self)->errors_;
  llvm::raw_string_ostream stream(errors);
  if (!errors.empty()) stream << "; ";
  llvm::DiagnosticPrinterRawOStream printer(stream);
  info->print(printer);
}

}  // namespace kiln::codegen
