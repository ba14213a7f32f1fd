#include "cpu/ops/order_nest.h"

namespace kiln::codegen::cpu {
namespace {

// The axis last, where vectors lie along it.
std::vector<int64_t> rows_last(std::vector<int64_t> shape, size_t axis) {
  std::rotate(shape.begin() + static_cast<int64_t>(axis), shape.begin() + static_cast<int64_t>(axis) + 1, shape.end());
  return shape;
}

}  // namespace

ScratchSlot row_slot(Context& ctx, const dsl::Type& type, int64_t extent) {
  return allocate_scratch_slot(ctx, dsl::tile_type(type.element, {dsl::Expr(extent)}));
}

OrderNest::OrderNest(Context& ctx, ValueId x, size_t axis)
    : nest(ctx, rows_last(dsl::concrete_shape(ctx.type(x)), axis)), axis_(axis), row_dim_(nest.rank() - 1) {
  for (int d = 0; d < nest.rank(); ++d) {
    const auto place = static_cast<size_t>(d);
    const int dim = place < axis ? d : place == axis ? row_dim_ : d - 1;
    point_.push_back(static_cast<int8_t>(dim));
  }
  nest.set_vector_dim(nest.extent(row_dim_) > 1 ? row_dim_ : -1);
}

void OrderNest::keep(const ScratchSlot& row, const dsl::Type& type, Value* values) {
  Builder& ir = nest.ir;
  llvm::Type* memory = memory_type(ir.getContext(), type.element, false);
  const llvm::Align align(static_cast<uint64_t>(memory_bytes(type)));
  ir.CreateAlignedStore(to_memory(ir, values),
                        ir.CreateInBoundsGEP(memory, scratch_slot_address(nest.ctx, row), index()), align);
}

Value* OrderNest::pick(const ScratchSlot& row, const dsl::Type& type, Value* index) {
  Builder& ir = nest.ir;
  llvm::Type* memory = memory_type(ir.getContext(), type.element, false);
  return ir.CreateLoad(memory, ir.CreateInBoundsGEP(memory, scratch_slot_address(nest.ctx, row), index));
}

Value* OrderNest::row(const ScratchSlot& result, const dsl::Type& type) {
  Point row = point_;
  row[axis_] = kZero;
  return nest.slot_pointer(result, row, type.element, false);
}

void OrderNest::put(const ScratchSlot& result, const dsl::Type& type, Value* index, Value* value) {
  Builder& ir = nest.ir;
  Value* first = row(result, type);
  Value* offset = ir.CreateMul(index, nest.ctx.i64(result.strides[axis_]));
  ir.CreateStore(value, ir.CreateInBoundsGEP(memory_type(ir.getContext(), type.element, false), first, offset));
}

}  // namespace kiln::codegen::cpu
