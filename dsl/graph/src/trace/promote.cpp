#include "trace/promote.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "kiln/graph/extents.h"

namespace kiln::graph {
namespace {

using Kind = Operand::Kind;

std::string name_of(ElementType type) { return std::string(dsl::info(type).name); }

std::string number_text(const Operand& number) {
  if (number.kind() == Kind::kInt) return std::to_string(number.int_number());
  if (number.kind() == Kind::kUnsigned) return std::to_string(static_cast<uint64_t>(number.int_number()));
  char text[32];
  std::snprintf(text, sizeof text, "%g", number.float_number());
  return text;
}

bool is_number(const Operand& operand) { return operand.present() && !operand.is_tensor(); }
bool is_fraction(const Operand& operand) { return operand.kind() == Kind::kFloat; }

// The type of a number that no tensor gives one. A C++ literal is a double where nobody meant 64 bits.
ElementType own_type(const Operand& number) {
  if (is_fraction(number)) return ElementType::kF32;
  if (number.is_dim()) return ElementType::kI64;
  if (number.kind() == Kind::kUnsigned) return ElementType::kU64;
  return dsl::int_fits(ElementType::kI32, number.int_number()) ? ElementType::kI32 : ElementType::kI64;
}

// A set of types reduced to those that count: floats where one is, of these the widest.
class Widest {
 public:
  void add(ElementType type) {
    const bool is_float = dsl::is_float(type);
    if (count_ > 0 && is_float != dsl::is_float(types_[0])) {
      if (!is_float) return;
      count_ = 0;
    }
    if (count_ > 0 && dsl::info(type).bits < dsl::info(types_[0]).bits) return;
    if (count_ > 0 && dsl::info(type).bits > dsl::info(types_[0]).bits) count_ = 0;
    const auto end = types_.begin() + count_;
    if (std::find(types_.begin(), end, type) == end) types_[static_cast<size_t>(count_++)] = type;
  }
  int count() const { return count_; }
  ElementType operator[](size_t i) const { return types_[i]; }

