// Gradients of reductions and scans. min and max give equal shares to all elements that are the result, as PyTorch's
// amax; a scan gives all to the first in its direction.
#include <numbers>
#include <numeric>

#include "differentiate/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

Tensor scan_of(const Tensor& x, ReduceKind kind, int64_t axis, bool reverse, bool exclusive) {
  return scan(x, kind, static_cast<int>(axis), reverse, exclusive);
}

// The product of all others: of those before times those behind, so that zeros need no division.
void product_rule(Adjoint& a, const Tensor& g, const std::vector<int64_t>& axes) {
  const Lines lines(a.extents(a.x()), axes);
  const Tensor x = lines.in(a.x());
  const auto last = static_cast<int64_t>(lines.shape().size()) - 1;
  const Tensor others =
      scan_of(x, ReduceKind::kProd, last, false, true) * scan_of(x, ReduceKind::kProd, last, true, true);
  a.give(0, g * lines.out(others));
}

void reduce_rule(Adjoint& a) {
  const std::vector<int64_t>& axes = a.ints(1);
  const std::vector<Expr> whole = a.extents(a.x());
  const Tensor g = restore(a.g(), whole, axes);
  switch (enum_attr<ReduceKind>(a.attrs(), 0)) {
    case ReduceKind::kSum:
      return a.give(0, g);
    case ReduceKind::kProd:
      return axes.empty() ? a.give(0, g) : product_rule(a, g, axes);
    case ReduceKind::kMin:
    case ReduceKind::kMax: {
      const Tensor is = a.x() == restore(a.y(), whole, axes);
      const Tensor count = sum_axes(cast(is, a.g().element()), axes);
      return a.give(0, where(is, restore(a.g() / reshape_to(max(count, 1), a.extents(a.g())), whole, axes), 0));
    }
    default:
      return a.fail("and, or and xor have no gradient");
  }
}

void mean_rule(Adjoint& a) {
  const std::vector<int64_t>& axes = a.ints(0);
  const std::vector<Expr> whole = a.extents(a.x());
  a.give(0, restore(a.g() / count_of(whole, axes, a.g().element()), whole, axes));
}
void variance_rule(Adjoint& a) {
  const std::vector<int64_t>& axes = a.ints(0);
  const std::vector<Expr> whole = a.extents(a.x());
  const Tensor mean = a.emit(kMean, {a.x()}, {axes, int64_t{1}});
  const Tensor count = count_of(whole, axes, a.g().element()) - static_cast<double>(int_attr(a.attrs(), 1));
  a.give(0, restore(a.g() * 2 / count, whole, axes) * (a.x() - mean));
}
void logsumexp_rule(Adjoint& a) {
  const std::vector<int64_t>& axes = a.ints(0);
  const std::vector<Expr> whole = a.extents(a.x());
  // Of rows of -inf alone the result is -inf, and nothing moves it.
  const Tensor y = where(isinf(a.y()), 0, a.y());
  a.give(0, restore(a.g(), whole, axes) * exp(a.x() - restore(y, whole, axes)));
}

// --- scans ---

// The element behind (in the scan's direction) in place of each, and 0 at the end.
Tensor shifted(Adjoint& a, const Tensor& x, size_t axis, bool reverse) {
  const Expr count = a.extents(x)[axis];
  // Longer by one first: the axis may be empty.
  const Tensor longer = pad_axis(x, axis, Expr(reverse ? 1 : 0), Expr(reverse ? 0 : 1));
  return reverse ? slice_axis(longer, axis, Expr(0), count) : slice_axis(longer, axis, Expr(1), count + Expr(1));
}

// y_j is the product of x up to j. With R_i = g_i + x_(i+1)·R_(i+1) the gradient is P_(i-1)·R_i: a recurrence without a
// division, run as a loop against the scan's direction.
Tensor product_scan(Adjoint& a, const Tensor& x, const Tensor& g, int64_t axis, bool reverse, bool exclusive) {
  const std::vector<Expr> whole = a.extents(x);
  std::vector<int64_t> to_front = {axis};
  for (size_t i = 0; i < whole.size(); ++i) {
    if (static_cast<int64_t>(i) != axis) to_front.push_back(static_cast<int64_t>(i));
  }
  const auto front = [&](const Tensor& t) { return a.emit(kPermute, {t}, {to_front}); };
  std::vector<Expr> row = whole;
  row.erase(row.begin() + axis);
  LoopStep run =
      loop(a.trace().dim(whole[static_cast<size_t>(axis)]), {zeros_of({x.element(), row})}, {front(x), front(g)},
           [exclusive](const Tensors& carried, const Tensors& now) {
             const Tensor r = exclusive ? carried[0] : now[1] + carried[0];
             const Tensor next = exclusive ? now[1] + now[0] * carried[0] : now[0] * r;
             return LoopStep{{next}, {r}};
           },
           {.reverse = !reverse});
  const Tensor r = a.emit(kPermute, {run.stacked[0]}, {inverse_order(to_front)});
  return r * scan_of(x, ReduceKind::kProd, axis, reverse, true);
}

// The place of the first element that is the least or greatest so far: the last one that was better than all before.
Tensor extreme_scan(Adjoint& a, const Tensor& x, const Tensor& g, ReduceKind kind, int64_t axis, bool reverse) {
  const std::vector<Expr> whole = a.extents(x);
  const Expr count = whole[static_cast<size_t>(axis)];
  const Tensor before = scan_of(x, kind, axis, reverse, true);
  const Tensor better = (kind == ReduceKind::kMax ? x > before : x < before) | (isnan(x) & (before == before));
  const Tensor place = a.emit(kIota, {}, {i64, whole, axis});
  // Against the direction of a reverse scan places grow downwards.
  const Tensor first = a.emit(kExtent, {}, {i64, reverse ? count - Expr(1) : Expr(0)});
  const Tensor chosen =
      scan_of(where(better, place, first), reverse ? ReduceKind::kMin : ReduceKind::kMax, axis, reverse, false);
  return a.emit(kScatter, {zeros_like(x), chosen, g}, {axis, static_cast<int64_t>(ScatterKind::kAdd)});
}

void scan_rule(Adjoint& a) {
  const auto kind = enum_attr<ReduceKind>(a.attrs(), 0);
  const int64_t axis = int_attr(a.attrs(), 1);
  const bool reverse = flag_attr(a.attrs(), 2), exclusive = flag_attr(a.attrs(), 3);
  switch (kind) {
    case ReduceKind::kSum:
      return a.give(0, scan_of(a.g(), kind, axis, !reverse, exclusive));
    case ReduceKind::kProd:
      return a.give(0, product_scan(a, a.x(), a.g(), axis, reverse, exclusive));
    case ReduceKind::kMin:
    case ReduceKind::kMax: {
      const Tensor g = exclusive ? shifted(a, a.g(), static_cast<size_t>(axis), reverse) : a.g();
      return a.give(0, extreme_scan(a, a.x(), g, kind, axis, reverse));
    }
    default:
      return a.fail("and, or and xor have no gradient");
  }
}

}  // namespace

void add_reduce_rules(GradientTable& table) {
  table.rule(kReduce, reduce_rule);
  table.rule(kMean, mean_rule);
  table.rule(kVariance, variance_rule);
  table.rule(kLogsumexp, logsumexp_rule);
  table.all(GradientKind::kNone, {kArgReduce});
}

void add_scan_rules(GradientTable& table) { table.rule(kScan, scan_rule); }

}  // namespace kiln::graph
