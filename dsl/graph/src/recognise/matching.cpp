#include "recognise/matching.h"

#include <algorithm>
#include <cmath>

#include "kiln/graph/extents.h"

namespace kiln::graph::recognition {
namespace {

using enum TensorOp;

constexpr int kMostDepth = 6;  // of products that are taken apart

bool is_one(const Expr& extent) { return extent.as_constant() == 1; }

// Of a reshape that only inserts or leaves out axes of extent 1: by axis of the result, that of the operand or -1.
std::optional<std::vector<int>> kept_axes(const Matching& m, std::span<const Expr> from, std::span<const Expr> to) {
  std::vector<int> out(to.size(), -1);
  size_t next = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    if (is_one(to[i])) continue;
    while (next < from.size() && is_one(from[next])) ++next;
    if (next == from.size() || !m.same_extent(from[next], to[i])) return std::nullopt;
    out[i] = static_cast<int>(next++);
  }
  while (next < from.size() && is_one(from[next])) ++next;
  return next == from.size() ? std::optional(std::move(out)) : std::nullopt;
}

// By axis of a broadcast's result, that of its operand or -1.
std::vector<int> repeated_axes(std::span<const Expr> from, std::span<const Expr> to) {
  std::vector<int> out(to.size(), -1);
  const size_t missing = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (!is_one(from[i]) || is_one(to[missing + i])) out[missing + i] = static_cast<int>(i);
  }
  return out;
}

std::vector<int> composed(const std::vector<int>& outer, const std::vector<int>& inner) {
  std::vector<int> out;
  for (const int axis : outer) out.push_back(axis < 0 ? -1 : inner[static_cast<size_t>(axis)]);
  return out;
}

