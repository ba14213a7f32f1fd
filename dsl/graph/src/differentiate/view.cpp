// Gradients of views and cat: the index map the other way round.
#include "differentiate/rules.h"
#include "kiln/graph/extents.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

void reshape_rule(Adjoint& a) { a.give(0, reshape_to(a.g(), a.extents(a.x()))); }
void permute_rule(Adjoint& a) { a.give(0, a.emit(kPermute, {a.g()}, {inverse_order(a.ints(0))})); }
void broadcast_rule(Adjoint& a) { a.give(0, sum_to(a.g(), a.extents(a.x()))); }
void reverse_rule(Adjoint& a) { a.give(0, a.emit(kReverse, {a.g()}, {a.ints(0)})); }

// The order of axes that has one in front.
std::vector<int64_t> with_front(size_t rank, size_t axis) {
  std::vector<int64_t> out = {static_cast<int64_t>(axis)};
  for (size_t i = 0; i < rank; ++i) {
    if (i != axis) out.push_back(static_cast<int64_t>(i));
  }
  return out;
}
// start, start + step, …
Tensor steps(Adjoint& a, const Expr& start, int64_t step, const Expr& count) {
  return a.emit(kIota, {}, {i64, std::vector<Expr>{count}, int64_t{0}}) * step + a.emit(kExtent, {}, {i64, start});
}

// Puts g's elements along an axis at start, start + step, … of an axis of `extent` zeros.
Tensor put_steps(Adjoint& a, const Tensor& g, size_t axis, const Expr& start, int64_t step, const Expr& extent) {
  std::vector<Expr> shape = a.extents(g);
  const Expr count = shape[axis];
  const Tensor values = a.emit(kPermute, {g}, {with_front(shape.size(), axis)});
  shape[axis] = extent;
  const Tensor zeros = zeros_of({g.element(), shape});
  return a.emit(kIndexPut, {zeros, values, steps(a, start, step, count)},
                {std::vector<int64_t>{static_cast<int64_t>(axis)}, static_cast<int64_t>(ScatterKind::kAdd)});
}

// The `count` elements at start, start + step, … of an axis.
Tensor take_steps(Adjoint& a, const Tensor& g, size_t axis, const Expr& start, int64_t step, const Expr& count) {
  const std::vector<int64_t> order = with_front(a.extents(g).size(), axis);
  const Tensor front =
      a.emit(kIndex, {g, steps(a, start, step, count)}, {std::vector<int64_t>{static_cast<int64_t>(axis)}});
  return a.emit(kPermute, {front}, {inverse_order(order)});
}

// A pad with step - 1 elements between, where what is behind the last one is known not to be negative.
void slice_rule(Adjoint& a) {
  const std::vector<Expr> whole = a.extents(a.x());
  const std::vector<Expr>&start = shape_attr(a.attrs(), 0), &end = shape_attr(a.attrs(), 1);
  const std::span<const DimInfo> dims = a.trace().graph().dims;
  const size_t rank = whole.size();
  std::vector<Expr> low(rank), high(rank);
  std::vector<int64_t> inner(rank, 0);
  Tensor g = a.g();
  for (size_t i = 0; i < rank; ++i) {
    const int64_t step = a.ints(2)[i];
    const Expr count = a.extents(g)[i];
    low[i] = start[i];
    high[i] = whole[i] - end[i];
    if (step == 1) continue;
    const Expr behind = whole[i] - start[i] - (count - Expr(1)) * Expr(step) - Expr(1);
    if (interval(dims, count).low >= 1 && at_most(dims, Expr(0), behind) == Known::kYes) {
      high[i] = behind;
      inner[i] = step - 1;
      continue;
    }
    g = put_steps(a, g, i, start[i], step, whole[i]);
    low[i] = high[i] = Expr(0);
  }
  a.give(0, a.emit(kPad, {g, zeros_of({g.element(), {}})}, {low, high, inner}));
}

// A slice with steps, where the extent is known not to be 0: of none it would not be known to give none.
void pad_rule(Adjoint& a) {
  const std::vector<Expr> inside = a.extents(a.x());
  const std::vector<Expr>& low = shape_attr(a.attrs(), 0);
  const std::vector<int64_t>& inner = a.ints(2);
  const std::span<const DimInfo> dims = a.trace().graph().dims;
  if (a.wants(0)) {
    Tensor g = a.g();
    std::vector<Expr> start = low, end;
    std::vector<int64_t> step;
    for (size_t i = 0; i < inside.size(); ++i) {
      const bool some = inner[i] == 0 || interval(dims, inside[i]).low >= 1;
      step.push_back(some ? inner[i] + 1 : 1);
      end.push_back(some ? low[i] + inside[i] + (inside[i] - Expr(1)) * Expr(inner[i]) : inside[i]);
      if (some) continue;
      g = take_steps(a, g, i, low[i], inner[i] + 1, inside[i]);
      start[i] = Expr(0);
    }
    a.give(0, reshape_to(a.emit(kSlice, {g}, {start, end, step}), inside));
  }
  if (a.wants(1)) {
    const Tensor x_there = a.emit(kFull, {}, {i1, inside, Literal{1}});
    const Tensor is_x = a.emit(kPad, {x_there, zeros_of({i1, {}})}, a.attrs());
    a.give(1, sum(where(is_x, 0, a.g())));
  }
}

void cat_rule(Adjoint& a) {
  const auto axis = static_cast<size_t>(int_attr(a.attrs(), 0));
  Expr start;
  for (size_t i = 0; i < a.operands.size(); ++i) {
    const Expr end = start + a.extents(a.x(i))[axis];
    if (a.wants(i)) {
      const Tensor part = slice_axis(a.g(), axis, start, end);
      a.give(i, part);
    }
    start = end;
  }
}

}  // namespace

void add_view_rules(GradientTable& table) {
  table.rule(kReshape, reshape_rule);
  table.rule(kPermute, permute_rule);
  table.rule(kBroadcast, broadcast_rule);
  table.rule(kReverse, reverse_rule);
  table.rule(kSlice, slice_rule);
  table.rule(kPad, pad_rule);
  table.rule(kCat, cat_rule);
}

}  // namespace kiln::graph
