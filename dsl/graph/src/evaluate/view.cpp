// Evaluator: views, which share their operand's memory, and what puts tensors beside each other.
#include "evaluate/array_loops.h"

namespace kiln::graph::evaluator {
namespace {

Result<void> run_slice(Step& step) {
  auto starts = step.extents(0), ends = step.extents(1);
  if (!starts) return starts.error();
  if (!ends) return ends.error();
  const std::vector<int64_t>& steps = ints_attr(step.attrs(), 2);
  Array out = step.operand(0);
  for (size_t axis = 0; axis < steps.size(); ++axis) {
    const int64_t start = (*starts)[axis], end = (*ends)[axis], extent = out.shape[axis];
    if (start < 0 || start > end || end > extent) {
      return step.fail("[" + std::to_string(start) + ", " + std::to_string(end) + ") is not within axis " +
                       std::to_string(axis) + " of extent " + std::to_string(extent));
    }
    out = sliced(out, axis, start, (end - start + steps[axis] - 1) / steps[axis], steps[axis]);
  }
  step.give(std::move(out));
  return {};
}

void run_reverse(Step& step) {
  Array out = step.operand(0);
  for (const int64_t axis : ints_attr(step.attrs(), 0)) {
    const auto a = static_cast<size_t>(axis);
    out = sliced(out, a, out.shape[a] - 1, out.shape[a], -1);
  }
  step.give(std::move(out));
}

Result<void> run_pad(Step& step) {
  auto low = step.extents(0), high = step.extents(1);
  if (!low) return low.error();
  if (!high) return high.error();
  const std::vector<int64_t>& inner = ints_attr(step.attrs(), 2);
  const Array& x = step.operand(0);
  for (size_t axis = 0; axis < inner.size(); ++axis) {
    if ((*low)[axis] < 0 || (*high)[axis] < 0) {
      return step.fail("low " + std::to_string((*low)[axis]) + ", high " + std::to_string((*high)[axis]) + " of axis " +
                       std::to_string(axis) + " are below 0");
    }
  }
  Array& out = step.make();
  copy(broadcast_view(step.operand(1), out.shape), out);
  Array inside = out;
  for (size_t axis = 0; axis < inner.size(); ++axis) {
    inside = sliced(inside, axis, (*low)[axis], x.shape[axis], inner[axis] + 1);
  }
  copy(x, inside);
  return {};
}

}  // namespace

Result<void> run_view(Step& step) {
  switch (step.node.op) {
    case TensorOp::kReshape: {
      const Extents shape = step.shape();
      if (count_of(shape) != step.operand(0).count()) {
        return step.fail(text(step.operand(0).shape) + " has not as many elements as " + text(shape));
      }
      step.give(reshaped(step.operand(0), shape));
      return {};
    }
    case TensorOp::kPermute:
      step.give(permuted(step.operand(0), ints_attr(step.attrs(), 0)));
      return {};
    case TensorOp::kBroadcast:
      step.give(broadcast_view(step.operand(0), step.shape()));
      return {};
    case TensorOp::kSlice:
      return run_slice(step);
    case TensorOp::kReverse:
      run_reverse(step);
      return {};
    default:  // kPad
      return run_pad(step);
  }
}

Result<void> run_cat(Step& step) {
  const auto axis = static_cast<size_t>(int_attr(step.attrs(), 0));
  Array& out = step.make();
  int64_t start = 0;
  for (const Array* x : step.operands) {
    Array part = sliced(out, axis, start, x->shape[axis], 1);
    copy(*x, part);
    start += x->shape[axis];
  }
  return {};
}

}  // namespace kiln::graph::evaluator
