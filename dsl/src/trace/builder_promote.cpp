// Promotion of element types and broadcasting of shapes: what the C++ builder adds to an IR that has neither.
//
//   number with tile     the tile's type, when the number is one of its values
//   int with float       the float
//   two ints             the wider; of equal width and different signedness: an error that names the cast to write
//   two floats           the wider; of equal width (f16 with bf16, the two f8): f32
//   three and more       a float where one is; of what counts then, the widest: in any order the same
//   shapes               aligned at the last axis; a missing axis or an extent of 1 stretches
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "trace/trace.h"

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

bool is_float_number(const Operand& operand) { return operand.kind() == Kind::kFloat; }

// The type of a number that no tile gives one. A C++ literal is a double where nobody meant 64 bits.
ElementType own_type(const Operand& number) {
  if (is_float_number(number)) return ElementType::kF32;
  if (number.kind() == Kind::kUnsigned) return ElementType::kU64;
  auto known = number.expr().as_constant();
  return !known || int_fits(ElementType::kI32, *known) ? ElementType::kI32 : ElementType::kI64;
}

// Of a set of types: a float wins over ints, then the width decides.
std::optional<ElementType> common_type(const std::vector<ElementType>& types, const std::string& what,
                                       const std::source_location& loc) {
  const bool any_float = std::any_of(types.begin(), types.end(), [](ElementType type) { return is_float(type); });
  std::vector<ElementType> widest;  // different types of one width
  for (ElementType type : types) {
    if (is_float(type) != any_float) continue;
    if (!widest.empty() && info(type).bits > info(widest[0]).bits) widest.clear();
    const bool counts = widest.empty() || info(type).bits == info(widest[0]).bits;
    if (counts && std::find(widest.begin(), widest.end(), type) == widest.end()) widest.push_back(type);
  }
  if (widest.size() == 1) return widest[0];
  if (any_float) return ElementType::kF32;
  const std::string a = name_of(widest[0]), b = name_of(widest[1]);
  report(loc, what + ": " + a + " and " + b + " have the same width and different signedness; write cast(x, " + a +
                  "_t) or cast(x, " + b + "_t)");
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

// The largest finite number of an f8 type: beyond it a conversion saturates, where a C++ number is an error.
std::optional<double> largest_f8(ElementType type) {
  if (type == ElementType::kF8E4M3) return 448;
  if (type == ElementType::kF8E5M2) return 57344;
  return std::nullopt;
}

// A C++ float as bits of the type; nothing when it is too large for it.
std::optional<Literal> float_literal(double number, ElementType type) {
  if (!is_float(type)) return std::nullopt;
  const Literal literal{bits_from_double(type, number)};
  if (auto largest = largest_f8(type)) {
    if (std::isinf(number) && type == ElementType::kF8E5M2) return Literal{number < 0 ? 0xfcu : 0x7cu};
    return std::abs(number) > *largest ? std::nullopt : std::optional(literal);
  }
  const bool overflows = std::isfinite(number) && !std::isfinite(double_from_bits(type, literal.bits));
  return overflows ? std::nullopt : std::optional(literal);
}

}  // namespace

