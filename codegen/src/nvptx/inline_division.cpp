#include "nvptx/inline_division.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

namespace kiln::codegen::nvptx {
namespace {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

constexpr size_t kFew = 8;

bool multiplies_in_groups(const llvm::Function& function) {
  for (const llvm::Instruction& instruction : llvm::instructions(function)) {
    const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
    const auto* text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
    if (text && llvm::StringRef(text->getAsmString()).contains("wgmma.mma_async")) return true;
  }
  return false;
}

Value* fma(Builder& b, Value* x, Value* y, Value* z) {
  return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

// Neither infinite nor NaN.
Value* is_finite(Builder& b, Value* x) {
  Value* magnitude = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  return b.CreateFCmpOLT(magnitude, llvm::ConstantFP::getInfinity(x->getType()));
}

Value* quotient(Builder& b, Value* dividend, Value* divisor) {
  llvm::Type* wide = b.getDoubleTy();
  Value *x = b.CreateFPExt(dividend, wide), *y = b.CreateFPExt(divisor, wide), *minus_y = b.CreateFNeg(y);
  Value* estimate = b.CreateIntrinsic(llvm::Intrinsic::nvvm_rcp_approx_ftz_d, {}, {y});
  Value* reciprocal = estimate;
  for (int step = 0; step < 2; ++step) {
    Value* error = fma(b, minus_y, reciprocal, llvm::ConstantFP::get(wide, 1.0));
    reciprocal = fma(b, reciprocal, error, reciprocal);
  }
  Value* near = b.CreateFMul(x, reciprocal);
  Value* exact = fma(b, fma(b, minus_y, near, x), reciprocal, near);
  // Of a dividend -0 the correction is +0, and the sum would be.
  Value* usual = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, exact, near);
  // In double, where the reciprocal of no finite divisor is 0 or infinite: an infinite dividend stays so.
  Value* special = b.CreateFMul(x, estimate);
  Value* is_usual = b.CreateAnd(b.CreateAnd(is_finite(b, dividend), is_finite(b, divisor)),
                                b.CreateFCmpUNE(divisor, llvm::ConstantFP::get(b.getFloatTy(), 0.0)));
  return b.CreateFPTrunc(b.CreateSelect(is_usual, usual, special), b.getFloatTy());
}

}  // namespace

void inline_divisions(llvm::Module& module, bool doubles_are_fast) {
  for (llvm::Function& function : module) {
    llvm::SmallVector<llvm::Instruction*> divisions;
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
      if (instruction.getOpcode() == llvm::Instruction::FDiv && instruction.getType()->isFloatTy()) {
        divisions.push_back(&instruction);
      }
    }
    const bool few = doubles_are_fast && divisions.size() <= kFew;
    if (!few && !multiplies_in_groups(function)) continue;
    for (llvm::Instruction* division : divisions) {
      Builder b(division);
      division->replaceAllUsesWith(quotient(b, division->getOperand(0), division->getOperand(1)));
      division->eraseFromParent();
    }
  }
}

}  // namespace kiln::codegen::nvptx
