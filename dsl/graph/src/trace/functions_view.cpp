// Functions that show a tensor's elements at other places.
#include <algorithm>
#include <numeric>

#include "kiln/graph/extents.h"
#include "trace/call.h"

namespace kiln::graph {
namespace {

// The shape with what is left in place of -1.
std::vector<Expr> completed(Call& call, const Tensor& x, std::vector<Expr> shape) {
  const auto open = std::find(shape.begin(), shape.end(), Expr(-1));
  if (!call.ok() || open == shape.end()) return shape;
  if (std::find(open + 1, shape.end(), Expr(-1)) != shape.end()) {
    call.fail("two extents are -1");
    return shape;
  }
  *open = Expr(1);
  const Expr known = element_count(shape);
  auto left = exact_quotient(call.trace().graph().dims, element_count(call.shape(x)), known);
  if (left) {
    *open = std::move(*left);
  } else {
    call.fail("what is left of " + call.text(x) + " beside " + call.trace().text(known) +
              " is not known to be a whole number");
  }
  return shape;
}

std::vector<int64_t> zeros_unless(Call& call, const Ints& given, int rank, const char* name) {
  if (given.empty()) return std::vector<int64_t>(static_cast<size_t>(rank), 0);
  if (static_cast<int>(given.size()) != rank) {
    call.fail(std::to_string(given.size()) + " numbers in `" + name + "` for " + std::to_string(rank) + " axes");
  }
  return given;
}

}  // namespace

Tensor reshape(Operand x, Shape shape) {
  Call call("reshape", x);
  const Tensor from = call.tensor(x);
  std::vector<Expr> to = completed(call, from, call.exprs(shape));
  return call.reshape(from, std::move(to));
}

Tensor flatten(Operand x, int first, int last) {
  Call call("flatten", x);
  const Tensor from = call.tensor(x);
  const int rank = call.rank(from);
  if (call.ok() && rank == 0) return call.reshape(from, {Expr(1)});
  const int64_t begin = call.axis(first, rank), end = call.axis(last, rank);
  if (begin > end) call.fail("the first axis is behind the last one");
  if (!call.ok()) return {};
  std::vector<Expr> shape = call.shape(from);
  const auto from_axis = shape.begin() + begin, to_axis = shape.begin() + end + 1;
  const Expr count = element_count(std::span(from_axis, to_axis));
  *from_axis = count;
  shape.erase(from_axis + 1, to_axis);
  return call.reshape(from, std::move(shape));
}

Tensor permute(Operand x, Axes order) {
  Call call("permute", x);
  const Tensor from = call.tensor(x);
  const int rank = call.rank(from);
  if (static_cast<int>(order.size()) != rank) {
    call.fail(std::to_string(order.size()) + " axes for " + call.text(from));
  }
  std::vector<int64_t> places = call.axes(order, rank);
  return call.permute(from, std::move(places));
}

Tensor transpose(Operand x, int a, int b) {
  Call call("transpose", x);
  const Tensor from = call.tensor(x);
  const int rank = call.rank(from);
  const int64_t one = call.axis(a, rank), other = call.axis(b, rank);
  if (!call.ok()) return {};
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(one)], order[static_cast<size_t>(other)]);
  return call.permute(from, std::move(order));
}

Tensor broadcast_to(Operand x, Shape shape) {
  Call call("broadcast_to", x);
  const Tensor from = call.tensor(x);
  return call.broadcast(from, call.exprs(shape));
}

Tensor expand_dims(Operand x, int axis) {
  Call call("expand_dims", x);
  const Tensor from = call.tensor(x);
  const int64_t place = call.axis(axis, call.rank(from) + 1);
  std::vector<Expr> shape = call.shape(from);
  if (call.ok()) shape.insert(shape.begin() + place, Expr(1));
  return call.reshape(from, std::move(shape));
}

Tensor squeeze(Operand x, Axes axes) {
  Call call("squeeze", x);
  const Tensor from = call.tensor(x);
  const std::vector<Expr> shape = call.shape(from);
  std::vector<bool> gone(shape.size(), false);
  for (const int64_t axis : call.axes(axes, call.rank(from))) {
    const auto place = static_cast<size_t>(axis);
    gone[place] = shape[place] == Expr(1);
    if (!gone[place] && !axes.empty()) {
      call.fail("axis " + std::to_string(axis) + " of " + call.text(from) + " has not the extent 1");
      return {};
    }
  }
  std::vector<Expr> left;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!gone[i]) left.push_back(shape[i]);
  }
  return call.reshape(from, std::move(left));
}

Tensor slice(Operand x, int axis, Dim start, Dim end, int64_t step) {
  Call call("slice", x);
  const Tensor from = call.tensor(x);
  const int64_t place = call.axis(axis, call.rank(from));
  if (!call.ok()) return {};
  std::vector<Index> indices(static_cast<size_t>(place), Index(all));
  indices.emplace_back(range(std::move(start), std::move(end), step));
  const Trace::LineScope line(x.loc());
  return at(from, indices);
}

