// Functions whose places are data.
#include <algorithm>

#include "trace/call.h"

namespace kiln::graph {
namespace {

// Indices brought to one shape; axes resolved. The shape of what they show.
struct Points {
  std::vector<Tensor> indices;
  std::vector<int64_t> axes;
  std::vector<Expr> shape;
};

Points points(Call& call, const Tensor& x, const std::vector<Tensor>& indices, const Axes& axes) {
  Points out;
  if (indices.empty() || indices.size() != axes.size()) {
    call.fail(std::to_string(indices.size()) + " indices for " + std::to_string(axes.size()) + " axes");
    return out;
  }
  for (const Tensor& each : indices) out.indices.push_back(call.tensor(Operand(each, call.loc())));
  out.indices = call.broadcast_together(std::move(out.indices));
  out.axes = call.axes(axes, call.rank(x));
  if (!call.ok()) return out;
  out.shape = call.shape(out.indices[0]);
  const std::vector<Expr> from = call.shape(x);
  for (size_t i = 0; i < from.size(); ++i) {
    const bool numbered = std::find(out.axes.begin(), out.axes.end(), static_cast<int64_t>(i)) != out.axes.end();
    if (!numbered) out.shape.push_back(from[i]);
  }
  return out;
}

}  // namespace

Tensor gather(Operand x, Operand index, int axis) {
  Call call("gather", x);
  const Tensor from = call.tensor(x), places = call.tensor(index);
  const int64_t place = call.axis(axis, call.rank(from));
  return call.emit(TensorOp::kGather, {from, places}, {place});
}

Tensor take(Operand x, Operand index, int axis) {
  Call call("take", x);
  const Tensor from = call.tensor(x), places = call.tensor(index);
  const int64_t place = call.axis(axis, call.rank(from));
  const int rank = call.rank(from), inserted = call.rank(places);
  const Tensor front = call.emit(TensorOp::kIndex, {from, places}, {std::vector<int64_t>{place}});
  // The index's axes stand in front: back to where the axis was.
  std::vector<int64_t> order;
  for (int64_t i = 0; i < place; ++i) order.push_back(inserted + i);
  for (int64_t i = 0; i < inserted; ++i) order.push_back(i);
  for (int64_t i = place + 1; i < rank; ++i) order.push_back(inserted + i - 1);
  return call.permute(front, std::move(order));
}

Tensor scatter(Operand x, Operand index, Operand values, int axis, ScatterKind kind) {
  Call call("scatter", x);
  const Tensor to = call.tensor(x), places = call.tensor(index);
  const int64_t place = call.axis(axis, call.rank(to));
  const Tensor parts = call.tensor_as(values, call.element(to), call.shape(places));
  return call.emit(TensorOp::kScatter, {to, places, parts}, {place, number_of(kind)});
}

Tensor index(Operand x, const std::vector<Tensor>& indices, Axes axes) {
  Call call("index", x);
  const Tensor from = call.tensor(x);
  Points at = points(call, from, indices, axes);
  at.indices.insert(at.indices.begin(), from);
  return call.emit(TensorOp::kIndex, at.indices, {std::move(at.axes)});
}

Tensor index_put(Operand x, const std::vector<Tensor>& indices, Axes axes, Operand values, ScatterKind kind) {
  Call call("index_put", x);
  const Tensor to = call.tensor(x);
  Points at = points(call, to, indices, axes);
  const Tensor parts = call.tensor_as(values, call.element(to), at.shape);
  at.indices.insert(at.indices.begin(), {to, parts});
  return call.emit(TensorOp::kIndexPut, at.indices, {std::move(at.axes), number_of(kind)});
}

Tensor one_hot(Operand ids, Dim classes, ElementType type) {
  Call call("one_hot", ids);
  const Tensor places = call.tensor(ids);
  Expr count = call.expr(classes);
  return call.emit(TensorOp::kOneHot, {places}, {std::move(count), type});
}

}  // namespace kiln::graph
