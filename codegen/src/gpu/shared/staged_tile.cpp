#include "gpu/shared/staged_tile.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kWritePhase = 0, kReadPhase = 1;

// Pointers travel as ints.
Value* to_shared(Builder& b, Value* x) {
  return x->getType()->isPointerTy() ? b.CreatePtrToInt(x, b.getInt64Ty()) : to_memory(b, x);
}

Value* from_shared(Builder& b, Value* x, const dsl::Type& type) {
  return type.pointer ? b.CreateIntToPtr(x, b.getPtrTy()) : from_memory(b, x, type);
}

}  // namespace

StagedTile::StagedTile(Context& c, const dsl::Type& element, const std::vector<int64_t>& extents, int64_t pad)
    : c_(c),
      element_(element),
      memory_(element.pointer ? c.b.getInt64Ty() : memory_type(c.b.getContext(), element.element, false)),
      strides_(extents.size()) {
  for (size_t i = extents.size(); i-- > 0;) {
    strides_[i] = size_;
    size_ *= i + 1 == extents.size() && i > 0 ? extents[i] + pad : extents[i];
  }
  buffer_.emplace(c.b, (size_ + c.block.lanes * c.block.warps) * memory_bytes(element));
}

void StagedTile::write(const Registers& registers, const Layout& layout, const std::vector<int64_t>& extents, int axis,
                       int64_t start) {
  Builder& b = c_.b;
  const auto offset = static_cast<uint32_t>(strides_.empty() ? 0 : start * strides_[static_cast<size_t>(axis)]);
  Value* thread = b.CreateAdd(b.CreateMul(c_.warp, b.getInt32(static_cast<uint32_t>(c_.block.lanes))), c_.lane);
  Value* left_out = b.CreateAdd(thread, b.getInt32(static_cast<uint32_t>(size_)));
  for (size_t reg = 0; reg < registers.size(); ++reg) {
    llvm::SmallVector<Value*, 5> at;
    for (int i = 0; i < layout.rank(); ++i) at.push_back(c_.coordinate(layout, reg, i));
    Value* number = b.CreateAdd(number_of(at), b.getInt32(offset));
    if (Value* inside = c_.in_tile(layout, reg, extents)) {
      number = b.CreateSelect(inside, number, left_out);
    }
    buffer_->mark(b.CreateStore(to_shared(b, registers[reg]), address(number)), SharedBuffer::Access::kWrite,
                  kWritePhase);
  }
}

void StagedTile::end_writes() { buffer_->touch(c_.b, SharedBuffer::Access::kRead, kReadPhase); }

Value* StagedTile::read(llvm::ArrayRef<Value*> coordinates) { return read_number(number_of(coordinates)); }

Value* StagedTile::read_number(Value* number) {
  auto* out = c_.b.CreateLoad(memory_, address(number));
  buffer_->mark(out, SharedBuffer::Access::kRead, kReadPhase);
  return from_shared(c_.b, out, element_);
}

Value* StagedTile::number_of(llvm::ArrayRef<Value*> coordinates) {
  Builder& b = c_.b;
  Value* out = b.getInt32(0);
  for (size_t axis = 0; axis < coordinates.size(); ++axis) {
    out = b.CreateAdd(out, b.CreateMul(coordinates[axis], b.getInt32(static_cast<uint32_t>(strides_[axis]))));
  }
  return out;
}

Value* StagedTile::address(Value* element) { return c_.b.CreateGEP(memory_, buffer_->pointer(), element); }

}  // namespace kiln::codegen::gpu
