#include "nvptx/inline_division.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "nvptx/asm.h"

namespace kiln::codegen::nvptx {
namespace {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

constexpr size_t kFew = 8;

Value* fma(Builder& ir, Value* x, Value* y, Value* z) {
  return ir.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

// Neither infinite nor NaN.
Value* is_finite(Builder& ir, Value* x) {
  Value* magnitude = ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  return ir.CreateFCmpOLT(magnitude, llvm::ConstantFP::getInfinity(x->getType()));
}

Value* quotient(Builder& ir, Value* dividend, Value* divisor) {
  llvm::Type* wide = ir.getDoubleTy();
  Value *x = ir.CreateFPExt(dividend, wide), *y = ir.CreateFPExt(divisor, wide), *minus_y = ir.CreateFNeg(y);
  Value* estimate = ir.CreateIntrinsic(llvm::Intrinsic::nvvm_rcp_approx_ftz_d, {y});
  Value* reciprocal = estimate;
  for (int step = 0; step < 2; ++step) {
    Value* error = fma(ir, minus_y, reciprocal, llvm::ConstantFP::get(wide, 1.0));
    reciprocal = fma(ir, reciprocal, error, reciprocal);
  }
  Value* near = ir.CreateFMul(x, reciprocal);
  Value* exact = fma(ir, fma(ir, minus_y, near, x), reciprocal, near);
  // Of a dividend -0 the correction is +0, and the sum would be.
  Value* usual = ir.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, exact, near);
  // In double, where the reciprocal of no finite divisor is 0 or infinite: an infinite dividend stays so.
  Value* special = ir.CreateFMul(x, estimate);
  Value* is_usual = ir.CreateAnd(ir.CreateAnd(is_finite(ir, dividend), is_finite(ir, divisor)),
                                 ir.CreateFCmpUNE(divisor, llvm::ConstantFP::get(ir.getFloatTy(), 0.0)));
  return ir.CreateFPTrunc(ir.CreateSelect(is_usual, usual, special), ir.getFloatTy());
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
      Builder ir(division);
      division->replaceAllUsesWith(quotient(ir, division->getOperand(0), division->getOperand(1)));
      division->eraseFromParent();
    }
  }
}

}  // namespace kiln::codegen::nvptx
