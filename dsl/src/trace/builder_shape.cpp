// Making tiles and changing their shape.
#include "trace/trace.h"

namespace kiln::dsl::lang {

Value program_id(int axis, SourceLocation loc) { return emit(OpCode::kProgramId, {}, {int64_t{axis}}, loc); }
Value num_programs(int axis, SourceLocation loc) { return emit(OpCode::kNumPrograms, {}, {int64_t{axis}}, loc); }

Value arange(Const start, Const end, SourceLocation loc) {
  return emit(OpCode::kArange, {}, {start.expr(), end.expr()}, loc);
}

Value splat(Operand scalar, Shape shape) {
  return emit(OpCode::kSplat, {materialise(scalar)}, {exprs(shape)}, scalar.loc());
}

Value full(Shape shape, Operand value, ElementType type) {
  const Value scalar = cast(value, type);
  return shape.empty() ? scalar : emit(OpCode::kSplat, {scalar}, {exprs(shape)}, value.loc());
}

Value zeros(ElementType type, Shape shape, SourceLocation loc) { return full(std::move(shape), Operand(0, loc), type); }

Value broadcast_to(Operand x, Shape shape) {
  const Value value = broadcast_value(materialise(x), exprs(shape), "broadcast_to", x.loc());
  if (!value.valid() || value.type().shape == exprs(shape)) return value;
  // Extents that only some configs make equal: the op checks them when the config is known.
  return emit(OpCode::kBroadcast, {value}, {exprs(shape)}, x.loc());
}

Value expand_dims(Operand x, int axis) {
  const Value value = materialise(x);
  if (!value.valid()) return {};
  auto index = resolve_axis(axis, value.rank() + 1, "expand_dims", x.loc());
  return index ? emit(OpCode::kExpandDims, {value}, {*index}, x.loc()) : Value();
}

Value permute(Operand x, std::vector<int> order) {
  std::vector<Expr> axes;
  for (int axis : order) axes.push_back(Expr(axis));
  return emit(OpCode::kPermute, {materialise(x)}, {axes}, x.loc());
}

Value trans(Operand x) {
  const Value value = materialise(x);
  if (!value.valid()) return {};
  const int rank = value.rank();
  if (rank < 2) {
    report(x.loc(), "trans: takes tiles of rank 2 or more (" + type_text(value.type()) + ")");
    return {};
  }
  std::vector<int> order;
  for (int axis = 0; axis < rank - 2; ++axis) order.push_back(axis);
  order.push_back(rank - 1);
  order.push_back(rank - 2);
  return permute(Operand(value, x.loc()), order);
}

Value reshape(Operand x, Shape shape) { return emit(OpCode::kReshape, {materialise(x)}, {exprs(shape)}, x.loc()); }

Value join(Operand a, Operand b) {
  const std::vector<Value> values = broadcast_all(promote_or_pointers({a, b}, "join"), "join", a.loc());
  return values.empty() ? Value() : emit(OpCode::kJoin, values, {}, a.loc());
}

std::pair<Value, Value> split(Operand x) {
  const std::vector<Value> halves = emit_all(OpCode::kSplit, {materialise(x)}, {}, x.loc());
  return {tracing::at(halves, 0), tracing::at(halves, 1)};
}

Value cat(Operand a, Operand b, int axis) {
  const std::vector<Value> values = promote_or_pointers({a, b}, "cat");
  if (values.empty()) return {};
  auto index = resolve_axis(axis, values[0].rank(), "cat", a.loc());
  return index ? emit(OpCode::kCat, values, {*index}, a.loc()) : Value();
}

Value slice(Operand x, int axis, Const start, Const end) {
  const Value value = materialise(x);
  if (!value.valid()) return {};
  auto index = resolve_axis(axis, value.rank(), "slice", x.loc());
  return index ? emit(OpCode::kSlice, {value}, {*index, start.expr(), end.expr()}, x.loc()) : Value();
}

Value gather(Operand src, Operand index, int axis) {
  const std::vector<Value> values = materialise_all({src, index});
  if (values.empty()) return {};
  auto number = resolve_axis(axis, values[0].rank(), "gather", src.loc());
  return number ? emit(OpCode::kGather, values, {*number}, src.loc()) : Value();
}

}  // namespace kiln::dsl::lang
