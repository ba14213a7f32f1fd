#include "passes/identities.h"

#include "kiln/dsl/wide.h"

namespace kiln::codegen {

using dsl::ElementType;
using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

namespace {

int mantissa_bits(ElementType element) {
  switch (element) {
    case ElementType::kF64:
      return 53;
    case ElementType::kF32:
      return 24;
    case ElementType::kF16:
      return 11;
    case ElementType::kBF16:
      return 8;
    default:
      return 0;  // of f8 no use is made
  }
}

// Every value of `from` is a value of `to`, and `cast` gives it.
bool holds_all(ElementType from, ElementType to) {
  if (dsl::is_int(from)) {
    if (dsl::is_int(to)) return to != ElementType::kI1 && lowest(to) <= lowest(from) && highest(to) >= highest(from);
    // f16 reaches 65504 only, less than its mantissa allows for.
    return dsl::info(from).bits <= mantissa_bits(to);
  }
  if (dsl::is_int(to)) return false;
  if (to == ElementType::kF64) return true;
  return to == ElementType::kF32 && from != ElementType::kF64;
}

bool is_plain_cast(const Op& op) {
  return op.operands.size() == 1 && static_cast<dsl::Rounding>(int_attr(op, 1)) == dsl::Rounding::kNearest;
}

// Casts and arithmetic turn its infinities into the largest numbers.
bool is_f8(ElementType element) { return dsl::is_float(element) && dsl::info(element).bits == 8; }

}  // namespace

const Op* Identities::defined_by(ValueId id, OpCode code) const {
  const auto found = definition_.find(id);
  return found != definition_.end() && found->second.code == code ? &found->second : nullptr;
}

std::optional<uint64_t> Identities::literal(ValueId id) const {
  if (const Op* splat = defined_by(id, OpCode::kSplat)) id = splat->operands[0];
  const Op* constant = defined_by(id, OpCode::kConstant);
  return constant ? std::optional(std::get<dsl::Literal>(constant->attrs[0]).bits) : std::nullopt;
}

bool Identities::is_number(ValueId id, int64_t number) const {
  const auto bits = literal(id);
  return bits && *bits == dsl::bits_from_int(kernel_.type(id).element, number);
}

bool Identities::is_all_ones(ValueId id) const {
  const auto bits = literal(id);
  return bits && *bits == bits_from_number(kernel_.type(id).element, -1);
}

std::optional<ValueId> Identities::replacement(const Op& op) const {
  switch (op.code) {
    case OpCode::kAdd:
    case OpCode::kSub:
    case OpCode::kMul:
    case OpCode::kDiv:
    case OpCode::kAddptr:
    case OpCode::kNeg:
    case OpCode::kAbs:
      return of_arithmetic(op);
    case OpCode::kAnd:
    case OpCode::kOr:
    case OpCode::kXor:
    case OpCode::kShl:
    case OpCode::kShr:
      return of_bits(op);
    case OpCode::kMin:
    case OpCode::kMax:
    case OpCode::kSelect:
      return of_choice(op);
    case OpCode::kCast:
    case OpCode::kBitcast:
      return of_conversion(op);
    case OpCode::kScan:
      return combines_one(op) ? std::optional(op.operands[0]) : std::nullopt;
    default:
      break;
  }
  if (!dsl::info(op.code).has(dsl::kMovesElements)) return std::nullopt;
  const ValueId x = op.operands[0];
  // There and back.
  const bool is_reshape = op.code == OpCode::kReshape || op.code == OpCode::kExpandDims;
  if (const Op* inner = is_reshape ? defined_by(x, OpCode::kReshape) : nullptr) {
    if (kernel_.type(inner->operands[0]).shape == kernel_.type(op.results[0]).shape) return inner->operands[0];
  }
  if (kernel_.type(x).shape != kernel_.type(op.results[0]).shape) return std::nullopt;
  if (op.code != OpCode::kPermute) return x;
  const auto& order = std::get<std::vector<dsl::Expr>>(op.attrs[0]);
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != dsl::Expr(static_cast<int64_t>(i))) return std::nullopt;
  }
  return x;
}

bool Identities::combines_one(const Op& op) const {
  const dsl::Type& type = kernel_.type(op.operands[0]);
  const auto kind = static_cast<dsl::ReduceKind>(int_attr(op, 0));
  if (kind == dsl::ReduceKind::kCustom || kind == dsl::ReduceKind::kArgmin || kind == dsl::ReduceKind::kArgmax ||
      is_f8(type.element)) {
    return false;
  }
  return type.shape[static_cast<size_t>(int_attr(op, 1))] == dsl::Expr(1);
}

