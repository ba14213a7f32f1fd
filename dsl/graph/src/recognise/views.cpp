// Views around composites that they need not have.
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

}  // namespace

// Reshapes that lead back to the shape before them.
ValueId find_view(Matching& m, ValueId root) {
  const std::vector<Expr> shape = m.shape(root);
  for (ValueId from = m.operand(root, 0);; from = m.operand(from, 0)) {
    if (m.same_extents(m.shape(from), shape)) return from;
    if (!m.is(from, kReshape)) return unkept(m, from, shape);
  }
}

}  // namespace kiln::graph::recognition