 private:
  std::array<ElementType, dsl::kElementTypeCount> types_{};
  int count_ = 0;
};

// The largest finite number of an f8 type: beyond it a conversion saturates, where a C++ number is an error.
std::optional<double> largest_f8(ElementType type) {
  if (type == ElementType::kF8E4M3) return 448;
  if (type == ElementType::kF8E5M2) return 57344;
  return std::nullopt;
}

// A C++ float as bits of the type; none when it is too large for it.
std::optional<Literal> float_literal(double number, ElementType type) {
  if (!dsl::is_float(type)) return std::nullopt;
  const Literal literal{dsl::bits_from_double(type, number)};
  if (auto largest = largest_f8(type)) {
    if (std::isinf(number) && type == ElementType::kF8E5M2) return Literal{number < 0 ? 0xfcu : 0x7cu};
    return std::abs(number) > *largest ? std::nullopt : std::optional(literal);
  }
  const bool overflows = std::isfinite(number) && !std::isfinite(dsl::double_from_bits(type, literal.bits));
  return overflows ? std::nullopt : std::optional(literal);
}

std::optional<Literal> literal_of(const Operand& number, ElementType type) {
  if (is_fraction(number)) return float_literal(number.float_number(), type);
  if (number.kind() == Kind::kUnsigned && number.int_number() < 0) {  // 2^63 and more
    if (type != ElementType::kU64) return std::nullopt;
    return Literal{static_cast<uint64_t>(number.int_number())};
  }
  if (!dsl::int_fits(type, number.int_number())) return std::nullopt;
  return Literal{dsl::bits_from_int(type, number.int_number())};
}

bool is_one(const Expr& extent) { return extent.as_constant() == 1; }

bool always_equal(const Trace& trace, const Expr& a, const Expr& b) {
  return a == b || equal(trace.graph().dims, a, b) == Known::kYes;
}

// Whether each can be an operand here; numbers can.
bool all_usable(Trace& trace, OperandList operands, std::string_view what, const SourceLocation& loc) {
  return std::all_of(operands.begin(), operands.end(), [&](const Operand* operand) {
    return !operand->is_tensor() || trace.usable(operand->tensor(), what, loc);
  });
}

}  // namespace

Operand::Operand(const Dim& dim, Location loc) : kind_(Kind::kInt), loc_(loc) {
  if (auto known = dim.expr().as_constant()) {
    int_ = *known;
    return;
  }
  is_dim_ = true;
  dim_ = dim;
}

std::optional<ElementType> common_type(Trace& trace, OperandList operands, std::string_view what,
                                       const SourceLocation& loc) {
  Widest widest, numbers;
  bool fraction = false;
  for (const Operand* operand : operands) {
    if (operand->is_tensor()) widest.add(trace.type(operand->tensor()).element);
    if (is_number(*operand)) numbers.add(own_type(*operand));
    fraction = fraction || is_fraction(*operand);
  }
  if (widest.count() == 0) widest = numbers;
  if (widest.count() == 0) {
    trace.report(loc, std::string(what) + ": an operand is left out");
    return std::nullopt;
  }
  if (fraction && !dsl::is_float(widest[0])) return ElementType::kF32;
  if (widest.count() == 1) return widest[0];
  if (dsl::is_float(widest[0])) return ElementType::kF32;
  const std::string a = name_of(widest[0]), b = name_of(widest[1]);
  trace.report(loc, std::string(what) + ": " + a + " and " + b +
                        " have the same width and different signedness; write cast(x, " + a + ") or cast(x, " + b +
                        ")");
  return std::nullopt;
}

Tensor number_tensor(Trace& trace, const Operand& number, ElementType type, const std::vector<Expr>& shape,
                     std::string_view what, const SourceLocation& loc) {
  if (number.is_dim()) {
    auto value = trace.expr(number.dim(), what, loc);
    if (!value) return {};
    const Tensor scalar = trace.emit(TensorOp::kExtent, {}, {type, std::move(*value)}, loc);
    return scalar.valid() ? broadcast_tensor(trace, scalar, shape, what, loc) : Tensor();
  }
  auto literal = literal_of(number, type);
  if (literal) return trace.emit(TensorOp::kFull, {}, {type, shape, *literal}, loc);
  trace.report(loc, std::string(what) + ": " + number_text(number) + " is not a value of " + name_of(type) +
                        "; cast the tensor to a type that has it");
  return {};
}

Tensor as_tensor(Trace& trace, const Operand& operand, ElementType type, std::string_view what) {
  if (is_number(operand)) return number_tensor(trace, operand, type, {}, what, operand.loc());
  if (!operand.present()) {
    trace.report(operand.loc(), std::string(what) + ": an operand is left out");
    return {};
  }
  return trace.usable(operand.tensor(), what, operand.loc()) ? operand.tensor() : Tensor();
}

Tensor as_tensor(Trace& trace, const Operand& operand, std::string_view what) {
  return as_tensor(trace, operand, is_number(operand) ? own_type(operand) : ElementType::kF32, what);
}

Tensor cast_tensor(Trace& trace, const Tensor& tensor, ElementType type, const SourceLocation& loc) {
  if (trace.type(tensor).element == type) return tensor;
  return trace.emit(TensorOp::kCast, {&tensor, 1}, {type}, loc);
}

Tensor as_float(Trace& trace, const Operand& operand, std::string_view what) {
  if (is_number(operand)) return number_tensor(trace, operand, ElementType::kF32, {}, what, operand.loc());
  const Tensor tensor = as_tensor(trace, operand, what);
  if (!tensor.valid() || dsl::is_float(trace.type(tensor).element)) return tensor;
  return cast_tensor(trace, tensor, ElementType::kF32, operand.loc());
}

Tensor broadcast_tensor(Trace& trace, const Tensor& tensor, const std::vector<Expr>& shape, std::string_view what,
                        const SourceLocation& loc) {
  const std::vector<Expr>& from = trace.type(tensor).shape;
  bool fits = from.size() <= shape.size(), same = from.size() == shape.size();
  const size_t missing = shape.size() - std::min(shape.size(), from.size());
  for (size_t i = 0; fits && i < from.size(); ++i) {
    const Expr& wanted = shape[missing + i];
    const bool equal = always_equal(trace, from[i], wanted);
    fits = equal || is_one(from[i]);
    same = same && equal;
  }
  if (same) return tensor;
  if (fits) return trace.emit(TensorOp::kBroadcast, {&tensor, 1}, {shape}, loc);
  const TensorType wanted{trace.type(tensor).element, shape};
  trace.report(loc, std::string(what) + ": " + trace.text(tensor) + " does not broadcast to the shape of " +
                        to_string(wanted, trace.graph().expr_names()));
  return {};
}

std::optional<std::vector<Expr>> common_shape(Trace& trace, std::span<const Tensor> tensors, std::string_view what,
                                              const SourceLocation& loc) {
  std::vector<Expr> shape;
  for (const Tensor& tensor : tensors) {
    const std::vector<Expr>& own = trace.type(tensor).shape;
    if (own.size() > shape.size()) shape.insert(shape.begin(), own.size() - shape.size(), Expr(1));
    for (size_t i = 0; i < own.size(); ++i) {
      Expr& extent = shape[shape.size() - own.size() + i];
      if (is_one(extent)) extent = own[i];
      if (is_one(own[i]) || always_equal(trace, extent, own[i])) continue;
      std::string text;
      for (const Tensor& each : tensors) text += (text.empty() ? "" : " and ") + trace.text(each);
      trace.report(loc, std::string(what) + ": the shapes of " + text + " do not broadcast: " + trace.text(extent) +
                            " against " + trace.text(own[i]));
      return std::nullopt;
    }
  }
  return shape;
}

std::vector<Tensor> promote(Trace& trace, OperandList operands, std::string_view what,
                            std::optional<ElementType> type) {
  const SourceLocation& loc = operands[0]->loc();
  if (!all_usable(trace, operands, what, loc)) return {};
  if (!type) type = common_type(trace, operands, what, loc);
  if (!type) return {};
  std::vector<Tensor> out;
  out.reserve(operands.size());
  for (const Operand* operand : operands) {
    if (!operand->present()) {
      out.push_back(Trace::absent());
      continue;
    }
    out.push_back(operand->is_tensor() ? cast_tensor(trace, operand->tensor(), *type, loc)
                                       : number_tensor(trace, *operand, *type, {}, what, loc));
    if (!out.back().valid()) return {};
  }
  return out;
}

std::vector<Tensor> promote_and_broadcast(Trace& trace, OperandList operands, std::string_view what,
                                          std::optional<ElementType> type) {
  const SourceLocation& loc = operands[0]->loc();
  if (!all_usable(trace, operands, what, loc)) return {};
  if (!type) type = common_type(trace, operands, what, loc);
  if (!type) return {};
  std::vector<Tensor> tensors;
  for (const Operand* operand : operands) {
    if (!operand->is_tensor()) continue;
    tensors.push_back(cast_tensor(trace, operand->tensor(), *type, loc));
    if (!tensors.back().valid()) return {};
  }
  auto shape = common_shape(trace, tensors, what, loc);
  if (!shape) return {};
  std::vector<Tensor> out;
  out.reserve(operands.size());
  size_t next = 0;
  for (const Operand* operand : operands) {
    out.push_back(operand->is_tensor() ? broadcast_tensor(trace, tensors[next++], *shape, what, loc)
                                       : number_tensor(trace, *operand, *type, *shape, what, loc));
    if (!out.back().valid()) return {};
  }
  return out;
}

namespace {

constexpr size_t kMostAlike = 3;

// The type that all tensors have; none where they differ, or where what is beside them is no number.
std::optional<TypeId> type_of_all(Trace& trace, OperandList operands) {
  std::optional<TypeId> type;
  if (operands.size() > kMostAlike) return std::nullopt;
  for (const Operand* operand : operands) {
    if (is_number(*operand) && !operand->is_dim()) continue;
    if (!operand->is_tensor() || !trace.knows(operand->tensor())) return std::nullopt;
    const TypeId own = trace.type_id(operand->tensor());
    if (type.value_or(own) != own) return std::nullopt;
    type = own;
  }
  return type;
}

// The common case: tensors of one type, and numbers that are values of it. Leaves `out` invalid where it is another.
bool take_alike(Trace& trace, OperandList operands, std::optional<ElementType> wanted,
                std::array<Tensor, kMostAlike>& out) {
  const auto type = type_of_all(trace, operands);
  if (!type) return false;
  const ElementType element = trace.graph().types[*type].element;
  if (wanted && *wanted != element) return false;
  std::array<std::optional<Literal>, kMostAlike> literals;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i]->is_tensor()) {
      out[i] = operands[i]->tensor();
      continue;
    }
    literals[i] = literal_of(*operands[i], element);
    if (!literals[i]) return false;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!literals[i]) continue;
    AttrList attrs = {element, trace.graph().types[*type].shape, *literals[i]};
    out[i] = trace.emit(TensorOp::kFull, {}, std::move(attrs), operands[0]->loc());
  }
  return true;
}