// Of floats only what leaves -0, infinities and roundings alone.
std::optional<ValueId> Identities::of_arithmetic(const Op& op) const {
  const ValueId x = op.operands[0], y = op.operands.back();
  const ElementType element = kernel_.type(x).element;
  const bool is_int = dsl::is_int(element);
  switch (op.code) {
    case OpCode::kAddptr:
      if (is_number(y, 0)) return x;
      break;
    case OpCode::kAdd:
      if (is_int && is_number(y, 0)) return x;
      if (is_int && is_number(x, 0)) return y;
      break;
    case OpCode::kSub:
      if (is_int && is_number(y, 0)) return x;
      break;
    case OpCode::kMul:
      if (is_int && is_number(x, 0)) return x;
      if (is_int && is_number(y, 0)) return y;
      if (!is_f8(element) && is_number(y, 1)) return x;
      if (!is_f8(element) && is_number(x, 1)) return y;
      break;
    case OpCode::kDiv:
      if (!is_f8(element) && is_number(y, 1)) return x;
      break;
    case OpCode::kNeg:
      if (const Op* inner = defined_by(x, OpCode::kNeg)) return inner->operands[0];
      break;
    default:  // abs
      if (defined_by(x, OpCode::kAbs)) return x;
  }
  return std::nullopt;
}

std::optional<ValueId> Identities::of_bits(const Op& op) const {
  const ValueId x = op.operands[0], y = op.operands[1];
  switch (op.code) {
    case OpCode::kAnd:
      if (x == y || is_all_ones(y) || is_number(x, 0)) return x;
      if (is_all_ones(x) || is_number(y, 0)) return y;
      break;
    case OpCode::kOr:
      if (x == y || is_number(y, 0) || is_all_ones(x)) return x;
      if (is_number(x, 0) || is_all_ones(y)) return y;
      break;
    case OpCode::kXor:
      if (is_number(y, 0)) return x;
      if (is_number(x, 0)) return y;
      break;
    default:  // shifts
      if (is_number(y, 0)) return x;
  }
  return std::nullopt;
}

std::optional<ValueId> Identities::of_choice(const Op& op) const {
  if (op.code != OpCode::kSelect) {
    return op.operands[0] == op.operands[1] ? std::optional(op.operands[0]) : std::nullopt;
  }
  const ValueId condition = op.operands[0], x = op.operands[1], y = op.operands[2];
  if (x == y) return x;
  if (auto bits = literal(condition)) return *bits ? x : y;
  const bool is_truth = kernel_.type(x).element == ElementType::kI1 && kernel_.type(x).is_value();
  if (is_truth && is_number(x, 1) && is_number(y, 0)) return condition;
  return std::nullopt;
}

std::optional<ValueId> Identities::of_conversion(const Op& op) const {
  const ValueId x = op.operands[0];
  const ElementType from = kernel_.type(x).element, to = kernel_.type(op.results[0]).element;
  if (op.code == OpCode::kCast && !is_plain_cast(op)) return std::nullopt;
  if (from == to) return x;
  // There and back.
  const Op* inner = defined_by(x, op.code);
  if (!inner || kernel_.type(inner->operands[0]).element != to) return std::nullopt;
  if (op.code == OpCode::kCast && (!is_plain_cast(*inner) || !holds_all(to, from) || is_f8(to))) {
    return std::nullopt;
  }
  return inner->operands[0];
}

void Identities::shorten(Op& op) const {
  if (op.code == OpCode::kReduce && combines_one(op) && kernel_.type(op.results[0]).rank() > 0) {
    op.code = OpCode::kReshape;
    op.attrs = {kernel_.type(op.results[0]).shape};
  }
  const bool is_shape = op.code == OpCode::kBroadcast || op.code == OpCode::kReshape || op.code == OpCode::kBitcast;
  if (is_shape) {
    if (const Op* inner = defined_by(op.operands[0], op.code)) op.operands[0] = inner->operands[0];
  } else if (op.code == OpCode::kCast && is_plain_cast(op)) {
    const Op* inner = defined_by(op.operands[0], OpCode::kCast);
    if (!inner || !is_plain_cast(*inner)) return;
    const ElementType from = kernel_.type(inner->operands[0]).element;
    const ElementType middle = kernel_.type(op.operands[0]).element, to = kernel_.type(op.results[0]).element;
    // Casts of floats to ints saturate, where those between ints wrap.
    if (dsl::is_int(from) && dsl::is_float(middle) && dsl::is_int(to) && !holds_all(from, to)) return;
    if (holds_all(from, middle)) op.operands[0] = inner->operands[0];
  } else if (op.code == OpCode::kPermute) {
    const Op* inner = defined_by(op.operands[0], OpCode::kPermute);
    if (!inner) return;
    auto& outer_order = std::get<std::vector<dsl::Expr>>(op.attrs[0]);
    const auto& order = std::get<std::vector<dsl::Expr>>(inner->attrs[0]);
    for (dsl::Expr& axis : outer_order) axis = order[static_cast<size_t>(axis.as_constant().value())];
    op.operands[0] = inner->operands[0];
  }
}

}  // namespace kiln::codegen
