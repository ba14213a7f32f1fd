#include "cpu/wide_roundings.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

namespace kiln::codegen::cpu {
namespace {

bool rounds_to_whole_numbers(llvm::Intrinsic::ID id) {
  return id == llvm::Intrinsic::floor || id == llvm::Intrinsic::ceil || id == llvm::Intrinsic::trunc ||
         id == llvm::Intrinsic::roundeven;
}

}  // namespace

void widen_roundings(llvm::Function& function) {
  for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    if (!call || !rounds_to_whole_numbers(call->getIntrinsicID())) continue;
    llvm::Type* half = call->getType();
    if (!half->getScalarType()->isHalfTy()) continue;
    llvm::IRBuilder<> ir(call);
    llvm::Value* wide = ir.CreateFPExt(call->getArgOperand(0), half->getWithNewType(ir.getFloatTy()));
    llvm::Value* rounded = ir.CreateUnaryIntrinsic(call->getIntrinsicID(), wide);
    call->replaceAllUsesWith(ir.CreateFPTrunc(rounded, half));
    call->eraseFromParent();
  }
}

}  // namespace kiln::codegen::cpu
