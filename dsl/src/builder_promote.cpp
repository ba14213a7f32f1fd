// Promotion of element types and broadcasting of shapes: what the C++ builder adds to an IR that has neither.
//
//   number with tile     the tile's type, when the number is one of its values
//   int with float       the float
//   two ints             the wider; of equal width and different signedness: an error that names the cast to write
//   two floats           the wider; of equal width (f16 with bf16, the two f8): f32
//   shapes               aligned at the last axis; a missing axis or an extent of 1 stretches
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "trace.h"

namespace kiln::dsl::lang {
namespace {

using Kind = Operand::Kind;

std::string name_of(ElementType type) { return std::string(info(type).name); }

std::string number_text(const Operand& number) {
  if (number.kind() == Kind::kInt) return expr_text(number.expr());
  if (number.kind() == Kind::kUnsigned) return std::to_string(number.unsigned_number());
  char text[32];
  std::snprintf(text, sizeof text, "%g", number.number());
  return text;
}

bool is_float_number(const Operand& operand) {
  return operand.kind() == Kind::kFloat || operand.kind() == Kind::kDouble;
}

// The type of a number that no tile gives one.
ElementType own_type(const Operand& number) {
  if (number.kind() == Kind::kFloat) return ElementType::kF32;
  if (number.kind() == Kind::kDouble) return ElementType::kF64;
  if (number.kind() == Kind::kUnsigned) return ElementType::kU64;
  auto known = number.expr().as_constant();
  return !known || int_fits(ElementType::kI32, *known) ? ElementType::kI32 : ElementType::kI64;
}

std::optional<ElementType> common_type(ElementType a, ElementType b, const std::string& what,
                                       const std::source_location& loc) {
  if (a == b) return a;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (info(a).bits != info(b).bits) return info(a).bits > info(b).bits ? a : b;
  if (is_float(a)) return ElementType::kF32;
  report(loc, what + ": " + name_of(a) + " and " + name_of(b) +
                  " have the same width and different signedness; write cast(x, " + name_of(a) + "_t) or cast(x, " +
                  name_of(b) + "_t)");
  return std::nullopt;
}

// The type of all numbers when no operand is a tile: a float where one of them is, else the wider int.
ElementType numbers_type(const std::vector<Operand>& operands) {
  std::optional<ElementType> type;
  for (const Operand& operand : operands) {
    const ElementType own = own_type(operand);
    const bool wider = !type || (is_float(own) && !is_float(*type)) ||
                       (is_float(own) == is_float(*type) && info(own).bits > info(*type).bits);
    if (wider) type = own;
  }
  return type.value_or(ElementType::kI32);
}

}  // namespace

Value constant(const Operand& number, ElementType type, const std::source_location& loc) {
  Attr value;
  std::optional<Expr> launcher;
  bool fits = true;
  if (is_float_number(number)) {
    const uint64_t bits = bits_from_double(type, number.number());
    const bool overflows = std::isfinite(number.number()) && !std::isfinite(double_from_bits(type, bits));
    fits = is_float(type) && !overflows;
    value = Literal{bits};
  } else if (number.kind() == Kind::kUnsigned) {
    fits = type == ElementType::kU64;
    value = Literal{number.unsigned_number()};
  } else if (auto known = number.expr().as_constant()) {
    fits = int_fits(type, *known);
    value = Literal{bits_from_int(type, *known)};
    launcher = number.expr();
  } else {
    value = number.expr();  // whether it fits is checked when the config is known
    launcher = number.expr();
  }
  if (!fits) {
    report(loc, number_text(number) + " is not a value of " + name_of(type) + "; cast the tile to a type that has it");
    return {};
  }
  const Value result = emit(OpCode::kConstant, {}, {std::move(value), type}, loc);
  if (result.valid() && is_int(type) && type != ElementType::kI1) Trace::current()->fact(result).launcher = launcher;
  return result;
}

Value materialise(const Operand& operand) {
  Trace* trace = Trace::current();
  if (!trace) return {};
  if (operand.is_value() || !operand.present()) {
    return trace->usable(operand.value(), operand.loc()) ? operand.value() : Value();
  }
  return constant(operand, own_type(operand), operand.loc());
}

std::vector<Value> promote(const std::vector<Operand>& operands, const std::string& what) {
  Trace* trace = Trace::current();
  if (!trace) return {};
  const std::source_location loc = operands[0].loc();
  std::optional<ElementType> type;
  for (const Operand& operand : operands) {
    if (operand.present() && !operand.is_value()) continue;
    if (!trace->usable(operand.value(), loc)) return {};
    const Type& own = trace->type(operand.value());
    if (own.pointer) {
      trace->report(loc, what + ": takes no pointers (" + type_text(own) + ")");
      return {};
    }
    type = type ? common_type(*type, own.element, what, loc) : own.element;
    if (!type) return {};
  }
  if (!type) type = numbers_type(operands);
  std::vector<Value> values;
  for (const Operand& operand : operands) {
    Value value = operand.is_value() ? operand.value() : constant(operand, *type, loc);
    if (value.valid() && trace->type(value).element != *type) value = emit(OpCode::kCast, {value}, {*type}, loc);
    if (!value.valid()) return {};
    values.push_back(value);
  }
  return values;
}

Value broadcast_value(const Value& value, const std::vector<Expr>& shape, const std::string& what,
                      const std::source_location& loc) {
  Trace* trace = Trace::current();
  if (!trace || !trace->usable(value, loc)) return {};
  const Type from = trace->type(value);
  if (from.shape == shape) return value;
  if (from.is_scalar()) return emit(OpCode::kSplat, {value}, {shape}, loc);
  const size_t missing = shape.size() - std::min(shape.size(), from.shape.size());
  bool fits = from.shape.size() <= shape.size();
  for (size_t i = 0; fits && i < from.shape.size(); ++i) {
    fits = from.shape[i] == shape[missing + i] || from.shape[i].as_constant() == 1;
  }
  if (!fits) {
    report(loc, what + ": " + type_text(from) + " does not broadcast to the shape of " +
                    type_text(Type{from.element, from.pointer, shape}));
    return {};
  }
  Value out = value;
  for (size_t i = 0; i < missing; ++i) out = emit(OpCode::kExpandDims, {out}, {int64_t{0}}, loc);
  if (!out.valid() || trace->type(out).shape == shape) return out;
  return emit(OpCode::kBroadcast, {out}, {shape}, loc);
}

std::vector<Value> broadcast_all(std::vector<Value> values, const std::string& what, const std::source_location& loc) {
  Trace* trace = Trace::current();
  if (!trace || values.empty()) return {};
  std::vector<Expr> shape;
  for (const Value& value : values) {
    if (!trace->usable(value, loc)) return {};
    const std::vector<Expr>& own = trace->type(value).shape;
    if (own.size() > shape.size()) shape.insert(shape.begin(), own.size() - shape.size(), Expr(1));
    for (size_t i = 0; i < own.size(); ++i) {
      Expr& extent = shape[shape.size() - own.size() + i];
      if (extent.as_constant() == 1) extent = own[i];
      if (extent == own[i] || own[i].as_constant() == 1) continue;
      std::string types;
      for (const Value& v : values) types += (types.empty() ? "" : " and ") + type_text(trace->type(v));
      report(loc, what + ": the shapes of " + types + " do not broadcast: " + expr_text(extent) + " against " +
                      expr_text(own[i]));
      return {};
    }
  }
  for (Value& value : values) {
    value = broadcast_value(value, shape, what, loc);
    if (!value.valid()) return {};
  }
  return values;
}

std::vector<Expr> exprs(const Shape& shape) {
  std::vector<Expr> out;
  for (const Const& extent : shape) out.push_back(extent.expr());
  return out;
}

std::optional<int64_t> resolve_axis(int axis, int count, const std::string& what, const std::source_location& loc) {
  const int index = axis < 0 ? axis + count : axis;
  if (index >= 0 && index < count) return index;
  report(loc, what + ": there is no axis " + std::to_string(axis) + " among " + std::to_string(count));
  return std::nullopt;
}

}  // namespace kiln::dsl::lang
