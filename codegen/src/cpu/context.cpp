#include "cpu/context.h"

#include "kiln/dsl/verify.h"

namespace kiln::codegen::cpu {

Error Context::unsupported(const Op& op, const std::string& what) const {
  return error(
      ErrorCode::kCompileFailed,
      dsl::diagnostic(kernel, op.loc, "target `" + target.cpu + "`: " + dsl::info(op.code).name + ": " + what));
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

namespace {

constexpr int64_t kCacheLine = 64;
// Reads and writes go in chunks of up to this many elements, so rows are padded to it.
constexpr int64_t kRowPadding = 64;

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

Slot allocate_slot(Context& c, const dsl::Type& type) {
  Slot slot;
  std::vector<int64_t> shape = dsl::concrete_shape(type);
  slot.strides.resize(shape.size());
  int64_t stride = 1;
  bool innermost = true;
  for (size_t i = shape.size(); i-- > 0;) {
    slot.strides[i] = stride;
    // Only the innermost axis of more than one element is walked by vectors.
    stride = innermost && shape[i] > 1 ? round_up(shape[i], kRowPadding) : stride * shape[i];
    innermost = innermost && shape[i] == 1;
  }
  slot.offset = c.scratch_bytes;
  c.scratch_bytes += static_cast<uint64_t>(round_up(std::max(stride, kRowPadding) * memory_bytes(type), kCacheLine));
  return slot;
}

Value* slot_address(Context& c, const Slot& slot) {
  return c.b.CreateConstInBoundsGEP1_64(c.b.getInt8Ty(), c.scratch, slot.offset);
}

Value* entry_alloca(Context& c, llvm::Type* type) {
  llvm::IRBuilder<> b(&c.function->getEntryBlock(), c.function->getEntryBlock().begin());
  return b.CreateAlloca(type);
}

void emit_loop(Builder& b, Value* start, Value* end, Value* step, const char* name,
               llvm::function_ref<void(llvm::Instruction*)> enter, llvm::function_ref<void(Value*)> body) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* before = b.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), name, function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), std::string(name) + ".end", function);
  llvm::Instruction* guard = b.CreateCondBr(b.CreateICmpSLT(start, end), loop, after);
  enter(guard);
  b.SetInsertPoint(loop);
  auto* index = b.CreatePHI(start->getType(), 2, name);
  index->addIncoming(start, before);
  body(index);
  Value* next = b.CreateAdd(index, step);
  index->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, end), loop, after);
  b.SetInsertPoint(after);
}

void emit_if(Builder& b, Value* condition, const char* name, llvm::function_ref<void(llvm::Instruction*)> enter,
             llvm::function_ref<void()> body) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* then = llvm::BasicBlock::Create(b.getContext(), name, function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), std::string(name) + ".end", function);
  enter(b.CreateCondBr(condition, then, after));
  b.SetInsertPoint(then);
  body();
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

}  // namespace kiln::codegen::cpu
