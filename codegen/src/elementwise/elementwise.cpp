#include "elementwise/elementwise.h"

#include "kiln/dsl/verify.h"

namespace kiln::codegen {

Error ElementContext::unsupported(const Op& op, const std::string& what) const {
  return error(ErrorCode::kCompileFailed,
               dsl::diagnostic(kernel, op.loc, "target `" + processor + "`: " + dsl::info(op.code).name + ": " + what));
}

llvm::Type* memory_type(llvm::LLVMContext& context, ElementType element, bool pointer) {
  if (pointer) return llvm::PointerType::get(context, 0);
  switch (element) {
    case ElementType::kF16:
      return llvm::Type::getHalfTy(context);
    case ElementType::kF32:
      return llvm::Type::getFloatTy(context);
    case ElementType::kF64:
      return llvm::Type::getDoubleTy(context);
    default:
      return llvm::Type::getIntNTy(context, static_cast<unsigned>(8 * dsl::info(element).bytes));
  }
}

llvm::Type* register_type(llvm::LLVMContext& context, const dsl::Type& type) {
  if (!type.pointer && type.element == ElementType::kI1) return llvm::Type::getInt1Ty(context);
  return memory_type(context, type.element, type.pointer);
}

int memory_bytes(const dsl::Type& type) { return type.pointer ? 8 : dsl::info(type.element).bytes; }

Value* to_memory(Builder& ir, Value* x) {
  return x->getType()->isIntOrIntVectorTy(1) ? ir.CreateZExt(x, like(x, ir.getInt8Ty())) : x;
}

Value* from_memory(Builder& ir, Value* x, const dsl::Type& type) {
  if (type.pointer || type.element != ElementType::kI1) return x;
  return ir.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
}

}  // namespace kiln::codegen
