#include "cpu/ops/order_nest.h"

namespace kiln::codegen::cpu {
namespace {

// The axis last, where vectors lie along it.
std::vector<int64_t> rows_last(std::vector<int64_t> shape, size_t axis) {
  std::rotate(shape.begin() + static_cast<int64_t>(axis), shape.begin() + static_cast<int64_t>(axis) + 1, shape.end());
  return shape;
}

}  // namespace

Slot row_slot(Context& c, const dsl::Type& type, int64_t extent) {
  return allocate_slot(c, dsl::tile_type(type.element, {dsl::Expr(extent)}));
}

OrderNest::OrderNest(Context& c, ValueId x, size_t axis)
    : nest(c, rows_last(dsl::concrete_shape(c.type(x)), axis)), axis_(axis), row_dim_(nest.rank() - 1) {
  for (int d = 0; d < nest.rank(); ++d) {
    const auto place = static_cast<size_t>(d);
    const int dim = place < axis ? d : place == axis ? row_dim_ : d - 1;
    point_.push_back(static_cast<int8_t>(dim));
  }
  nest.set_vector_dim(nest.extent(row_dim_) > 1 ? row_dim_ : -1);
}

void OrderNest::keep(const Slot& row, const dsl::Type& type, Value* values) {
  Builder& b = nest.b;
  llvm::Type* memory = memory_type(b.getContext(), type.element, false);
  const llvm::Align align(static_cast<uint64_t>(memory_bytes(type)));
  b.CreateAlignedStore(to_memory(b, values), b.CreateInBoundsGEP(memory, slot_address(nest.c, row), index()), align);
}

Value* OrderNest::pick(const Slot& row, const dsl::Type& type, Value* index) {
  Builder& b = nest.b;
  llvm::Type* memory = memory_type(b.getContext(), type.element, false);
  return b.CreateLoad(memory, b.CreateInBoundsGEP(memory, slot_address(nest.c, row), index));
}

Value* OrderNest::row(const Slot& result, const dsl::Type& type) {
  Point row = point_;
  row[axis_] = kZero;
  return nest.slot_pointer(result, row, type.element, false);
}

void OrderNest::put(const Slot& result, const dsl::Type& type, Value* index, Value* value) {
  Builder& b = nest.b;
  Value* first = row(result, type);
  Value* offset = b.CreateMul(index, nest.c.i64(result.strides[axis_]));
  b.CreateStore(value, b.CreateInBoundsGEP(memory_type(b.getContext(), type.element, false), first, offset));
}

}  // namespace kiln::codegen::cpu
