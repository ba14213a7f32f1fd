#include "amdgcn/zero_signs.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>

namespace kiln::codegen::amdgcn {

void keep_signs_of_zeros(llvm::Function& function) {
  llvm::SmallVector<llvm::FPTruncInst*> roundings;
  for (llvm::Instruction& op : llvm::instructions(function)) {
    auto* rounding = llvm::dyn_cast<llvm::FPTruncInst>(&op);
    if (rounding && rounding->getType()->getScalarType()->isHalfTy()) roundings.push_back(rounding);
  }
  for (llvm::FPTruncInst* rounding : roundings) {
    auto* product = llvm::dyn_cast<llvm::BinaryOperator>(rounding->getOperand(0));
    if (!product || product->getOpcode() != llvm::Instruction::FMul || product->hasNoSignedZeros()) continue;
    llvm::Type* type = product->getType();
    if (!type->getScalarType()->isFloatTy()) continue;
    llvm::IRBuilder<> ir(rounding);
    auto* sum =
        ir.CreateIntrinsic(llvm::Intrinsic::fma, {type},
                           {product->getOperand(0), product->getOperand(1), llvm::ConstantFP::getNegativeZero(type)});
    rounding->setOperand(0, sum);
    if (product->use_empty()) product->eraseFromParent();
  }
}

}  // namespace kiln::codegen::amdgcn
