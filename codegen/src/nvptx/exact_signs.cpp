#include "nvptx/exact_signs.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>

namespace kiln::codegen::nvptx {
namespace {

using llvm::Instruction;
using llvm::Value;
using Builder = llvm::IRBuilder<>;
namespace pattern = llvm::PatternMatch;

// How far a value is followed to what computes with it.
constexpr int kFar = 4;

// Assembly of one operand, free to be moved and dropped: `text` on registers of the operand's width.
Value* on_bits(Builder& ir, Value* x, const std::string& text) {
  const unsigned bits = x->getType()->getScalarSizeInBits();
  llvm::Type* type = ir.getIntNTy(bits);
  const char* constraints = bits == 16 ? "=h,h" : bits == 32 ? "=r,r" : "=l,l";
  auto* assembly = llvm::InlineAsm::get(llvm::FunctionType::get(type, {type}, false), text, constraints, false);
  auto* call = ir.CreateCall(assembly, {ir.CreateBitCast(x, type)});
  call->setDoesNotAccessMemory();
  return ir.CreateBitCast(call, x->getType());
}

// ---- floats ----

bool flips_or_clears(const Value* x) {
  return pattern::match(x, pattern::m_FNeg(pattern::m_Value())) ||
         pattern::match(x, pattern::m_FAbs(pattern::m_Value()));
}

bool computes(const Instruction& user) {
  switch (user.getOpcode()) {
    case Instruction::FAdd:
    case Instruction::FSub:
    case Instruction::FMul:
    case Instruction::FDiv:
    case Instruction::FCmp:
    case Instruction::FPExt:
    case Instruction::FPTrunc:
    case Instruction::FPToSI:
    case Instruction::FPToUI:
      return true;
    default: {
      const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&user);
      return call && call->getIntrinsicID() != llvm::Intrinsic::copysign && !flips_or_clears(&user);
    }
  }
}

// Whether anybody sees which NaN `x` is: not arithmetic, nor what is chosen for it.
bool bits_are_seen(const Value* x, int depth = 0) {
  return llvm::any_of(x->uses(), [&](const llvm::Use& use) {
    const auto* user = llvm::cast<Instruction>(use.getUser());
    if (computes(*user)) return false;
    const bool passes_on = flips_or_clears(user) || llvm::isa<llvm::SelectInst>(user);
    return !passes_on || depth == kFar || bits_are_seen(user, depth + 1);
  });
}

// "xor.b32 $0, $1, 0x80000000;"
Value* exact_float(Builder& ir, const Instruction& op) {
  const unsigned bits = op.getType()->getScalarSizeInBits();
  const bool flips = pattern::match(&op, pattern::m_FNeg(pattern::m_Value()));
  const uint64_t sign = uint64_t{1} << (bits - 1);
  const std::string operand = std::to_string(flips ? sign : sign - 1);
  Value* x = op.getOperand(op.getOpcode() == Instruction::FSub ? 1 : 0);
  return on_bits(ir, x, (flips ? "xor.b" : "and.b") + std::to_string(bits) + " $0, $1, " + operand + ";");
}

// ptxas takes the sign of a NaN from the wrong operand of copysign.f64; that of f32 is bits for it too.
Value* exact_copysign(Builder& ir, const Instruction& op) {
  const auto sign = llvm::APInt::getSignMask(64);
  Value* magnitude = ir.CreateAnd(ir.CreateBitCast(op.getOperand(0), ir.getInt64Ty()), ir.getInt(~sign));
  Value* from = ir.CreateAnd(ir.CreateBitCast(op.getOperand(1), ir.getInt64Ty()), ir.getInt(sign));
  return ir.CreateBitCast(ir.CreateOr(magnitude, from), op.getType());
}

bool is_double_copysign(const Instruction& op) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&op);
  return call && call->getIntrinsicID() == llvm::Intrinsic::copysign && op.getType()->isDoubleTy();
}

// ---- ints ----

// In 32 bits, from which ptxas narrows.
Value* in_32_bits(Builder& ir, Value* x, const std::string& op) {
  return on_bits(ir, x, "{ .reg .b32 wide; cvt.s32.s16 wide, $1; " + op + ".s32 wide, wide; cvt.u16.u32 $0, wide; }");
}

Value* magnitude(Builder& ir, Value* x) {
  const unsigned bits = x->getType()->getScalarSizeInBits();
  if (bits == 16) return in_32_bits(ir, x, "abs");
  const std::string type = ".s" + std::to_string(bits);
  return on_bits(ir, x, "{ .reg " + type + " less; neg" + type + " less, $1; max" + type + " $0, $1, less; }");
}

// ---- which ----

Value* exact(Builder& ir, const Instruction& op) {
  const llvm::Type* type = op.getType();
  const unsigned bits = type->getPrimitiveSizeInBits().getFixedValue();
  if (bits != 16 && bits != 32 && bits != 64) return nullptr;
  if (type->isIntegerTy()) {
    Value* x = nullptr;
    if (pattern::match(&op, pattern::m_Intrinsic<llvm::Intrinsic::abs>(pattern::m_Value(x)))) return magnitude(ir, x);
    if (bits == 16 && pattern::match(&op, pattern::m_Neg(pattern::m_Value(x)))) return in_32_bits(ir, x, "neg");
    return nullptr;
  }
  if (is_double_copysign(op) && bits_are_seen(&op)) return exact_copysign(ir, op);
  if (type->isVectorTy() || !flips_or_clears(&op) || !bits_are_seen(&op)) return nullptr;
  return exact_float(ir, op);
}

}  // namespace

void make_signs_exact(llvm::Function& function) {
  // Users first: what one reads is looked at when it is what it will be.
  llvm::SmallVector<Instruction*> all;
  for (Instruction& op : llvm::instructions(function)) all.push_back(&op);
  for (Instruction* op : llvm::reverse(all)) {
    Builder ir(op);
    Value* value = exact(ir, *op);
    if (!value) continue;
    op->replaceAllUsesWith(value);
    op->eraseFromParent();
  }
}

}  // namespace kiln::codegen::nvptx