// A view that peel() goes through: the axes of its operand by those of its result.
std::optional<std::vector<int>> axes_of_view(const Matching& m, ValueId value) {
  const Node& node = *m.node(value);
  const ValueId from = m.operand(value, 0);
  switch (node.op) {
    case kStopGradient: {
      std::vector<int> same;
      for (int i = 0; i < m.rank(value); ++i) same.push_back(i);
      return same;
    }
    case kBroadcast:
      return repeated_axes(m.shape(from), m.shape(value));
    case kReshape:
      return kept_axes(m, m.shape(from), m.shape(value));
    case kPermute: {
      const auto& order = ints_attr(m.attrs(value), 0);
      return std::vector<int>(order.begin(), order.end());
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

// --- nodes ---

const Node* Matching::node(ValueId value) const {
  const Body& body = builder_.body();
  if (value == kNoValue || body.values[value].node == kNone) return nullptr;
  const Node& node = body.nodes[body.values[value].node];
  return node.result_count == 1 ? &node : nullptr;
}

ValueId Matching::operand(ValueId value, size_t i) const {
  const auto operands = builder_.body().operands_of(*node(value));
  return i < operands.size() ? operands[i] : kNoValue;
}

bool Matching::same_extents(std::span<const Expr> a, std::span<const Expr> b) const {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Expr& x, const Expr& y) { return x == y || equal(dims(), x, y) == Known::kYes; });
}

// --- views ---

Seen Matching::peel(ValueId value) const {
  Seen out{value, {}};
  for (int i = 0; i < rank(value); ++i) out.axes.push_back(i);
  while (node(out.value)) {
    const auto axes = axes_of_view(*this, out.value);
    if (!axes) break;
    out = {operand(out.value, 0), composed(out.axes, *axes)};
  }
  return out;
}

Seen Matching::peel(const Seen& seen, size_t i) const {
  Seen inner = peel(operand(seen.value, i));
  return {inner.value, composed(seen.axes, inner.axes)};
}

std::optional<Matching::Rows> Matching::rows(const Seen& seen, TensorOp op, std::optional<ReduceKind> kind) const {
  if (!is(seen.value, op)) return std::nullopt;
  const AttrList& list = attrs(seen.value);
  if (kind && enum_attr<ReduceKind>(list, 0) != *kind) return std::nullopt;
  const bool keep = flag_attr(list, attr_index(op, "keep"));
  Rows out{operand(seen.value, 0), ints_attr(list, attr_index(op, "axes"))};
  const std::vector<Expr>& frame = shape(out.of);
  if (frame.size() != seen.axes.size()) return std::nullopt;
  std::sort(out.axes.begin(), out.axes.end());
  int next = 0;
  for (size_t i = 0; i < frame.size(); ++i) {
    const bool reduced = std::binary_search(out.axes.begin(), out.axes.end(), static_cast<int64_t>(i));
    const int own = reduced && !keep ? -1 : next++;
    const int axis = seen.axes[i];
    const bool same = axis < 0 || is_one(shape(seen.value)[static_cast<size_t>(axis)]);
    if (is_one(frame[i]) || (reduced ? same : axis == own)) continue;
    return std::nullopt;
  }
  return out;
}

bool Matching::lies_last(const Seen& seen, std::span<const Expr> frame, size_t count) const {
  const std::vector<Expr>& own = shape(seen.value);
  if (seen.axes.size() != frame.size() || own.size() != count || !same_extents(own, frame.last(count))) return false;
  for (size_t i = 0; i < frame.size(); ++i) {
    const size_t front = frame.size() - count;
    const int wanted = i < front ? -1 : static_cast<int>(i - front);
    if (seen.axes[i] != wanted && !is_one(frame[i])) return false;
  }
  return true;
}

bool Matching::lies_on_channels(const Seen& seen, std::span<const Expr> frame) const {
  const std::vector<Expr>& own = shape(seen.value);
  if (seen.axes.size() != frame.size() || frame.size() < 2 || own.size() != 1 || !same_extent(own[0], frame[1])) {
    return false;
  }
  for (size_t i = 0; i < frame.size(); ++i) {
    if (seen.axes[i] != (i == 1 ? 0 : -1) && !is_one(frame[i])) return false;
  }
  return true;
}

// --- numbers ---

std::optional<double> Matching::number(ValueId value) const {
  const ValueId below = plain(value);
  const Node* found = node(below);
  if (!found) return std::nullopt;
  const AttrList& list = builder_.graph().attrs(*found);
  const ElementType element = type(below).element;
  switch (found->op) {
    case kFull:
      return dsl::double_from_bits(element, std::get<Literal>(list[2]).bits);
    case kConstant: {
      const auto& data = std::get<std::vector<uint64_t>>(list[2]);
      if (data.empty() || std::any_of(data.begin(), data.end(), [&](uint64_t bits) { return bits != data[0]; })) {
        return std::nullopt;
      }
      return dsl::double_from_bits(element, data[0]);
    }
    case kExtent:
      if (const auto known = expr_attr(list, 1).as_constant()) return static_cast<double>(*known);
      return std::nullopt;
    case kCast:
    case kNeg: {
      const auto inner = number(operand(below, 0));
      if (!inner) return std::nullopt;
      if (found->op == kNeg) return -*inner;
      return dsl::double_from_bits(element, dsl::bits_from_double(element, *inner));
    }
    default:
      return std::nullopt;
  }
}

std::optional<Expr> Matching::expression(ValueId value) const {
  const ValueId below = plain(value);
  if (is(below, kExtent)) return expr_attr(attrs(below), 1);
  if (is(below, kCast)) return expression(operand(below, 0));
  if (is(below, kAdd) || is(below, kSub)) {
    const auto a = expression(operand(below, 0)), b = expression(operand(below, 1));
    if (!a || !b) return std::nullopt;
    return is(below, kAdd) ? *a + *b : *a - *b;
  }
  const auto known = number(below);
  if (!known || *known != std::trunc(*known) || std::fabs(*known) > 0x1p52) return std::nullopt;
  return Expr(static_cast<int64_t>(*known));
}

bool Matching::near(double got, double wanted, ElementType type) const {
  const double ulp = type == ElementType::kF64   ? 0x1p-52
                     : type == ElementType::kF32 ? 0x1p-23
                     : type == ElementType::kF16 ? 0x1p-10
                                                 : 0x1p-7;
  return std::fabs(got - wanted) <= 2 * ulp * std::fabs(wanted);
}

bool Matching::near(ValueId value, double wanted) const {
  const auto got = number(value);
  return got && near(*got, wanted, type(value).element);
}

// --- expressions ---

ValueId Matching::other_than_number(ValueId value, TensorOp op, double wanted) const {
  if (!is(value, op)) return kNoValue;
  if (is_number(operand(value, 0), wanted)) return operand(value, 1);
  return is_number(operand(value, 1), wanted) ? operand(value, 0) : kNoValue;
}

ValueId Matching::other_than(ValueId value, TensorOp op, ValueId one) const {
  if (!is(value, op)) return kNoValue;
  if (operand(value, 0) == one) return operand(value, 1);
  return operand(value, 1) == one ? operand(value, 0) : kNoValue;
}

void Matching::collect(ValueId value, std::span<const ValueId> atoms, int depth, Product& out) const {
  const bool atom = depth == 0 || std::find(atoms.begin(), atoms.end(), value) != atoms.end();
  if (const auto known = atom ? std::nullopt : number(value)) {
    out.coefficient *= *known;
    return;
  }
  if (!atom && is(value, kMul)) {
    collect(operand(value, 0), atoms, depth - 1, out);
    collect(operand(value, 1), atoms, depth - 1, out);
    return;
  }
  if (!atom && is(value, kNeg)) {
    out.coefficient = -out.coefficient;
    return collect(operand(value, 0), atoms, depth - 1, out);
  }
  if (const auto divisor = !atom && is(value, kDiv) ? number(operand(value, 1)) : std::nullopt) {
    out.coefficient /= *divisor;
    return collect(operand(value, 0), atoms, depth - 1, out);
  }
  const auto power = !atom && is(value, kPow) ? number(operand(value, 1)) : std::nullopt;
  if (power == 2 || power == 3) {
    for (int i = 0; i < static_cast<int>(*power); ++i) collect(operand(value, 0), atoms, depth - 1, out);
    return;
  }
  out.factors.push_back(value);
}

Product Matching::product(ValueId value, std::span<const ValueId> atoms) const {
  Product out;
  collect(value, atoms, kMostDepth, out);
  std::sort(out.factors.begin(), out.factors.end());
  return out;
}

ValueId Matching::square_of(ValueId value) const {
  if (is(value, kMul) && operand(value, 0) == operand(value, 1)) return operand(value, 0);
  return is(value, kPow) && is_number(operand(value, 1), 2) ? operand(value, 0) : kNoValue;
}

ValueId Matching::reciprocal_of(ValueId value) const {
  if (is(value, kDiv) && is_number(operand(value, 0), 1)) return operand(value, 1);
  return is(value, kPow) && is_number(operand(value, 1), -1) ? operand(value, 0) : kNoValue;
}

// --- new nodes ---

ValueId Matching::emit(TensorOp op, std::span<const ValueId> operands, AttrList attrs) {
  auto value = builder_.add_one(op, operands, std::move(attrs), loc_);
  return value ? *value : kNoValue;
}

ValueId Matching::emit(TensorOp op, std::initializer_list<ValueId> operands, AttrList attrs) {
  return emit(op, std::span(operands.begin(), operands.size()), std::move(attrs));
}

ValueId Matching::reshaped(ValueId value, const std::vector<Expr>& shape) {
  if (value == kNoValue) return kNoValue;
  ValueId from = value;
  while (is(from, kReshape)) {
    if (same_extents(this->shape(from), shape)) return from;
    from = operand(from, 0);
  }
  if (same_extents(this->shape(from), shape)) return from;
  return emit(kReshape, {from}, {shape});
}

ValueId Matching::permuted(ValueId value, const std::vector<int64_t>& order) {
  if (value == kNoValue) return kNoValue;
  std::vector<int64_t> whole = order;
  if (is(value, kPermute)) {
    const std::vector<int64_t> inner = ints_attr(attrs(value), 0);
    for (int64_t& axis : whole) axis = inner[static_cast<size_t>(axis)];
    value = operand(value, 0);
  }
  bool same = true;
  for (size_t i = 0; i < whole.size(); ++i) same = same && whole[i] == static_cast<int64_t>(i);
  return same ? value : emit(kPermute, {value}, {whole});
}

}  // namespace kiln::graph::recognition
