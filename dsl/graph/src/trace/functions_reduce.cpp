// Functions that combine elements along axes, or put them in order.
#include "trace/call.h"

namespace kiln::graph {
namespace {

// A scalar has nothing to combine.
Tensor reduced(Call& call, const Tensor& x, ReduceKind kind, const Axes& axes, bool keep) {
  std::vector<int64_t> places = call.axes(axes, call.rank(x));
  if (call.ok() && places.empty()) return x;
  return call.emit(TensorOp::kReduce, {x}, {number_of(kind), std::move(places), int64_t{keep}});
}

// Of i1 sums and products are of i64: how many, as NumPy has it.
Tensor counted(Call& call, const Operand& operand) {
  const Tensor x = call.tensor(operand);
  return call.ok() && call.element(x) == i1 ? call.cast(x, i64) : x;
}

Tensor truth(Call& call, const Operand& operand) {
  const Tensor x = call.tensor(operand);
  if (!call.ok() || call.element(x) == i1) return x;
  return Operand(x, call.loc()) != Operand(0, call.loc());
}

Tensor statistic(TensorOp op, const char* what, const Operand& operand, const Axes& axes, bool keep) {
  Call call(what, operand);
  const Tensor x = call.float_tensor(operand);
  std::vector<int64_t> places = call.axes(axes, call.rank(x));
  if (call.ok() && places.empty()) return x;
  return call.emit(op, {x}, {std::move(places), int64_t{keep}});
}

Tensor place_of(ArgKind kind, const char* what, const Operand& operand, int axis, bool keep) {
  Call call(what, operand);
  const Tensor x = call.tensor(operand);
  const int64_t place = call.axis(axis, call.rank(x));
  return call.emit(TensorOp::kArgReduce, {x}, {number_of(kind), place, int64_t{keep}});
}

}  // namespace

Tensor reduce(Operand x, ReduceKind kind, Axes axes, bool keep) {
  Call call("reduce", x);
  return reduced(call, call.tensor(x), kind, axes, keep);
}

Tensor sum(Operand x, Axes axes, bool keep) {
  Call call("sum", x);
  return reduced(call, counted(call, x), ReduceKind::kSum, axes, keep);
}

Tensor prod(Operand x, Axes axes, bool keep) {
  Call call("prod", x);
  return reduced(call, counted(call, x), ReduceKind::kProd, axes, keep);
}

Tensor reduce_max(Operand x, Axes axes, bool keep) {
  Call call("reduce_max", x);
  return reduced(call, call.tensor(x), ReduceKind::kMax, axes, keep);
}

Tensor reduce_min(Operand x, Axes axes, bool keep) {
  Call call("reduce_min", x);
  return reduced(call, call.tensor(x), ReduceKind::kMin, axes, keep);
}

Tensor any(Operand x, Axes axes, bool keep) {
  Call call("any", x);
  return reduced(call, truth(call, x), ReduceKind::kOr, axes, keep);
}

Tensor every(Operand x, Axes axes, bool keep) {
  Call call("every", x);
  return reduced(call, truth(call, x), ReduceKind::kAnd, axes, keep);
}

Tensor argmax(Operand x, int axis, bool keep) { return place_of(ArgKind::kMax, "argmax", x, axis, keep); }
Tensor argmin(Operand x, int axis, bool keep) { return place_of(ArgKind::kMin, "argmin", x, axis, keep); }

Tensor mean(Operand x, Axes axes, bool keep) { return statistic(TensorOp::kMean, "mean", x, axes, keep); }

Tensor logsumexp(Operand x, Axes axes, bool keep) {
  return statistic(TensorOp::kLogsumexp, "logsumexp", x, axes, keep);
}

Tensor variance(Operand x, Axes axes, int correction, bool keep) {
  Call call("variance", x);
  const Tensor from = call.float_tensor(x);
  std::vector<int64_t> places = call.axes(axes, call.rank(from));
  return call.emit(TensorOp::kVariance, {from}, {std::move(places), int64_t{correction}, int64_t{keep}});
}

Tensor scan(Operand x, ReduceKind kind, int axis, bool reverse, bool exclusive) {
  Call call("scan", x);
  const Tensor from = call.tensor(x);
  const int64_t place = call.axis(axis, call.rank(from));
  return call.emit(TensorOp::kScan, {from}, {number_of(kind), place, int64_t{reverse}, int64_t{exclusive}});
}

Tensor cumsum(Operand x, int axis) {
  Call call("cumsum", x);
  const Tensor from = counted(call, x);
  const int64_t place = call.axis(axis, call.rank(from));
  return call.emit(TensorOp::kScan, {from}, {number_of(ReduceKind::kSum), place});
}

std::pair<Tensor, Tensor> sort(Operand x, int axis, bool descending) {
  Call call("sort", x);
  const Tensor from = call.tensor(x);
  const int64_t place = call.axis(axis, call.rank(from));
  const auto [values, indices] = call.emit_n<2>(TensorOp::kSort, {from}, {place, int64_t{descending}});
  return {values, indices};
}

std::pair<Tensor, Tensor> topk(Operand x, Dim k, int axis, bool largest) {
  Call call("topk", x);
  const Tensor from = call.tensor(x);
  const int64_t place = call.axis(axis, call.rank(from));
  Expr count = call.expr(k);
  const auto [values, indices] = call.emit_n<2>(TensorOp::kTopk, {from}, {std::move(count), place, int64_t{largest}});
  return {values, indices};
}

Tensor histogram(Operand x, Dim bins) {
  Call call("histogram", x);
  const Tensor from = call.tensor(x);
  Expr count = call.expr(bins);
  return call.emit(TensorOp::kHistogram, {from}, {std::move(count)});
}

}  // namespace kiln::graph
