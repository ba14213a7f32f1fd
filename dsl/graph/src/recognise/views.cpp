// Views around composites that they need not have, and ops that change nothing, which exporters leave everywhere.
#include <algorithm>

#include "recognise/matching.h"

namespace kiln::graph::recognition {
namespace {

using enum TensorOp;

// A statistic whose axes are kept and then left out: without them.
ValueId unkept(Matching& m, ValueId value, std::span<const Expr> shape) {
  const Node* node = m.node(value);
  if (!node || (node->op != kMean && node->op != kVariance && node->op != kLogsumexp)) return kNoValue;
  const size_t keep = attr_index(node->op, "keep");
  if (!flag_attr(m.attrs(value), keep)) return kNoValue;
  const std::vector<int64_t>& axes = ints_attr(m.attrs(value), 0);
  std::vector<Expr> left;
  for (size_t i = 0; i < m.shape(value).size(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (!reduced) left.push_back(m.shape(value)[i]);
  }
  if (!m.same_extents(left, shape)) return kNoValue;
  AttrList attrs = m.attrs(value);
  attrs[keep] = int64_t{0};
  return m.emit(node->op, {m.operand(value, 0)}, std::move(attrs));
}

bool is_i1(const Matching& m, ValueId value) { return m.type(value).element == ElementType::kI1; }

// x of ~x, of x = false, of x ≠ true.
ValueId negated(const Matching& m, ValueId value) {
  if (m.is(value, kNot)) return m.operand(value, 0);
  if (!m.is(value, kCmp) || !is_i1(m, m.operand(value, 0))) return kNoValue;
  const auto pred = enum_attr<Predicate>(m.attrs(value), 0);
  const auto with = m.number(m.operand(value, 1));
  const bool turns = (pred == Predicate::kEq && with == 0) || (pred == Predicate::kNe && with == 1);
  return turns ? m.operand(value, 0) : kNoValue;
}

// ~any(~x) is every(x); ~~x is x; x = false is ~x.
ValueId find_negation(Matching& m, ValueId root) {
  const ValueId x = negated(m, root);
  if (x == kNoValue || !is_i1(m, x)) return kNoValue;
  if (const ValueId twice = negated(m, x); twice != kNoValue) return twice;
  if (m.is(x, kReduce) && enum_attr<ReduceKind>(m.attrs(x), 0) == ReduceKind::kOr) {
    const ValueId each = negated(m, m.operand(x, 0));
    if (each != kNoValue && is_i1(m, each)) {
      AttrList attrs = m.attrs(x);
      attrs[0] = static_cast<int64_t>(ReduceKind::kAnd);
      return m.emit(kReduce, {each}, std::move(attrs));
    }
  }
  return m.is(root, kNot) ? kNoValue : m.emit(kNot, {x});
}

}  // namespace

// What an op gives back as it took it.
ValueId find_same(Matching& m, ValueId root) {
  const ValueId x = m.operand(root, 0);
  const TensorType& type = m.type(root);
  switch (m.node(root)->op) {
    case kBroadcast:
      return m.same_extents(m.shape(x), type.shape) ? x : kNoValue;
    case kPermute: {
      const ValueId out = m.permuted(x, std::vector<int64_t>(ints_attr(m.attrs(root), 0)));
      return out == root ? kNoValue : out;
    }
    case kCast:
      return m.type(x).element == type.element ? x : kNoValue;
    case kAdd:  // of floats -0 + 0 is another zero
      return dsl::is_int(type.element) ? m.other_than_number(root, kAdd, 0) : kNoValue;
    case kMul:
      return m.other_than_number(root, kMul, 1);
    case kDiv:
      return m.is_number(m.operand(root, 1), 1) ? x : kNoValue;
    case kAnd:
      return is_i1(m, root) ? m.other_than_number(root, kAnd, 1) : kNoValue;
    case kOr:
      return is_i1(m, root) ? m.other_than_number(root, kOr, 0) : kNoValue;
    case kCmp: {
      const auto pred = enum_attr<Predicate>(m.attrs(root), 0);
      const auto with = is_i1(m, x) ? m.number(m.operand(root, 1)) : std::nullopt;
      const bool same = (pred == Predicate::kNe && with == 0) || (pred == Predicate::kEq && with == 1);
      return same ? x : find_negation(m, root);
    }
    case kNot:
      return find_negation(m, root);
    default:
      return kNoValue;
  }
}

// Reshapes that lead back to the shape before them.
ValueId find_view(Matching& m, ValueId root) {
  const std::vector<Expr> shape = m.shape(root);
  for (ValueId from = m.operand(root, 0);; from = m.operand(from, 0)) {
    if (m.same_extents(m.shape(from), shape)) return from;
    if (!m.is(from, kReshape)) return unkept(m, from, shape);
  }
}

}  // namespace kiln::graph::recognition
