#include "nvptx/pair_conversions.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

namespace kiln::codegen::nvptx {
namespace {

// What is converted to the element that the instruction inserts; null where it is nothing of the kind.
llvm::Value* converted(llvm::InsertElementInst* insert) {
  auto* bits = llvm::dyn_cast<llvm::BitCastInst>(insert->getOperand(1));
  auto* call = bits ? llvm::dyn_cast<llvm::IntrinsicInst>(bits->getOperand(0)) : nullptr;
  if (!call || call->getIntrinsicID() != llvm::Intrinsic::nvvm_f2bf16_rn) return nullptr;
  return call->getArgOperand(0);
}

std::optional<uint64_t> place_of(llvm::InsertElementInst* insert) {
  auto* index = llvm::dyn_cast<llvm::ConstantInt>(insert->getOperand(2));
  return index ? std::optional(index->getZExtValue()) : std::nullopt;
}

void pair(llvm::InsertElementInst* high) {
  auto* low = llvm::dyn_cast<llvm::InsertElementInst>(high->getOperand(0));
  const auto place = place_of(high);
  if (!low || !place || *place % 2 == 0 || place_of(low) != *place - 1) return;
  llvm::Value *x = converted(low), *y = converted(high);
  if (!x || !y || !low->hasOneUse()) return;
  llvm::IRBuilder<> b(high);
  llvm::Value* both = b.CreateIntrinsic(llvm::Intrinsic::nvvm_ff2bf16x2_rn, {}, {y, x});
  llvm::Value* words = b.CreateBitCast(both, llvm::FixedVectorType::get(b.getInt16Ty(), 2));
  llvm::Value* first =
      b.CreateInsertElement(low->getOperand(0), b.CreateExtractElement(words, uint64_t{0}), low->getOperand(2));
  high->replaceAllUsesWith(
      b.CreateInsertElement(first, b.CreateExtractElement(words, uint64_t{1}), high->getOperand(2)));
}

}  // namespace

void pair_conversions(llvm::Module& module) {
  for (llvm::Function& function : module) {
    llvm::SmallVector<llvm::InsertElementInst*> inserts;
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
      if (auto* insert = llvm::dyn_cast<llvm::InsertElementInst>(&instruction)) inserts.push_back(insert);
    }
    for (llvm::InsertElementInst* insert : inserts) pair(insert);
  }
}

}  // namespace kiln::codegen::nvptx
