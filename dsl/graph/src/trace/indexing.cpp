// NumPy's indexing: x(…) and x with x(…) set.
//
//   x(i, none, range(a, b, s), ids)      x: [k, l, m]
//
//   plan     each axis of x: number, range, whole or tensor; and the result's axes in order: axes of x, new ones, and
//            the block, the axes that the tensors have when broadcast together
//   at       slice (numbers are ranges of one), reverse, drop the numbers' axes, `index` by the tensors, which puts the
//            block in front, permute it to its place, add the new axes
//   set_at   `index_put` by the axes that are not whole, with an index tensor for each; values have the same axes, in
//            another order
#include <algorithm>
#include <numeric>

#include "kiln/graph/extents.h"
#include "trace/call.h"

namespace kiln::graph {
namespace {

constexpr int kNewAxis = -1;
constexpr int kBlock = -2;

struct AxisPlan {
  Index::Kind kind = Index::Kind::kAll;
  Expr start, end, count;  // of numbers and ranges
  int64_t step = 1;
  Tensor tensor;
};

struct IndexPlan {
  std::vector<AxisPlan> axes;  // of x
  std::vector<int> layout;     // of the result: an axis of x, kNewAxis or kBlock
  std::vector<Expr> block;
  bool has_block = false;
};

// A negative C++ number counts from the end.
Expr from_end(Call& call, const Dim& dim, const Expr& extent) {
  const auto known = dim.expr().as_constant();
  return known && *known < 0 ? extent + Expr(*known) : call.expr(dim);
}

AxisPlan plan_number(Call& call, const Tensor& x, int axis, const Dim& number) {
  const Expr extent = call.extent(x, axis);
  AxisPlan out{Index::Kind::kNumber, from_end(call, number, extent), {}, Expr(1), 1, {}};
  if (!call.ok()) return out;
  out.end = out.start + Expr(1);
  const auto& dims = call.trace().graph().dims;
  if (at_most(dims, Expr(0), out.start) == Known::kNo || at_most(dims, out.end, extent) == Known::kNo) {
    call.fail("the index " + call.trace().text(call.expr(number)) + " is outside of axis " + std::to_string(axis) +
              " of " + call.text(x));
  }
  return out;
}

AxisPlan plan_range(Call& call, const Tensor& x, int axis, const Range& range) {
  const Expr extent = call.extent(x, axis);
  AxisPlan out{Index::Kind::kRange, from_end(call, range.start, extent), {}, {}, range.step, {}};
  const Expr end = range.step > 0 ? from_end(call, range.end, extent) : call.expr(range.end);
  if (!call.ok()) return out;
  if (range.step == 0) {
    call.fail("a range of step 0");
    return out;
  }
  const Expr low = range.step > 0 ? out.start : end + Expr(1), high = range.step > 0 ? end : out.start + Expr(1);
  const auto& dims = call.trace().graph().dims;
  if (at_most(dims, Expr(0), low) == Known::kNo || at_most(dims, low, high) == Known::kNo ||
      at_most(dims, high, extent) == Known::kNo) {
    call.fail("the range of " + call.trace().text(out.start) + " to " + call.trace().text(end) +
              " is not within axis " + std::to_string(axis) + " of " + call.text(x));
    return out;
  }
  out.end = end;
  out.count = ceil_div(high - low, range.step > 0 ? range.step : -range.step);
  if (range.step == 1 && out.start == Expr(0) && out.count == extent) out.kind = Index::Kind::kAll;
  return out;
}

AxisPlan plan_tensor(Call& call, const Tensor& index) {
  AxisPlan out;
  out.kind = Index::Kind::kTensor;
  out.tensor = call.tensor(Operand(index, call.loc()));
  if (call.ok() && call.element(out.tensor) == i1) {
    call.fail("a mask, " + call.text(index) +
              ", chooses as many elements as are not known before the graph runs; use where()");
  } else if (call.ok() && dsl::is_float(call.element(out.tensor))) {
    call.fail("an index of floats, " + call.text(index));
  }
  return out;
}

// `rest` as the `all` that it stands for; without one they stand at the end.
std::vector<Index> expanded(Call& call, const Tensor& x, const std::vector<Index>& indices) {
  const auto is_rest = [](const Index& index) { return index.kind() == Index::Kind::kRest; };
  const auto rests = std::count_if(indices.begin(), indices.end(), is_rest);
  const auto named = std::count_if(indices.begin(), indices.end(), [&](const Index& index) {
    return !is_rest(index) && index.kind() != Index::Kind::kNew;
  });
  if (rests > 1) call.fail("`rest` stands twice among the indices");
  if (call.ok() && named > call.rank(x)) {
    call.fail(std::to_string(named) + " indices for the " + std::to_string(call.rank(x)) + " axes of " + call.text(x));
  }
  if (!call.ok()) return {};
  std::vector<Index> out(indices);
  const auto place = std::find_if(out.begin(), out.end(), is_rest);
  const auto missing = static_cast<size_t>(call.rank(x) - named);
  if (place == out.end()) {
    out.insert(out.end(), missing, Index(all));
  } else {
    out.insert(out.erase(place), missing, Index(all));
  }
  return out;
}

// Where the block stands: at the first of its indices, in front where others stand between them.
void place_block(IndexPlan& plan, const std::vector<bool>& in_block, size_t before) {
  const auto first = std::find(in_block.begin(), in_block.end(), true);
  const auto last = std::find(in_block.rbegin(), in_block.rend(), true).base();
  const bool neighbours = std::find(first, last, false) == last;
  plan.layout.insert(plan.layout.begin() + (neighbours ? static_cast<ptrdiff_t>(before) : 0), kBlock);
}

IndexPlan make_plan(Call& call, const Tensor& x, const std::vector<Index>& given) {
  IndexPlan plan;
  const std::vector<Index> indices = expanded(call, x, given);
  plan.has_block = std::any_of(indices.begin(), indices.end(),
                               [](const Index& index) { return index.kind() == Index::Kind::kTensor; });
  std::vector<bool> in_block;
  std::optional<size_t> before;  // axes of the result in front of the first index of the block
  for (const Index& index : indices) {
    if (!call.ok()) return plan;
    const int axis = static_cast<int>(plan.axes.size());
    const bool is_number = index.kind() == Index::Kind::kNumber, is_tensor = index.kind() == Index::Kind::kTensor;
    in_block.push_back(plan.has_block && (is_number || is_tensor));
    if (in_block.back() && !before) before = plan.layout.size();
    if (index.kind() == Index::Kind::kNew) {
      plan.layout.push_back(kNewAxis);
      continue;
    }
    if (is_number) {
      plan.axes.push_back(plan_number(call, x, axis, index.number()));
    } else if (is_tensor) {
      plan.axes.push_back(plan_tensor(call, index.tensor()));
    } else {
      plan.axes.push_back(index.kind() == Index::Kind::kRange ? plan_range(call, x, axis, index.range()) : AxisPlan());
      plan.layout.push_back(axis);
    }
  }
  if (!plan.has_block || !call.ok()) return plan;
  place_block(plan, in_block, *before);
  std::vector<Tensor> tensors;
  for (const AxisPlan& axis : plan.axes) {
    if (axis.kind == Index::Kind::kTensor) tensors.push_back(axis.tensor);
  }
  tensors = call.broadcast_together(std::move(tensors));
  plan.block = call.shape(tensors[0]);
  for (size_t i = 0, next = 0; i < plan.axes.size() && call.ok(); ++i) {
    if (plan.axes[i].kind == Index::Kind::kTensor) plan.axes[i].tensor = tensors[next++];
  }
  return plan;
}

// The ranges and numbers, as slices of their axes.
Tensor sliced(Call& call, const Tensor& x, const IndexPlan& plan) {
  std::vector<Expr> start(plan.axes.size(), Expr(0)), end = call.shape(x);
  std::vector<int64_t> step(plan.axes.size(), 1), reversed;
  bool whole = true;
  for (size_t i = 0; i < plan.axes.size() && call.ok(); ++i) {
    const AxisPlan& axis = plan.axes[i];
    if (axis.kind != Index::Kind::kNumber && axis.kind != Index::Kind::kRange) continue;
    start[i] = axis.step > 0 ? axis.start : axis.start + (axis.count - Expr(1)) * Expr(axis.step);
    end[i] = axis.step > 0 ? axis.end : axis.start + Expr(1);
    step[i] = axis.step > 0 ? axis.step : -axis.step;
    if (axis.step < 0) reversed.push_back(static_cast<int64_t>(i));
    whole = whole && start[i] == Expr(0) && step[i] == 1 && end[i] == call.extent(x, static_cast<int64_t>(i));
  }
  Tensor out = x;
  if (!whole) out = call.emit(TensorOp::kSlice, {out}, {std::move(start), std::move(end), std::move(step)});
  if (!reversed.empty()) out = call.emit(TensorOp::kReverse, {out}, {std::move(reversed)});
  return out;
}

// `x` without the axes of numbers, indexed by the tensors, whose block goes to its place.
Tensor indexed(Call& call, const Tensor& x, const IndexPlan& plan) {
  std::vector<Expr> shape;
  std::vector<int64_t> axes;
  std::vector<Tensor> operands = {Tensor()};
  for (size_t i = 0; i < plan.axes.size() && call.ok(); ++i) {
    if (plan.axes[i].kind == Index::Kind::kNumber) continue;
    if (plan.axes[i].kind == Index::Kind::kTensor) {
      axes.push_back(static_cast<int64_t>(shape.size()));
      operands.push_back(plan.axes[i].tensor);
    }
    shape.push_back(call.extent(x, static_cast<int64_t>(i)));
  }
  operands[0] = call.reshape(x, shape);
  if (!plan.has_block) return operands[0];
  const Tensor front = call.emit(TensorOp::kIndex, operands, {std::move(axes)});
  const auto block = static_cast<int64_t>(plan.block.size());
  std::vector<int64_t> order;
  int64_t next = block;
  for (const int each : plan.layout) {
    if (each >= 0) order.push_back(next++);
    for (int64_t i = 0; each == kBlock && i < block; ++i) order.push_back(i);
  }
  return call.permute(front, std::move(order));
}

// The result's shape, with or without the new axes.
std::vector<Expr> result_shape(Call& call, const Tensor& x, const IndexPlan& plan, bool with_new) {
  std::vector<Expr> out;
  for (const int each : plan.layout) {
    if (each == kNewAxis && with_new) out.emplace_back(1);
    if (each == kBlock) out.insert(out.end(), plan.block.begin(), plan.block.end());
    if (each < 0) continue;
    const AxisPlan& axis = plan.axes[static_cast<size_t>(each)];
    out.push_back(axis.kind == Index::Kind::kRange ? axis.count : call.extent(x, each));
  }
  return out;
}

// Index tensors of the axes that are not whole: the block's axes, then one for each range.
struct PutPlan {
  std::vector<Tensor> indices;
  std::vector<int64_t> axes;
  std::vector<int> ranges;  // axes of x
};

PutPlan put_indices(Call& call, const IndexPlan& plan) {
  PutPlan out;
  ElementType type = i64;
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    const AxisPlan& axis = plan.axes[i];
    if (axis.kind == Index::Kind::kRange) out.ranges.push_back(static_cast<int>(i));
    if (axis.kind == Index::Kind::kTensor) type = call.element(axis.tensor);
  }
  size_t range = 0;
  for (size_t i = 0; i < plan.axes.size() && call.ok(); ++i) {
    const AxisPlan& axis = plan.axes[i];
    if (axis.kind == Index::Kind::kAll) continue;
    out.axes.push_back(static_cast<int64_t>(i));
    std::vector<Expr> shape(out.ranges.size(), Expr(1));
    if (axis.kind == Index::Kind::kTensor) {
      shape.insert(shape.begin(), plan.block.begin(), plan.block.end());
      out.indices.push_back(call.reshape(axis.tensor, shape));
      continue;
    }
    // start + step·i, without what adds or multiplies nothing.
    const Operand start(call.trace().dim(axis.start), call.loc());
    Tensor place;
    if (axis.kind == Index::Kind::kRange) {
      place = call.emit(TensorOp::kIota, {}, {type, std::vector<Expr>{axis.count}, int64_t{0}});
      if (axis.step != 1) place = Operand(place, call.loc()) * Operand(axis.step, call.loc());
      if (axis.start != Expr(0)) place = Operand(place, call.loc()) + start;
      shape[range++] = axis.count;
      if (place.valid()) place = call.reshape(place, shape);
    } else {
      place = call.tensor(start, type);
    }
    out.indices.push_back(place);
  }
  out.indices = call.broadcast_together(std::move(out.indices));
  return out;
}

// Values as index_put takes them: the block's axes, the ranges', then those of whole axes.
Tensor put_values(Call& call, const Tensor& values, const IndexPlan& plan, const PutPlan& put) {
  std::vector<int64_t> block, ranges, whole;
  int64_t next = 0;
  for (const int each : plan.layout) {
    for (size_t i = 0; each == kBlock && i < plan.block.size(); ++i) block.push_back(next++);
    if (each < 0) continue;
    const bool is_range = std::find(put.ranges.begin(), put.ranges.end(), each) != put.ranges.end();
    (is_range ? ranges : whole).push_back(next++);
  }
  block.insert(block.end(), ranges.begin(), ranges.end());
  block.insert(block.end(), whole.begin(), whole.end());
  return call.permute(values, std::move(block));
}

Tensor combined(const Tensor& x, const Tensor& values, ScatterKind kind, const SourceLocation& loc) {
  const Operand a(x, loc), b(values, loc);
  switch (kind) {
    case ScatterKind::kSet:
      return values;
    case ScatterKind::kAdd:
      return a + b;
    case ScatterKind::kMul:
      return a * b;
    case ScatterKind::kMin:
      return min(a, b);
    case ScatterKind::kMax:
      return max(a, b);
  }
  return {};
}

}  // namespace

