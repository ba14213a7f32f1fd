#include "cpu/context.h"

#include <utility>

namespace kiln::codegen::cpu {

Value* Context::memory_mask(Value* mask) {
  if (!mask || !never) return mask;
  auto* lanes = llvm::cast<llvm::FixedVectorType>(mask->getType());
  return b.CreateOr(mask, b.CreateVectorSplat(lanes->getElementCount(), never));
}

Groups number_groups(const Schedule& schedule) {
  Groups out;
  for (size_t g = 0; g < schedule.together.size(); ++g) {
    for (const Op* store : schedule.together[g]) out[store] = g;
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

Slot allocate_slot(Context& c, const dsl::Type& type, Rows rows) {
  Slot slot;
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
  slot.offset = c.scratch_bytes;
  // One more vector behind the last row: parts of a tile are read in whole vectors too.
  c.scratch_bytes += static_cast<uint64_t>(round_up((stride + kRowPadding) * memory_bytes(type), kCacheLine));
  return slot;
}

Value* load_from_slot(Context& c, ValueId id, const Slot& slot) {
  const dsl::Type& type = c.type(id);
  llvm::Type* memory = memory_type(c.b.getContext(), type.element, type.pointer);
  return from_memory(c.b, c.b.CreateLoad(memory, slot_address(c, slot)), type);
}

bool is_dense(const Slot& slot, const std::vector<int64_t>& shape) {
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
    if (shape[i] > 1 && slot.strides[i] != stride) return false;
  }
  return true;
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

Result<void> unless(Context& c, Value* skip, llvm::function_ref<Result<void>()> emit) {
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(skip)) return known->isOne() ? Result<void>{} : emit();
  Result<void> result;
  const std::vector<bool> keep = std::exchange(c.keep, std::vector<bool>(c.keep.size()));
  emit_if(c.b, c.b.CreateNot(skip), "otherwise", [](llvm::Instruction*) {}, [&] { result = emit(); });
  c.keep = keep;
  return result;
}

}  // namespace kiln::codegen::cpu
