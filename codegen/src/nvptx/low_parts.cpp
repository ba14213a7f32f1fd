#include "nvptx/low_parts.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>

namespace kiln::codegen::nvptx {
namespace {

using llvm::Value;

// The bits of a float, or of several, of 32 or 64 bits together.
bool is_of_float(const Value* x) {
  const auto* cast = llvm::dyn_cast<llvm::BitCastInst>(x);
  return cast && cast->getSrcTy()->getScalarType()->isFloatingPointTy() &&
         (x->getType()->isIntegerTy(32) || x->getType()->isIntegerTy(64));
}

// The lower half of 32 or 64 bits.
Value* lower_half(llvm::IRBuilder<>& ir, Value* x) {
  const bool is_long = x->getType()->isIntegerTy(64);
  const char* text =
      is_long ? "{ .reg .b32 high; mov.b64 {$0, high}, $1; }" : "{ .reg .b16 high; mov.b32 {$0, high}, $1; }";
  llvm::Type* half = is_long ? ir.getInt32Ty() : ir.getInt16Ty();
  auto* type = llvm::FunctionType::get(half, {x->getType()}, false);
  auto* call = ir.CreateCall(llvm::InlineAsm::get(type, text, is_long ? "=r,l" : "=h,r", false), {x});
  call->setDoesNotAccessMemory();  // equal ones become one
  return call;
}

}  // namespace

void take_low_parts(llvm::Function& function) {
  for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto* trunc = llvm::dyn_cast<llvm::TruncInst>(&instruction);
    if (!trunc || !is_of_float(trunc->getOperand(0))) continue;
    llvm::IRBuilder<> ir(trunc);
    trunc->replaceAllUsesWith(ir.CreateTrunc(lower_half(ir, trunc->getOperand(0)), trunc->getType()));
    trunc->eraseFromParent();
  }
}

}  // namespace kiln::codegen::nvptx
