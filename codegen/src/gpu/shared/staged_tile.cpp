#include "gpu/shared/staged_tile.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kWritePhase = 0, kReadPhase = 1;

// Pointers travel as ints.
Value* to_shared(Builder& ir, Value* x) {
  return x->getType()->isPointerTy() ? ir.CreatePtrToInt(x, ir.getInt64Ty()) : to_memory(ir, x);
}

Value* from_shared(Builder& ir, Value* x, const dsl::Type& type) {
  return type.pointer ? ir.CreateIntToPtr(x, ir.getPtrTy()) : from_memory(ir, x, type);
}

}  // namespace

StagedTile::StagedTile(Context& ctx, const dsl::Type& element, const std::vector<int64_t>& extents, int64_t pad)
    : ctx_(ctx),
      element_(element),
      memory_(element.pointer ? ctx.ir.getInt64Ty() : memory_type(ctx.ir.getContext(), element.element, false)),
      strides_(extents.size()) {
  for (size_t i = extents.size(); i-- > 0;) {
    strides_[i] = size_;
    size_ *= i + 1 == extents.size() && i > 0 ? extents[i] + pad : extents[i];
  }
  buffer_.emplace(ctx.ir, (size_ + ctx.block.lanes * ctx.block.warps) * memory_bytes(element));
}

void StagedTile::write(const Registers& registers, const Layout& layout, const std::vector<int64_t>& extents, int axis,
                       int64_t start) {
  Builder& ir = ctx_.ir;
  const auto offset = static_cast<uint32_t>(strides_.empty() ? 0 : start * strides_[static_cast<size_t>(axis)]);
  Value* thread =
      ir.CreateAdd(ir.CreateMul(ctx_.warp, ir.getInt32(static_cast<uint32_t>(ctx_.block.lanes))), ctx_.lane);
  Value* left_out = ir.CreateAdd(thread, ir.getInt32(static_cast<uint32_t>(size_)));
  for (size_t reg = 0; reg < registers.size(); ++reg) {
    llvm::SmallVector<Value*, 5> at;
    for (int i = 0; i < layout.rank(); ++i) at.push_back(ctx_.coordinate(layout, reg, i));
    Value* number = ir.CreateAdd(number_of(at), ir.getInt32(offset));
    if (Value* inside = ctx_.in_tile(layout, reg, extents)) {
      number = ir.CreateSelect(inside, number, left_out);
    }
    buffer_->mark(ir.CreateStore(to_shared(ir, registers[reg]), address(number)), SharedBuffer::Access::kWrite,
                  kWritePhase);
  }
}

void StagedTile::end_writes() { buffer_->touch(ctx_.ir, SharedBuffer::Access::kRead, kReadPhase); }

Value* StagedTile::read(llvm::ArrayRef<Value*> coordinates) { return read_number(number_of(coordinates)); }

Value* StagedTile::read_number(Value* number) {
  auto* out = ctx_.ir.CreateLoad(memory_, address(number));
  buffer_->mark(out, SharedBuffer::Access::kRead, kReadPhase);
  return from_shared(ctx_.ir, out, element_);
}

Value* StagedTile::number_of(llvm::ArrayRef<Value*> coordinates) {
  Builder& ir = ctx_.ir;
  Value* out = ir.getInt32(0);
  for (size_t axis = 0; axis < coordinates.size(); ++axis) {
    out = ir.CreateAdd(out, ir.CreateMul(coordinates[axis], ir.getInt32(static_cast<uint32_t>(strides_[axis]))));
  }
  return out;
}

Value* StagedTile::address(Value* element) { return ctx_.ir.CreateGEP(memory_, buffer_->pointer(), element); }

}  // namespace kiln::codegen::gpu