Tensor at(Operand x, const std::vector<Index>& indices) {
  Call call("index", x);
  const Tensor from = call.tensor(x);
  const IndexPlan plan = make_plan(call, from, indices);
  if (!call.ok()) return {};
  std::vector<Expr> shape = result_shape(call, from, plan, true);
  return call.reshape(indexed(call, sliced(call, from, plan), plan), std::move(shape));
}

Tensor set_at(Operand x, const std::vector<Index>& indices, Operand values, ScatterKind kind) {
  Call call("set_at", x);
  const Tensor to = call.tensor(x);
  const IndexPlan plan = make_plan(call, to, indices);
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  Tensor parts = call.tensor_as(values, call.element(to), result_shape(call, to, plan, true));
  parts = call.reshape(parts, result_shape(call, to, plan, false));
  const bool whole = std::all_of(plan.axes.begin(), plan.axes.end(),
                                 [](const AxisPlan& axis) { return axis.kind == Index::Kind::kAll; });
  if (whole) return call.ok() ? combined(to, parts, kind, x.loc()) : Tensor();
  PutPlan put = put_indices(call, plan);
  parts = put_values(call, parts, plan, put);
  put.indices.insert(put.indices.begin(), {to, parts});
  return call.emit(TensorOp::kIndexPut, put.indices, {std::move(put.axes), number_of(kind)});
}

Tensor Tensor::operator()(const Index& a, SourceLocation loc) const { return at({*this, loc}, {a}); }
Tensor Tensor::operator()(const Index& a, const Index& b, SourceLocation loc) const { return at({*this, loc}, {a, b}); }
Tensor Tensor::operator()(const Index& a, const Index& b, const Index& c, SourceLocation loc) const {
  return at({*this, loc}, {a, b, c});
}
Tensor Tensor::operator()(const Index& a, const Index& b, const Index& c, const Index& d, SourceLocation loc) const {
  return at({*this, loc}, {a, b, c, d});
}
Tensor Tensor::operator()(const Index& a, const Index& b, const Index& c, const Index& d, const Index& e,
                          SourceLocation loc) const {
  return at({*this, loc}, {a, b, c, d, e});
}
Tensor Tensor::operator()(const Index& a, const Index& b, const Index& c, const Index& d, const Index& e,
                          const Index& f, SourceLocation loc) const {
  return at({*this, loc}, {a, b, c, d, e, f});
}

}  // namespace kiln::graph