Value constant(const Operand& number, ElementType type, const std::source_location& loc) {
  std::optional<Attr> value;  // none: it does not fit
  std::optional<Expr> launcher;
  if (is_float_number(number)) {
    if (auto literal = float_literal(number.number(), type)) value = *literal;
  } else if (number.kind() == Kind::kUnsigned) {
    if (type == ElementType::kU64) value = Literal{number.unsigned_number()};
  } else {
    launcher = number.expr();
    const auto known = launcher->as_constant();
    if (!known) {
      value = *launcher;  // whether it fits is checked when the config is known
    } else if (int_fits(type, *known)) {
      value = Literal{bits_from_int(type, *known)};
    }
  }
  if (!value) {
    report(loc, number_text(number) + " is not a value of " + name_of(type) + "; cast the tile to a type that has it");
    return {};
  }
  const Value result = emit(OpCode::kConstant, {}, {std::move(*value), type}, loc);
  if (result.valid() && is_int(type)) Trace::current()->fact(result).launcher = launcher;
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

std::vector<Value> materialise_all(const std::vector<Operand>& operands) {
  std::vector<Value> values;
  for (const Operand& operand : operands) {
    values.push_back(materialise(operand));
    if (!values.back().valid()) return {};
  }
  return values;
}

Value as_value(const Operand& operand, ElementType type) {
  return operand.is_value() || !operand.present() ? operand.value() : constant(operand, type, operand.loc());
}

bool is_pointer(const Operand& operand) { return operand.is_value() && operand.value().type().pointer; }

std::optional<ElementType> common_type(const std::vector<Operand>& operands, const std::string& what,
                                       const std::source_location& loc) {
  std::vector<ElementType> types;
  for (const Operand& operand : operands) {
    if (operand.present() && !operand.is_value()) continue;
    const Type own = operand.value().type();
    if (!own.is_value()) {
      report(loc, what + ": takes no " + (own.pointer ? "pointers (" : "descriptors (") + type_text(own) + ")");
      return std::nullopt;
    }
    types.push_back(own.element);
  }
  return types.empty() ? numbers_type(operands) : common_type(types, what, loc);
}

std::vector<Value> promote(const std::vector<Operand>& operands, const std::string& what) {
  Trace* trace = Trace::current();
  if (!trace) return {};
  const std::source_location loc = operands[0].loc();
  for (const Operand& operand : operands) {
    const bool number = operand.present() && !operand.is_value();
    if (!number && !trace->usable(operand.value(), loc)) return {};
  }
  auto type = common_type(operands, what, loc);
  if (!type) return {};
  std::vector<Value> values;
  for (const Operand& operand : operands) {
    Value value = operand.is_value() ? operand.value() : constant(operand, *type, loc);
    if (value.valid() && trace->type(value).element != *type) value = emit(OpCode::kCast, {value}, {*type}, loc);
    if (!value.valid()) return {};
    values.push_back(value);
  }
  return values;
}

std::vector<Value> promote_or_pointers(const std::vector<Operand>& operands, const std::string& what) {
  const bool pointers = std::all_of(operands.begin(), operands.end(), [](const Operand& o) { return is_pointer(o); });
  return pointers ? materialise_all(operands) : promote(operands, what);
}

Value broadcast_value(const Value& value, const std::vector<Expr>& shape, const std::string& what,
                      const std::source_location& loc) {
  Trace* trace = Trace::current();
  if (!trace || !trace->usable(value, loc)) return {};
  const Type from = trace->type(value);
  const auto is_one = [](const Expr& extent) { return extent.as_constant() == 1; };
  const size_t missing = shape.size() - std::min(shape.size(), from.shape.size());
  bool fits = from.shape.size() <= shape.size(), same = from.shape.size() == shape.size();
  for (size_t i = 0; fits && i < from.shape.size(); ++i) {
    const Expr& wanted = shape[missing + i];
    fits = may_equal(from.shape[i], wanted) || is_one(from.shape[i]);
    same = same && may_equal(from.shape[i], wanted) && is_one(from.shape[i]) == is_one(wanted);
  }
  if (same) return value;
  if (!fits) {
    report(loc, what + ": " + type_text(from) + " does not broadcast to the shape of " +
                    type_text(Type{from.element, from.pointer, shape}));
    return {};
  }
  if (from.is_scalar()) return emit(OpCode::kSplat, {value}, {shape}, loc);
  Value out = value;
  for (size_t i = 0; i < missing; ++i) out = emit(OpCode::kExpandDims, {out}, {int64_t{0}}, loc);
  if (!out.valid() || trace->type(out).shape == shape) return out;
  return emit(OpCode::kBroadcast, {out}, {shape}, loc);
}

std::optional<std::vector<Expr>> common_shape(const std::vector<Type>& types, const std::string& what,
                                              const std::source_location& loc) {
  std::vector<Expr> shape;
  for (const Type& type : types) {
    const std::vector<Expr>& own = type.shape;
    if (own.size() > shape.size()) shape.insert(shape.begin(), own.size() - shape.size(), Expr(1));
    for (size_t i = 0; i < own.size(); ++i) {
      Expr& extent = shape[shape.size() - own.size() + i];
      if (extent.as_constant() == 1) extent = own[i];
      if (own[i].as_constant() == 1 || may_equal(extent, own[i])) continue;
      std::string text;
      for (const Type& each : types) text += (text.empty() ? "" : " and ") + type_text(each);
      report(loc, what + ": the shapes of " + text + " do not broadcast: " + expr_text(extent) + " against " +
                      expr_text(own[i]));
      return std::nullopt;
    }
  }
  return shape;
}

std::vector<Value> broadcast_all(std::vector<Value> values, const std::string& what, const std::source_location& loc) {
  Trace* trace = Trace::current();
  if (!trace || values.empty()) return {};
  std::vector<Type> types;
  for (const Value& value : values) {
    if (!trace->usable(value, loc)) return {};
    types.push_back(trace->type(value));
  }
  auto shape = common_shape(types, what, loc);
  if (!shape) return {};
  for (Value& value : values) {
    value = broadcast_value(value, *shape, what, loc);
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
