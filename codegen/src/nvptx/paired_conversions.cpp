#include "nvptx/paired_conversions.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/Local.h>

#include <array>
#include <optional>

#include "nvptx/elements.h"

namespace kiln::codegen::nvptx {
namespace {

using llvm::Value;

constexpr unsigned kBytes = 4;

// Elements of a vector as they were inserted; nothing where one came otherwise.
std::optional<std::array<Value*, kBytes>> inserted(Value* vector) {
  std::array<Value*, kBytes> out{};
  unsigned found = 0;
  while (auto* insert = llvm::dyn_cast<llvm::InsertElementInst>(vector)) {
    const auto* at = llvm::dyn_cast<llvm::ConstantInt>(insert->getOperand(2));
    if (!at || at->getZExtValue() >= kBytes) return std::nullopt;
    Value*& element = out[at->getZExtValue()];
    if (!element) element = insert->getOperand(1), ++found;
    vector = insert->getOperand(0);
  }
  return found == kBytes ? std::optional(out) : std::nullopt;
}

// The conversion of one number that a byte is.
const llvm::CallInst* conversion_of(Value* byte) {
  const auto* cut = llvm::dyn_cast<llvm::TruncInst>(byte);
  const auto* call = cut ? llvm::dyn_cast<llvm::CallInst>(cut->getOperand(0)) : nullptr;
  const auto* assembly = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
  return assembly && is_f8_conversion(assembly->getAsmString()) ? call : nullptr;
}

llvm::StringRef text_of(const llvm::CallInst& call) {
  return llvm::cast<llvm::InlineAsm>(call.getCalledOperand())->getAsmString();
}

void pair(llvm::BitCastInst& word) {
  auto* from = llvm::dyn_cast<llvm::FixedVectorType>(word.getOperand(0)->getType());
  if (!from || from->getNumElements() != kBytes || !word.getType()->isIntegerTy(32)) return;
  const auto bytes = inserted(word.getOperand(0));
  if (!bytes) return;
  llvm::SmallVector<Value*, kBytes> numbers;
  llvm::StringRef text;
  for (Value* byte : *bytes) {
    const llvm::CallInst* call = conversion_of(byte);
    if (!call || (!text.empty() && text_of(*call) != text)) return;
    text = text_of(*call);
    numbers.push_back(call->getArgOperand(1));
  }
  llvm::IRBuilder<> ir(&word);
  const std::string name = text.split(' ').first.str();
  const std::string both =
      "{ .reg .b16 low, high; " + name + " low, $2, $1; " + name + " high, $4, $3; mov.b32 $0, {low, high}; }";
  const llvm::SmallVector<llvm::Type*, kBytes> types(kBytes, ir.getFloatTy());
  auto* type = llvm::FunctionType::get(ir.getInt32Ty(), types, false);
  auto* call = ir.CreateCall(llvm::InlineAsm::get(type, both, "=r,f,f,f,f", false), numbers);
  call->setDoesNotAccessMemory();
  word.replaceAllUsesWith(call);
}

}  // namespace

void pair_conversions(llvm::Function& function) {
  llvm::SmallVector<llvm::BitCastInst*, 32> words;
  for (llvm::Instruction& instruction : llvm::instructions(function)) {
    if (auto* word = llvm::dyn_cast<llvm::BitCastInst>(&instruction)) words.push_back(word);
  }
  for (llvm::BitCastInst* word : words) pair(*word);
  for (llvm::BitCastInst* word : words) llvm::RecursivelyDeleteTriviallyDeadInstructions(word);
}

}  // namespace kiln::codegen::nvptx
