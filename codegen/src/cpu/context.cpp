#include "cpu/context.h"

#include <utility>

namespace kiln::codegen::cpu {

Value* Context::memory_mask(Value* mask) {
  if (!mask || !opaque_false) return mask;
  auto* lanes = llvm::cast<llvm::FixedVectorType>(mask->getType());
  return ir.CreateOr(mask, ir.CreateVectorSplat(lanes->getElementCount(), opaque_false));
}

Groups number_groups(const Schedule& schedule) {
  Groups out;
  for (size_t g = 0; g < schedule.fused.size(); ++g) {
    for (const Op* store : schedule.fused[g]) out[store] = g;
  }
  return out;
}

namespace {

constexpr int64_t kCacheLine = 64;
// Reads and writes go in chunks of up to this many elements, so rows are padded to it.
constexpr int64_t kRowPadding = 64;
constexpr int64_t kConflict = 1024;
constexpr int64_t kMostNarrow = 8;   // elements in all narrow axes
constexpr int64_t kLeastBefore = 4;  // and of the axis before them

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

// [..., n, 2, 3] has two narrow axes, and n is walked in vectors.
std::optional<size_t> axis_before_narrow(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (count > 1 && count * shape[i] > kMostNarrow) return shape[i] < kLeastBefore ? std::nullopt : std::optional(i);
    count *= shape[i];
    // A register of half the size and no shuffles do as well.
    if (count >= kMostNarrow && count == shape[i]) return std::nullopt;
  }
  return std::nullopt;
}

ScratchSlot allocate_scratch_slot(Context& ctx, const dsl::Type& type, Rows rows) {
  ScratchSlot slot;
  std::vector<int64_t> shape = dsl::concrete_shape(type);
  const std::optional<size_t> row = rows == Rows::kClose ? axis_before_narrow(shape) : std::nullopt;
  slot.close = row.has_value();
  slot.exact = rows == Rows::kDense || slot.close;
  slot.strides.resize(shape.size());
  int64_t stride = 1;
  bool innermost = true;
  for (size_t i = shape.size(); i-- > 0;) {
    slot.strides[i] = stride;
    // Only the innermost axis of more than one element is walked by vectors.
    const bool padded = row ? i == *row : innermost && shape[i] > 1 && !slot.exact;
    stride = padded ? stride * round_up(shape[i], kRowPadding) : stride * shape[i];
    // Rows a large power of two apart would meet in the same sets of the cache.
    if (padded && i > 0 && stride * memory_bytes(type) % kConflict == 0) stride += kCacheLine / memory_bytes(type);
    innermost = innermost && shape[i] == 1;
  }
  slot.offset = ctx.scratch_bytes;
  // One more vector behind the last row: parts of a tile are read in whole vectors too.
  ctx.scratch_bytes += static_cast<uint64_t>(round_up((stride + kRowPadding) * memory_bytes(type), kCacheLine));
  return slot;
}

Value* load_from_slot(Context& ctx, ValueId id, const ScratchSlot& slot) {
  const dsl::Type& type = ctx.type(id);
  llvm::Type* memory = memory_type(ctx.ir.getContext(), type.element, type.pointer);
  return from_memory(ctx.ir, ctx.ir.CreateLoad(memory, scratch_slot_address(ctx, slot)), type);
}

bool is_dense(const ScratchSlot& slot, const std::vector<int64_t>& shape) {
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
    if (shape[i] > 1 && slot.strides[i] != stride) return false;
  }
  return true;
}

Value* scratch_slot_address(Context& ctx, const ScratchSlot& slot) {
  return ctx.ir.CreateConstInBoundsGEP1_64(ctx.ir.getInt8Ty(), ctx.scratch, slot.offset);
}

Value* entry_alloca(Context& ctx, llvm::Type* type) {
  llvm::IRBuilder<> ir(&ctx.function->getEntryBlock(), ctx.function->getEntryBlock().begin());
  return ir.CreateAlloca(type);
}

void emit_loop(Builder& ir, Value* start, Value* end, Value* step, const char* name,
               llvm::function_ref<void(llvm::Instruction*)> enter, llvm::function_ref<void(Value*)> body) {
  llvm::Function* function = ir.GetInsertBlock()->getParent();
  auto* before = ir.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(ir.getContext(), name, function);
  auto* after = llvm::BasicBlock::Create(ir.getContext(), std::string(name) + ".end", function);
  llvm::Instruction* guard = ir.CreateCondBr(ir.CreateICmpSLT(start, end), loop, after);
  enter(guard);
  ir.SetInsertPoint(loop);
  auto* index = ir.CreatePHI(start->getType(), 2, name);
  index->addIncoming(start, before);
  body(index);
  Value* next = ir.CreateAdd(index, step);
  index->addIncoming(next, ir.GetInsertBlock());
  ir.CreateCondBr(ir.CreateICmpSLT(next, end), loop, after);
  ir.SetInsertPoint(after);
}

void emit_if(Builder& ir, Value* condition, const char* name, llvm::function_ref<void(llvm::Instruction*)> enter,
             llvm::function_ref<void()> body) {
  llvm::Function* function = ir.GetInsertBlock()->getParent();
  auto* then = llvm::BasicBlock::Create(ir.getContext(), name, function);
  auto* after = llvm::BasicBlock::Create(ir.getContext(), std::string(name) + ".end", function);
  enter(ir.CreateCondBr(condition, then, after));
  ir.SetInsertPoint(then);
  body();
  ir.CreateBr(after);
  ir.SetInsertPoint(after);
}

Result<void> unless(Context& ctx, Value* skip, llvm::function_ref<Result<void>()> emit) {
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(skip)) return known->isOne() ? Result<void>{} : emit();
  Result<void> result;
  const std::vector<bool> keep = std::exchange(ctx.keep, std::vector<bool>(ctx.keep.size()));
  emit_if(ctx.ir, ctx.ir.CreateNot(skip), "otherwise", [](llvm::Instruction*) {}, [&] { result = emit(); });
  ctx.keep = keep;
  return result;
}

}  // namespace kiln::codegen::cpu