Tensor reverse(Operand x, Axes axes) {
  Call call("reverse", x);
  const Tensor from = call.tensor(x);
  std::vector<int64_t> places = call.axes(axes, call.rank(from));
  std::sort(places.begin(), places.end());
  if (places.empty()) return call.ok() ? from : Tensor();
  return call.emit(TensorOp::kReverse, {from}, {std::move(places)});
}

Tensor pad(Operand x, Shape low, Shape high, Operand value, Ints inner) {
  Call call("pad", x);
  const Tensor from = call.tensor(x);
  std::vector<int64_t> between = zeros_unless(call, inner, call.rank(from), "inner");
  if (!call.ok()) return {};
  const Tensor element = call.tensor_as(Operand(value), call.element(from));
  std::vector<Expr> front = call.exprs(low), behind = call.exprs(high);
  return call.emit(TensorOp::kPad, {from, element}, {std::move(front), std::move(behind), std::move(between)});
}

Tensor cat(const std::vector<Tensor>& xs, int axis, SourceLocation loc) {
  Call call("cat", loc);
  if (xs.empty()) call.fail("no tensors");
  const std::vector<Tensor> parts = call.promoted(xs);
  const int64_t place = call.ok() ? call.axis(axis, call.rank(parts[0])) : 0;
  if (call.ok() && parts.size() == 1) return parts[0];
  return call.emit(TensorOp::kCat, parts, {place});
}

Tensor stack(const std::vector<Tensor>& xs, int axis, SourceLocation loc) {
  Call call("stack", loc);
  if (xs.empty()) call.fail("no tensors");
  std::vector<Tensor> parts = call.promoted(xs);
  const int64_t place = call.ok() ? call.axis(axis, call.rank(parts[0]) + 1) : 0;
  for (Tensor& part : parts) {
    std::vector<Expr> shape = call.shape(part);
    if (call.ok() && static_cast<int64_t>(shape.size()) < place) {
      call.fail("tensors of another rank than the first: " + call.text(part));
    }
    if (!call.ok()) return {};
    shape.insert(shape.begin() + place, Expr(1));
    part = call.reshape(part, std::move(shape));
  }
  if (call.ok() && parts.size() == 1) return parts[0];
  return call.emit(TensorOp::kCat, parts, {place});
}

std::vector<Tensor> split(Operand x, int parts, int axis) {
  Call call("split", x);
  const Tensor from = call.tensor(x);
  const int64_t place = call.axis(axis, call.rank(from));
  std::vector<Tensor> out(static_cast<size_t>(std::max(parts, 0)));
  if (parts < 1) call.fail("into " + std::to_string(parts) + " parts");
  if (!call.ok()) return out;
  const std::vector<Expr> shape = call.shape(from);
  const Expr whole = shape[static_cast<size_t>(place)];
  auto part = exact_quotient(call.trace().graph().dims, whole, Expr(parts));
  if (!part) {
    call.fail("axis " + std::to_string(place) + " of " + call.text(from) + " is not known to divide into " +
              std::to_string(parts) + " equal parts");
    return out;
  }
  std::vector<Expr> start(shape.size(), Expr(0)), end = shape;
  const std::vector<int64_t> step(shape.size(), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    start[static_cast<size_t>(place)] = *part * Expr(static_cast<int64_t>(i));
    end[static_cast<size_t>(place)] = *part * Expr(static_cast<int64_t>(i + 1));
    out[i] = parts == 1 ? from : call.emit(TensorOp::kSlice, {from}, {start, end, step});
  }
  return out;
}

// [a, b] times (s, t): [1, a, 1, b] repeated to [s, a, t, b], as [s·a, t·b].
Tensor repeat(Operand x, Ints times) {
  Call call("repeat", x);
  const Tensor from = call.tensor(x);
  std::vector<Expr> shape = call.shape(from);
  if (!call.ok()) return {};
  if (std::any_of(times.begin(), times.end(), [](int64_t count) { return count < 0; })) {
    call.fail("a negative number of times");
  }
  const size_t rank = std::max(shape.size(), times.size());
  shape.insert(shape.begin(), rank - shape.size(), Expr(1));
  times.insert(times.begin(), rank - times.size(), 1);
  std::vector<Expr> apart, repeated, out;
  for (size_t i = 0; i < rank; ++i) {
    apart.insert(apart.end(), {Expr(1), shape[i]});
    repeated.insert(repeated.end(), {Expr(times[i]), shape[i]});
    out.push_back(Expr(times[i]) * shape[i]);
  }
  return call.reshape(call.broadcast(call.reshape(from, apart), repeated), out);
}

}  // namespace kiln::graph