Tensor emit_elementwise(TensorOp op, OperandList operands, AttrList attrs, std::optional<ElementType> type) {
  Trace& trace = *Trace::current();
  const SourceLocation& loc = operands[0]->loc();
  std::array<Tensor, kMostAlike> same;
  if (take_alike(trace, operands, type, same)) {
    return trace.emit(op, std::span(same.data(), operands.size()), std::move(attrs), loc);
  }
  const std::vector<Tensor> tensors = promote_and_broadcast(trace, operands, info(op).name, type);
  return tensors.empty() ? Tensor() : trace.emit(op, tensors, std::move(attrs), loc);
}

}  // namespace

Tensor elementwise_of(TensorOp op, OperandList operands, AttrList attrs) {
  return Trace::current() ? emit_elementwise(op, operands, std::move(attrs), std::nullopt) : Tensor();
}

Tensor math_of(TensorOp op, OperandList operands, AttrList attrs) {
  Trace* trace = Trace::current();
  if (!trace || !all_usable(*trace, operands, info(op).name, operands[0]->loc())) return {};
  auto type = common_type(*trace, operands, info(op).name, operands[0]->loc());
  if (!type) return {};
  if (!dsl::is_float(*type)) type = ElementType::kF32;
  return emit_elementwise(op, operands, std::move(attrs), type);
}

std::optional<int64_t> resolve_axis(Trace& trace, int axis, int count, std::string_view what,
                                    const SourceLocation& loc) {
  const int index = axis < 0 ? axis + count : axis;
  if (index >= 0 && index < count) return index;
  trace.report(loc,
               std::string(what) + ": there is no axis " + std::to_string(axis) + " among " + std::to_string(count));
  return std::nullopt;
}

std::optional<std::vector<int64_t>> resolve_axes(Trace& trace, const std::vector<int>& axes, int count,
                                                 std::string_view what, const SourceLocation& loc) {
  std::vector<int64_t> out;
  if (axes.empty()) {
    out.resize(static_cast<size_t>(count));
    std::iota(out.begin(), out.end(), 0);
    return out;
  }
  for (const int axis : axes) {
    auto index = resolve_axis(trace, axis, count, what, loc);
    if (!index) return std::nullopt;
    if (std::find(out.begin(), out.end(), *index) != out.end()) {
      trace.report(loc, std::string(what) + ": axis " + std::to_string(*index) + " is named twice");
      return std::nullopt;
    }
    out.push_back(*index);
  }
  return out;
}

}  // namespace kiln::graph
