#include "gpu/shared/shared_memory.h"

#include <llvm/IR/Module.h>

namespace kiln::codegen::gpu {
namespace {

constexpr char kMark[] = "kiln.shared";

}  // namespace

SharedBuffer::SharedBuffer(Builder& ir, int64_t bytes, Of of) {
  llvm::Module& module = *ir.GetInsertBlock()->getModule();
  auto* type = llvm::FunctionType::get(ir.getPtrTy(kSharedSpace), {ir.getInt32Ty(), ir.getInt64Ty()}, false);
  llvm::FunctionCallee maker = module.getOrInsertFunction(kBufferFunction, type);
  number_ = static_cast<int>(maker.getCallee()->getNumUses());
  pointer_ = ir.CreateCall(
      maker, {ir.getInt32(static_cast<uint32_t>(number_)), ir.getInt64(static_cast<uint64_t>(bytes))}, "buffer");
  if (of == Of::kBlock) pointer_->setMetadata(kOfBlock, llvm::MDNode::get(module.getContext(), {}));
}

void SharedBuffer::mark(llvm::Instruction* access, Access kind, int phase) const {
  llvm::LLVMContext& context = access->getContext();
  const auto number = [&](int x) {
    return llvm::ConstantAsMetadata::get(
        llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), static_cast<uint64_t>(x)));
  };
  access->setMetadata(
      kMark, llvm::MDNode::get(context, {number(number_), number(kind == Access::kWrite ? 1 : 0), number(phase)}));
}

void SharedBuffer::touch(Builder& ir, Access kind, int phase) const {
  auto* type = llvm::FunctionType::get(ir.getVoidTy(), false);
  mark(ir.CreateCall(ir.GetInsertBlock()->getModule()->getOrInsertFunction(kTouchFunction, type)), kind, phase);
}

std::optional<SharedMark> shared_mark(const llvm::Instruction& instruction) {
  const llvm::MDNode* mark = instruction.getMetadata(kMark);
  if (!mark) return std::nullopt;
  const auto number = [&](unsigned i) {
    const auto* constant = llvm::cast<llvm::ConstantAsMetadata>(mark->getOperand(i));
    return static_cast<int>(llvm::cast<llvm::ConstantInt>(constant->getValue())->getZExtValue());
  };
  return SharedMark{number(0), number(1) != 0, number(2)};
}

}  // namespace kiln::codegen::gpu
