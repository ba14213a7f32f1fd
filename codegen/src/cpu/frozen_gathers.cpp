#include "cpu/frozen_gathers.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

namespace kiln::codegen::cpu {

void freeze_gathers(llvm::Function& function) {
  for (llvm::Instruction& op : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto* gather = llvm::dyn_cast<llvm::IntrinsicInst>(&op);
    if (!gather || gather->getIntrinsicID() != llvm::Intrinsic::masked_gather) continue;
    if (!gather->getType()->isIntOrIntVectorTy()) continue;
    llvm::IRBuilder<> ir(gather->getNextNode());
    llvm::Value* frozen = ir.CreateFreeze(gather);
    gather->replaceUsesWithIf(frozen, [&](const llvm::Use& use) { return use.getUser() != frozen; });
  }
}

}  // namespace kiln::codegen::cpu
