#include "nvptx/frozen_parameters.h"

#include <llvm/IR/IRBuilder.h>

namespace kiln::codegen::nvptx {
namespace {

bool is_selected(const llvm::Argument& parameter) {
  return llvm::any_of(parameter.users(), [](const llvm::User* user) { return llvm::isa<llvm::SelectInst>(user); });
}

}  // namespace

void freeze_parameters(llvm::Function& function) {
  if (function.getCallingConv() == llvm::CallingConv::PTX_Kernel) return;
  llvm::IRBuilder<> ir(&*function.getEntryBlock().getFirstInsertionPt());
  for (llvm::Argument& parameter : function.args()) {
    if (!is_selected(parameter)) continue;
    auto* frozen = llvm::cast<llvm::Instruction>(ir.CreateFreeze(&parameter));
    parameter.replaceUsesWithIf(frozen, [&](const llvm::Use& use) { return use.getUser() != frozen; });
  }
}

}  // namespace kiln::codegen::nvptx
