#include "nvptx/asm.h"

#include <llvm/IR/InstIterator.h>

namespace kiln::codegen::nvptx {

using llvm::Value;
using Builder = llvm::IRBuilder<>;

llvm::CallInst* call_asm(Builder& ir, llvm::Type* result, const std::string& text, const std::string& constraints,
                         llvm::ArrayRef<Value*> operands, Together together) {
  llvm::SmallVector<llvm::Type*, 16> types;
  for (Value* x : operands) types.push_back(x->getType());
  auto* type = llvm::FunctionType::get(result, types, false);
  const std::string all = constraints.empty() ? "~{memory}" : constraints + ",~{memory}";
  llvm::CallInst* call = ir.CreateCall(llvm::InlineAsm::get(type, text, all, true), operands);
  if (together == Together::kWarp) call->addFnAttr(llvm::Attribute::Convergent);
  return call;
}

llvm::Type* results_type(llvm::Type* one, size_t count) {
  if (count == 0) return llvm::Type::getVoidTy(one->getContext());
  if (count == 1) return one;
  return llvm::StructType::get(one->getContext(), llvm::SmallVector<llvm::Type*, 16>(count, one));
}

std::vector<Value*> results_of(Builder& ir, llvm::CallInst* call, size_t count) {
  if (count == 1) return {call};
  std::vector<Value*> out;
  for (size_t i = 0; i < count; ++i) out.push_back(ir.CreateExtractValue(call, static_cast<unsigned>(i)));
  return out;
}

std::string braces(size_t first, size_t count) {
  std::string out = "{";
  for (size_t i = 0; i < count; ++i) out += (i ? ", $" : "$") + std::to_string(first + i);
  return out + "}";
}

std::string repeated(const std::string& constraint, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += (i ? "," : "") + constraint;
  return out;
}

std::string tied(size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += (i ? "," : "") + std::to_string(i);
  return out;
}

std::string joined(llvm::ArrayRef<std::string> parts) {
  std::string out;
  for (const std::string& part : parts) {
    if (!part.empty()) out += (out.empty() ? "" : ",") + part;
  }
  return out;
}

std::vector<Value*> pack_words(Builder& ir, llvm::ArrayRef<Value*> elements, int bits) {
  const auto per_word = static_cast<size_t>(32 / bits);
  std::vector<Value*> out;
  for (size_t i = 0; i < elements.size(); i += per_word) {
    if (per_word == 1) {
      out.push_back(ir.CreateBitCast(elements[i], ir.getInt32Ty()));
      continue;
    }
    Value* word =
        llvm::PoisonValue::get(llvm::FixedVectorType::get(elements[i]->getType(), static_cast<unsigned>(per_word)));
    for (size_t j = 0; j < per_word; ++j) word = ir.CreateInsertElement(word, elements[i + j], j);
    out.push_back(ir.CreateBitCast(word, ir.getInt32Ty()));
  }
  return out;
}

bool multiplies_in_groups(const llvm::Function& function) {
  return llvm::any_of(llvm::instructions(function), [](const llvm::Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
    const auto* text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
    return text && llvm::StringRef(text->getAsmString()).contains("wgmma.mma_async");
  });
}

const char* matrix_type(dsl::ElementType element) {
  switch (element) {
    case dsl::ElementType::kF16:
      return "f16";
    case dsl::ElementType::kBF16:
      return "bf16";
    case dsl::ElementType::kI8:
      return "s8";
    case dsl::ElementType::kU8:
      return "u8";
    case dsl::ElementType::kF8E4M3:
      return "e4m3";
    case dsl::ElementType::kF8E5M2:
      return "e5m2";
    default:
      return nullptr;
  }
}

}  // namespace kiln::codegen::nvptx
