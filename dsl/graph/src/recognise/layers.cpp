// Linear layers, and composites that round once at their end.
#include <algorithm>
#include <array>

#include "recognise/matching.h"

namespace kiln::graph::recognition {
namespace {

using enum TensorOp;

// The operand of a widening cast from a type; kNoValue for others.
ValueId widened_from(const Matching& m, ValueId value, ElementType type) {
  if (!m.is(value, kCast)) return kNoValue;
  const ValueId from = m.operand(value, 0);
  return m.type(from).element == type ? from : kNoValue;
}

// Composites that compute small floats in f32 and round at the end, and how many operands in front have x's type.
size_t operands_of_type(TensorOp op) {
  constexpr std::array kOne = {kSigmoid,   kSilu,    kGelu,      kSoftmax,   kLogSoftmax, kMean,        kVariance,
                               kLayerNorm, kRmsNorm, kGroupNorm, kBatchNorm, kLogsumexp,  kCrossEntropy};
  if (std::find(kOne.begin(), kOne.end(), op) != kOne.end()) return 1;
  return op == kAttention ? 3 : 0;
}

// A matrix that is repeated for each of so many axes in front; a matrix itself where there are none.
ValueId repeated_matrix(const Matching& m, ValueId value, size_t in_front) {
  if (in_front == 0) return m.rank(value) == 2 ? value : kNoValue;
  if (!m.is(value, kBroadcast) || m.rank(value) != static_cast<int>(in_front) + 2) return kNoValue;
  const ValueId matrix = m.operand(value, 0);
  const bool fits = m.rank(matrix) == 2 && m.same_extents(m.shape(matrix), std::span(m.shape(value)).last(2));
  return fits ? matrix : kNoValue;
}

// x·wᵀ of a dot over the last axis of x and one of w [out, in], or of its transpose: x and w. Batched products have w
// once for each of their batch axes.
std::optional<std::array<ValueId, 2>> product_of(Matching& m, ValueId dot) {
  if (!m.is(dot, kDot)) return std::nullopt;
  const AttrList attrs = m.attrs(dot);
  const std::vector<int64_t>&batch_a = ints_attr(attrs, 0), &batch_b = ints_attr(attrs, 1);
  const auto batch = static_cast<int64_t>(batch_a.size());
  for (int64_t i = 0; i < batch; ++i) {
    if (batch_a[static_cast<size_t>(i)] != i || batch_b[static_cast<size_t>(i)] != i) return std::nullopt;
  }
  const ValueId x = m.operand(dot, 0), w = repeated_matrix(m, m.operand(dot, 1), batch_a.size());
  const bool fits = w != kNoValue && m.rank(x) >= 1 && (batch == 0 || m.rank(x) == batch + 2) &&
                    ints_attr(attrs, 2) == std::vector<int64_t>{m.rank(x) - 1} && ints_attr(attrs, 3).size() == 1 &&
                    int_attr(attrs, 5) == 0;
  if (!fits) return std::nullopt;
  if (ints_attr(attrs, 3)[0] == batch + 1) return std::array{x, w};
  return m.is(w, kPermute) ? std::optional(std::array{x, m.operand(w, 0)}) : std::nullopt;
}

}  // namespace

// Of f32 rounded to a small float: the composite of that type, whose operands were widened.
ValueId find_rounded(Matching& m, ValueId root) {
  const ElementType type = m.type(root).element;
  const ValueId inner = m.operand(root, 0);
  const Node* node = m.node(inner);
  if (!dsl::is_small_float(type) || !node || m.type(inner).element != ElementType::kF32) return kNoValue;
  const TensorOp op = node->op;
  const size_t count = operands_of_type(op);
  if (count == 0) return kNoValue;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < node->operand_count; ++i) operands.push_back(m.operand(inner, i));
  for (size_t i = 0; i < count; ++i) operands[i] = widened_from(m, operands[i], type);
  if (op == kAttention && operands.size() > 3 && operands[3] != kNoValue &&
      m.type(operands[3]).element != ElementType::kI1) {
    // The mask may have been widened before it was reshaped.
    const std::vector<Expr> shape = m.shape(operands[3]);
    while (m.is(operands[3], kReshape)) operands[3] = m.operand(operands[3], 0);
    const ValueId mask = widened_from(m, operands[3], type);
    if (mask == kNoValue) return kNoValue;
    operands[3] = m.reshaped(mask, shape);
  }
  if (std::find(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(count), kNoValue) !=
      operands.begin() + static_cast<std::ptrdiff_t>(count)) {
    return kNoValue;
  }
  return m.emit(op, operands, AttrList(m.attrs(inner)));
}

// dot + bias, which of small floats is added in f32 and rounded.
ValueId find_linear(Matching& m, ValueId root) {
  const bool rounds = m.is(root, kCast);
  const ValueId sum = rounds ? m.operand(root, 0) : root;
  if (!m.is(sum, kAdd)) return kNoValue;
  for (size_t i = 0; i < 2; ++i) {
    const auto operands = product_of(m, m.operand(sum, i));
    if (!operands) continue;
    const Seen bias = m.peel(m.operand(sum, 1 - i));
    const ElementType type = m.type((*operands)[0]).element;
    if (m.type(root).element != type || !m.lies_last(bias, m.shape(sum), 1)) continue;
    const ValueId own = rounds ? widened_from(m, bias.value, type) : bias.value;
    if (own == kNoValue || (rounds && !dsl::is_small_float(type))) continue;
    return m.emit(kLinear, {(*operands)[0], (*operands)[1], own});
  }
  return kNoValue;
}

// A linear layer of the rows of x, whose axes in front were merged and are parted again.
ValueId find_linear_of_rows(Matching& m, ValueId root) {
  const ValueId rows = m.operand(root, 0);
  if (!m.is(rows, kLinear) || !m.is(m.operand(rows, 0), kReshape)) return kNoValue;
  const std::vector<Expr> shape = m.shape(root);
  const ValueId w = m.operand(rows, 1), bias = m.operand(rows, 2);
  if (shape.empty() || !m.same_extent(shape.back(), m.shape(rows).back())) return kNoValue;
  for (ValueId x = m.operand(rows, 0); m.is(x, kReshape);) {
    x = m.operand(x, 0);
    const std::span<const Expr> own = m.shape(x);
    const bool fits = own.size() == shape.size() && m.same_extent(own.back(), m.shape(w).back()) &&
                      m.same_extents(own.first(own.size() - 1), std::span(shape).first(shape.size() - 1));
    if (fits) return m.emit(kLinear, {x, w, bias});
  }
  return kNoValue;
}

}  // namespace kiln::graph::recognition
