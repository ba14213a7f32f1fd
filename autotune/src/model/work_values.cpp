#include "model/work_values.h"

#include <algorithm>

namespace kiln::autotune {
namespace {

using dsl::OpCode;
using Operands = std::span<const KnownValue* const>;

std::vector<Interval> whole(const dsl::Type& type) {
  std::vector<Interval> out;
  for (int64_t extent : dsl::concrete_shape(type)) out.push_back({0, extent});
  return out;
}

int64_t int_attr(const dsl::Attr& attr) {
  if (const auto* value = std::get_if<int64_t>(&attr)) return *value;
  if (const auto* expr = std::get_if<dsl::Expr>(&attr)) return expr->as_constant().value_or(0);
  return 0;
}

KnownValue constant(const dsl::Op& op) {
  const auto& info = dsl::info(std::get<dsl::ElementType>(op.attrs[1]));
  const auto* literal = std::get_if<dsl::Literal>(&op.attrs[0]);
  if (info.is_float || !literal) return {.strides = std::vector<int64_t>{}};
  const int shift = 64 - info.bits;
  return known_scalar(info.is_signed ? static_cast<int64_t>(literal->bits << shift) >> shift
                                     : static_cast<int64_t>(literal->bits));
}

// Wraps, as ints do; what wraps is no address of a sound kernel.
int64_t wrapping(OpCode code, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return static_cast<int64_t>(code == OpCode::kAdd ? x + y : code == OpCode::kSub ? x - y : x * y);
}

KnownValue linear(OpCode code, const KnownValue& a, const KnownValue& b) {
  KnownValue out;
  if (a.base && b.base) out.base = wrapping(code, *a.base, *b.base);
  if (!a.strides || !b.strides || a.strides->size() != b.strides->size()) return out;
  out.strides.emplace(a.strides->size());
  for (size_t i = 0; i < out.strides->size(); ++i) (*out.strides)[i] = wrapping(code, (*a.strides)[i], (*b.strides)[i]);
  return out;
}

KnownValue product(const KnownValue& a, const KnownValue& b) {
  const KnownValue& factor = b.uniform() ? b : a;
  const KnownValue& other = b.uniform() ? a : b;
  KnownValue out;
  if (const auto number = factor.uniform()) {
    if (other.base) out.base = wrapping(OpCode::kMul, *other.base, *number);
    if (!other.strides) return out;
    out.strides = other.strides;
    for (int64_t& stride : *out.strides) stride = wrapping(OpCode::kMul, stride, *number);
  } else if (a.strides && b.strides && a.strides->size() == b.strides->size()) {
    auto is_zero = [](int64_t stride) { return stride == 0; };
    if (std::all_of(a.strides->begin(), a.strides->end(), is_zero) &&
        std::all_of(b.strides->begin(), b.strides->end(), is_zero)) {
      out.strides = a.strides;
    }
  }
  return out;
}

std::optional<int64_t> scalar_result(const dsl::Op& op, int64_t a, int64_t b) {
  switch (op.code) {
    case OpCode::kDiv:
      return b == 0 ? 0 : b == -1 ? wrapping(OpCode::kSub, 0, a) : a / b;
    case OpCode::kRem:
      return b == 0 ? a : b == -1 ? 0 : a % b;
    case OpCode::kMin:
      return std::min(a, b);
    case OpCode::kMax:
      return std::max(a, b);
    case OpCode::kAnd:
      return a & b;
    case OpCode::kOr:
      return a | b;
    case OpCode::kXor:
      return a ^ b;
    case OpCode::kShl:
      return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
    case OpCode::kShr:
      return b < 0 || b > 63 ? (a < 0 ? -1 : 0) : a >> b;
    default:
      return {};
  }
}

bool compare(dsl::Predicate pred, int64_t a, int64_t b) {
  switch (pred) {
    case dsl::Predicate::kEq:
      return a == b;
    case dsl::Predicate::kNe:
      return a != b;
    case dsl::Predicate::kLt:
      return a < b;
    case dsl::Predicate::kLe:
      return a <= b;
    case dsl::Predicate::kGt:
      return a > b;
    default:
      return a >= b;
  }
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// Where base + stride·i compares so with 0, for an axis of `extent` places; of a stride of 1 or more.
std::optional<Interval> satisfying(dsl::Predicate pred, int64_t base, int64_t stride, int64_t extent) {
  Interval out{0, extent};
  const int64_t below = floor_div(-base - 1, stride) + 1;  // the first place that is >= 0
  const int64_t above = floor_div(-base, stride) + 1;      // the first place that is > 0
  if (pred == dsl::Predicate::kLt)
    out.high = below;
  else if (pred == dsl::Predicate::kLe)
    out.high = above;
  else if (pred == dsl::Predicate::kGe)
    out.low = below;
  else if (pred == dsl::Predicate::kGt)
    out.low = above;
  else
    return {};
  out.low = std::clamp<int64_t>(out.low, 0, extent);
  out.high = std::clamp<int64_t>(out.high, 0, extent);
  return out;
}

dsl::Predicate mirrored(dsl::Predicate pred) {
  switch (pred) {
    case dsl::Predicate::kLt:
      return dsl::Predicate::kGt;
    case dsl::Predicate::kLe:
      return dsl::Predicate::kGe;
    case dsl::Predicate::kGt:
      return dsl::Predicate::kLt;
    case dsl::Predicate::kGe:
      return dsl::Predicate::kLe;
    default:
      return pred;
  }
}

KnownValue comparison(const dsl::Op& op, const dsl::Type& type, const KnownValue& a, const KnownValue& b) {
  const auto pred = static_cast<dsl::Predicate>(int_attr(op.attrs[0]));
  const KnownValue difference = linear(OpCode::kSub, a, b);
  KnownValue out;
  if (!difference.affine()) return out;
  std::optional<size_t> axis;
  for (size_t i = 0; i < difference.strides->size(); ++i) {
    if ((*difference.strides)[i] == 0) continue;
    if (axis) return out;
    axis = i;
  }
  if (!axis) {
    const bool holds = compare(pred, *difference.base, 0);
    out.base = holds;
    out.strides = difference.strides;
    out.box = whole(type);
    for (Interval& places : *out.box) places.high = holds ? places.high : 0;
    return out;
  }
  const int64_t stride = (*difference.strides)[*axis], sign = stride < 0 ? -1 : 1;
  std::vector<Interval> box = whole(type);
  auto places = satisfying(sign < 0 ? mirrored(pred) : pred, sign * *difference.base, sign * stride, box[*axis].high);
  if (!places) return out;
  box[*axis] = *places;
  out.box = std::move(box);
  return out;
}

KnownValue conjunction(const KnownValue& a, const KnownValue& b) {
  KnownValue out;
  if (!a.box || !b.box || a.box->size() != b.box->size()) return out;
  out.box = a.box;
  for (size_t i = 0; i < out.box->size(); ++i) {
    (*out.box)[i].low = std::max((*a.box)[i].low, (*b.box)[i].low);
    (*out.box)[i].high = std::min((*a.box)[i].high, (*b.box)[i].high);
  }
  return out;
}

KnownValue splat(const dsl::Type& type, const KnownValue& x) {
  KnownValue out = x;
  out.strides.emplace(type.rank(), 0);
  out.box.reset();
  if (x.base && type.element == dsl::ElementType::kI1) {
    out.box = whole(type);
    for (Interval& places : *out.box) places.high = *x.base != 0 ? places.high : 0;
  }
  return out;
}

KnownValue broadcast(const dsl::Type& from, const dsl::Type& to, const KnownValue& x) {
  KnownValue out = x;
  const std::vector<int64_t> before = dsl::concrete_shape(from), after = dsl::concrete_shape(to);
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    if (out.strides) (*out.strides)[i] = 0;
    if (out.box) (*out.box)[i] = {0, (*out.box)[i].size() > 0 ? after[i] : 0};
  }
  return out;
}

KnownValue permute(const dsl::Op& op, const KnownValue& x) {
  KnownValue out = x;
  const auto& order = std::get<std::vector<dsl::Expr>>(op.attrs[0]);
  for (size_t i = 0; i < order.size(); ++i) {
    const auto from = static_cast<size_t>(order[i].as_constant().value_or(0));
    if (x.strides) (*out.strides)[i] = (*x.strides)[from];
    if (x.box) (*out.box)[i] = (*x.box)[from];
  }
  return out;
}

KnownValue expand(const dsl::Op& op, const KnownValue& x) {
  KnownValue out = x;
  const auto axis = int_attr(op.attrs[0]);
  if (out.strides) out.strides->insert(out.strides->begin() + axis, 0);
  if (out.box) out.box->insert(out.box->begin() + axis, {0, 1});
  return out;
}

KnownValue slice(const dsl::Op& op, const KnownValue& x) {
  KnownValue out{.base = {}, .strides = x.strides, .param = x.param};
  const auto axis = static_cast<size_t>(int_attr(op.attrs[0]));
  if (x.affine()) out.base = *x.base + int_attr(op.attrs[1]) * (*x.strides)[axis];
  return out;
}

KnownValue reshape(const dsl::Type& type, const KnownValue& x) {
  KnownValue out{.param = x.param};
  if (x.uniform()) {
    out.base = x.base;
    out.strides.emplace(type.rank(), 0);
  }
  return out;
}

KnownValue elementwise(const dsl::Op& op, const dsl::Type& type, Operands operands) {
  const KnownValue& a = *operands[0];
  const KnownValue& b = operands.size() > 1 ? *operands[1] : a;
  switch (op.code) {
    case OpCode::kAdd:
    case OpCode::kSub:
      return linear(op.code, a, b);
    case OpCode::kAddptr: {
      KnownValue out = linear(OpCode::kAdd, a, b);
      out.param = a.param;
      return out;
    }
    case OpCode::kMul:
      return product(a, b);
    case OpCode::kNeg:
      return product(
          a, KnownValue{.base = -1,
                        .strides = a.strides ? std::optional(std::vector<int64_t>(a.strides->size())) : std::nullopt});
    case OpCode::kCast:
      return dsl::is_int(type.element) ? KnownValue{.base = a.base, .strides = a.strides} : KnownValue();
    case OpCode::kCmp:
      return comparison(op, type, a, b);
    case OpCode::kSelect:
      if (auto condition = a.uniform()) return *operands[*condition != 0 ? 1 : 2];
      return {};
    default:
      break;
  }
  KnownValue out = op.code == OpCode::kAnd ? conjunction(a, b) : KnownValue();
  if (const auto x = a.uniform(), y = b.uniform(); x && y && operands.size() == 2 && dsl::is_int(type.element)) {
    out.base = scalar_result(op, *x, *y);
    if (out.base) out.strides = a.strides;
  }
  return out;
}

using Steps = std::vector<std::optional<int64_t>>;

// What a place further along the axis adds to the result of an op by elements.
std::optional<int64_t> elementwise_step(OpCode code, Operands operands, size_t axis) {
  bool is_constant = true;
  for (const KnownValue* operand : operands) is_constant &= operand->step(axis) == 0;
  if (is_constant) return 0;
  const auto a = operands[0]->step(axis);
  if (code == OpCode::kCast) return a;
  if (operands.size() != 2 || !a) return {};
  const auto b = operands[1]->step(axis);
  const bool is_sum = code == OpCode::kAdd || code == OpCode::kSub || code == OpCode::kAddptr;
  if (is_sum && b) return wrapping(code == OpCode::kSub ? code : OpCode::kAdd, *a, *b);
  if (code != OpCode::kMul) return {};
  if (const auto factor = operands[1]->uniform()) return wrapping(code, *a, *factor);
  if (const auto factor = operands[0]->uniform(); factor && b) return wrapping(code, *b, *factor);
  return {};
}

// Of results whose strides are not all known.
Steps steps_of(const dsl::Kernel& kernel, const dsl::Op& op, const dsl::Type& type, Operands operands) {
  Steps out;
  if (type.rank() == 0 || operands.empty()) return out;
  const KnownValue& x = *operands[0];
  const auto extents = dsl::concrete_shape(type);
  const auto rank = extents.size();
  for (size_t axis = 0; axis < rank; ++axis) {
    if (op.code == OpCode::kExpandDims) {
      const auto inserted = static_cast<size_t>(int_attr(op.attrs[0]));
      out.push_back(axis == inserted ? std::optional<int64_t>(0) : x.step(axis - (axis > inserted ? 1 : 0)));
    } else if (op.code == OpCode::kBroadcast) {
      const bool is_repeated = dsl::concrete_shape(kernel.type(op.operands[0]))[axis] != extents[axis];
      out.push_back(is_repeated ? std::optional<int64_t>(0) : x.step(axis));
    } else if (dsl::info(op.code).has(dsl::kElementwise)) {
      out.push_back(elementwise_step(op.code, operands, axis));
    } else {
      return {};
    }
  }
  return out;
}

}  // namespace

std::optional<int64_t> KnownValue::step(size_t axis) const {
  if (strides) return axis < strides->size() ? std::optional((*strides)[axis]) : std::nullopt;
  return axis < steps.size() ? steps[axis] : std::nullopt;
}

std::optional<int64_t> KnownValue::uniform() const {
  if (!affine()) return {};
  return std::all_of(strides->begin(), strides->end(), [](int64_t stride) { return stride == 0; }) ? base
                                                                                                   : std::nullopt;
}

KnownValue known_scalar(int64_t value) { return {.base = value, .strides = std::vector<int64_t>{}}; }

KnownValue evaluate(const dsl::Kernel& kernel, const dsl::Op& op, Operands operands) {
  if (op.results.empty()) return {};
  const dsl::Type& type = kernel.type(op.results[0]);
  KnownValue out;
  switch (op.code) {
    case OpCode::kConstant:
      return constant(op);
    case OpCode::kArange:
      return {.base = int_attr(op.attrs[0]), .strides = std::vector<int64_t>{1}};
    case OpCode::kSplat:
      out = splat(type, *operands[0]);
      break;
    case OpCode::kBroadcast:
      out = broadcast(kernel.type(op.operands[0]), type, *operands[0]);
      break;
    case OpCode::kExpandDims:
      out = expand(op, *operands[0]);
      break;
    case OpCode::kPermute:
      out = permute(op, *operands[0]);
      break;
    case OpCode::kSlice:
      out = slice(op, *operands[0]);
      break;
    case OpCode::kReshape:
      out = reshape(type, *operands[0]);
      break;
    case OpCode::kDescriptor:
      out.param = operands[0]->param;
      for (size_t i = 1; i < operands.size(); ++i) out.dims.push_back(*operands[i]);
      break;
    default:
      if (dsl::info(op.code).has(dsl::kElementwise)) out = elementwise(op, type, operands);
  }
  if (!out.strides) out.steps = steps_of(kernel, op, type, operands);
  for (const KnownValue* operand : operands) {
    out.data |= operand->data;
    out.estimated |= operand->estimated;
  }
  return out;
}

}  // namespace kiln::autotune
