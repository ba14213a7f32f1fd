#include "nvptx/byte_conversions.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/PatternMatch.h>

namespace kiln::codegen::nvptx {
namespace {

using llvm::Value;
namespace match = llvm::PatternMatch;

constexpr uint32_t kTwo23 = 0x4b000000;  // the bits of 2^23, whose last place is 1
constexpr uint32_t kSignBit = 0x80;      // flipped, a signed byte is larger by 128

void convert(llvm::CastInst& op) {
  Value* byte = op.getOperand(0);
  bool is_signed = op.getOpcode() == llvm::Instruction::SIToFP;
  Value* narrow = nullptr;
  if (match::match(byte, match::m_ZExt(match::m_Value(narrow)))) {
    byte = narrow, is_signed = false;
  } else if (is_signed && match::match(byte, match::m_SExt(match::m_Value(narrow)))) {
    byte = narrow;
  }
  if (!byte->getType()->isIntegerTy(8) || !op.getType()->isFloatTy()) return;
  llvm::IRBuilder<> ir(&op);
  Value* bits = ir.CreateXor(ir.CreateZExt(byte, ir.getInt32Ty()), ir.getInt32(kTwo23 | (is_signed ? kSignBit : 0)));
  Value* base = llvm::ConstantFP::get(ir.getFloatTy(), 0x1p23 + (is_signed ? kSignBit : 0));
  op.replaceAllUsesWith(ir.CreateFSub(ir.CreateBitCast(bits, ir.getFloatTy()), base));
  op.eraseFromParent();
}

}  // namespace

void convert_bytes_by_addition(llvm::Function& function) {
  for (llvm::Instruction& op : llvm::make_early_inc_range(llvm::instructions(function))) {
    if (llvm::isa<llvm::SIToFPInst, llvm::UIToFPInst>(op)) convert(llvm::cast<llvm::CastInst>(op));
  }
}

}  // namespace kiln::codegen::nvptx
