#include "nvptx/short_differences.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>

namespace kiln::codegen::nvptx {
namespace {

using llvm::Value;

// What becomes the upper half of a product.
bool is_quotient(Value* x) {
  using namespace llvm::PatternMatch;
  return match(x, m_ZExtOrSelf(m_UDiv(m_Value(), m_ConstantInt()))) ||
         match(x, m_ZExtOrSelf(m_LShr(m_UDiv(m_Value(), m_ConstantInt()), m_Value()))) ||
         match(x, m_LShr(m_Mul(m_Value(), m_Value()), m_ConstantInt()));
}

// Nothing where that is not known to be right, or no better.
Value* shorter(llvm::IRBuilder<>& ir, Value* a, Value* b, const llvm::DataLayout& layout) {
  const unsigned zeros = std::min(llvm::computeKnownBits(a, layout).countMinLeadingZeros(),
                                  llvm::computeKnownBits(b, layout).countMinLeadingZeros());
  if (zeros < 32 || (zeros == 32 && !is_quotient(a))) return nullptr;
  Value* a32 = ir.CreateTrunc(a, ir.getInt32Ty());
  Value* b32 = ir.CreateTrunc(b, ir.getInt32Ty());
  if (zeros > 32) return ir.CreateSExt(ir.CreateNSWSub(a32, b32), ir.getInt64Ty());
  Value* low = ir.CreateZExt(ir.CreateSub(a32, b32), ir.getInt64Ty());
  Value* borrow = ir.CreateSelect(ir.CreateICmpULT(a32, b32), ir.getInt64(~uint64_t{0} << 32), ir.getInt64(0));
  return ir.CreateOr(low, borrow);
}

}  // namespace

void shorten_differences(llvm::Function& function) {
  const llvm::DataLayout& layout = function.getParent()->getDataLayout();
  for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    if (instruction.getOpcode() != llvm::Instruction::Sub || !instruction.getType()->isIntegerTy(64)) continue;
    llvm::IRBuilder<> ir(&instruction);
    Value* difference = shorter(ir, instruction.getOperand(0), instruction.getOperand(1), layout);
    if (!difference) continue;
    instruction.replaceAllUsesWith(difference);
    instruction.eraseFromParent();
  }
}

}  // namespace kiln::codegen::nvptx
