// Products, reductions, scans and orders.
#include "trace/trace.h"

namespace kiln::dsl::lang {
namespace {

// An op along one axis; `attrs` are those around the axis.
std::vector<Value> along(OpCode code, const std::vector<Value>& values, int axis, std::vector<Attr> before,
                         const std::vector<Attr>& after, const std::source_location& loc) {
  if (values.empty() || !values[0].valid()) return {};
  auto index = resolve_axis(axis, values[0].rank(), info(code).name, loc);
  if (!index) return {};
  before.emplace_back(*index);
  before.insert(before.end(), after.begin(), after.end());
  return emit_all(code, values, std::move(before), loc);
}

// A reduction or scan; `after` are the attributes behind the axis.
Value combined(OpCode code, const Value& x, int axis, ReduceKind kind, const std::vector<Attr>& after,
               const std::source_location& loc) {
  if (kind == ReduceKind::kCustom) {
    report(loc, info(code).name + ": kCustom takes a function in place of the kind");
    return {};
  }
  return tracing::at(along(code, {x}, axis, {static_cast<int64_t>(kind)}, after, loc), 0);
}

Value reduce_value(const Value& x, int axis, ReduceKind kind, const std::source_location& loc) {
  return combined(OpCode::kReduce, x, axis, kind, {}, loc);
}

Value scan_value(const Value& x, int axis, ReduceKind kind, ScanOptions options, const std::source_location& loc) {
  return combined(OpCode::kScan, x, axis, kind, {int64_t{options.reverse}}, loc);
}

// Ints below 32 bits as 32 bits of the same signedness; i1 counts as i32.
Value widened(const Operand& x) {
  const Value value = materialise(x);
  if (!value.valid() || !value.type().is_value()) return value;
  const ElementTypeInfo& element = info(value.element());
  if (element.is_float || element.bits >= 32) return value;
  return cast(Operand(value, x.loc()), element.is_signed || element.bits == 1 ? i32_t : u32_t);
}

// Where a product begins without an accumulator: zeros of the shape that it has.
Value zero_product(const Type& a, const Type& b, const std::source_location& loc) {
  const int rank = a.rank();
  if ((rank != 2 && rank != 3) || b.rank() != rank) {
    report(loc, "dot: takes tiles of rank 2, or of rank 3 with a batch in front (operands: " + type_text(a) + ", " +
                    type_text(b) + ")");
    return {};
  }
  Shape shape;
  for (const Expr& extent : a.shape) shape.push_back(Const(extent));
  shape.back() = Const(b.shape.back());
  const ElementType element = is_int(a.element) ? i32_t : a.element == ElementType::kF64 ? f64_t : f32_t;
  return zeros(element, shape, loc);
}

}  // namespace

Value dot(Operand a, Operand b, Operand acc, Precision precision) {
  const Value x = materialise(a), y = materialise(b);
  if (!x.valid() || !y.valid()) return {};
  const Value start = acc.present() ? materialise(acc) : zero_product(x.type(), y.type(), a.loc());
  return emit(OpCode::kDot, {x, y, start}, {static_cast<int64_t>(precision)}, a.loc());
}

Value dot_scaled(Operand a, Operand a_scale, Operand b, Operand b_scale, Operand acc) {
  std::vector<Value> values = materialise_all({a, a_scale, b, b_scale});
  if (values.empty()) return {};
  const Type x = values[0].type(), y = values[2].type();
  if (acc.present()) {
    values.push_back(materialise(acc));
  } else if (x.rank() == 2 && y.rank() == 2) {
    values.push_back(zeros(f32_t, {Const(x.shape[0]), Const(y.shape[1])}, a.loc()));
  } else {
    report(a.loc(), "dot_scaled: takes tiles of rank 2 (operands: " + type_text(x) + ", " + type_text(y) + ")");
    return {};
  }
  return emit(OpCode::kDotScaled, values, {}, a.loc());
}

Value reduce(Operand x, int axis, ReduceKind kind) { return reduce_value(materialise(x), axis, kind, x.loc()); }
Value sum(Operand x, int axis) { return reduce_value(widened(x), axis, ReduceKind::kSum, x.loc()); }
Value prod(Operand x, int axis) { return reduce(std::move(x), axis, ReduceKind::kProd); }
Value reduce_max(Operand x, int axis) { return reduce(std::move(x), axis, ReduceKind::kMax); }
Value reduce_min(Operand x, int axis) { return reduce(std::move(x), axis, ReduceKind::kMin); }
Value reduce_and(Operand x, int axis) { return reduce(std::move(x), axis, ReduceKind::kAnd); }
Value reduce_or(Operand x, int axis) { return reduce(std::move(x), axis, ReduceKind::kOr); }
Value reduce_xor(Operand x, int axis) { return reduce(std::move(x), axis, ReduceKind::kXor); }
Value argmax(Operand x, int axis) { return reduce(std::move(x), axis, ReduceKind::kArgmax); }
Value argmin(Operand x, int axis) { return reduce(std::move(x), axis, ReduceKind::kArgmin); }

Value scan(Operand x, int axis, ReduceKind kind, ScanOptions options) {
  return scan_value(materialise(x), axis, kind, options, x.loc());
}
Value cumsum(Operand x, int axis, ScanOptions options) {
  return scan_value(widened(x), axis, ReduceKind::kSum, options, x.loc());
}
Value cumprod(Operand x, int axis, ScanOptions options) {
  return scan_value(widened(x), axis, ReduceKind::kProd, options, x.loc());
}

Value sort(Operand x, int axis, SortOptions options) {
  return tracing::at(along(OpCode::kSort, {materialise(x)}, axis, {}, {int64_t{options.descending}}, x.loc()), 0);
}

std::pair<Value, Value> sort(Operand keys, Operand values, int axis, SortOptions options) {
  const std::vector<Value> sorted =
      along(OpCode::kSort, materialise_all({keys, values}), axis, {}, {int64_t{options.descending}}, keys.loc());
  return {tracing::at(sorted, 0), tracing::at(sorted, 1)};
}

std::pair<Value, Value> topk(Operand x, Const k, int axis, TopkOptions options) {
  const std::vector<Value> top =
      along(OpCode::kTopk, {materialise(x)}, axis, {k.expr()}, {int64_t{options.largest}}, x.loc());
  return {tracing::at(top, 0), tracing::at(top, 1)};
}

Value histogram(Operand x, Const bins) { return emit(OpCode::kHistogram, {materialise(x)}, {bins.expr()}, x.loc()); }

}  // namespace kiln::dsl::lang
