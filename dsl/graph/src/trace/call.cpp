#include "trace/call.h"

#include <numeric>

namespace kiln::graph {

void Call::fail(const std::string& message) {
  if (ok()) trace_->report(loc_, std::string(what_) + ": " + message);
  failed_ = true;
}

Tensor Call::tensor_as(const Operand& operand, ElementType type) {
  const Tensor x = tensor(operand, type);
  return cast(x, type);
}

Tensor Call::tensor_as(const Operand& operand, ElementType type, const std::vector<Expr>& shape) {
  if (operand.is_tensor() || !operand.present()) return broadcast(tensor_as(operand, type), shape);
  return checked([&] { return number_tensor(*trace_, operand, type, shape, what_, operand.loc()); });
}

std::vector<Tensor> Call::promoted(std::initializer_list<const Operand*> operands, bool to_float) {
  if (!ok()) return {};
  const std::vector<const Operand*> list(operands);
  std::optional<ElementType> type;
  if (to_float) {
    for (const Operand* operand : list) {
      if (operand->is_tensor() && !trace_->usable(operand->tensor(), what_, loc_)) {
        failed_ = true;
        return {};
      }
    }
    type = common_type(*trace_, list, what_, loc_);
    if (type && !dsl::is_float(*type)) type = ElementType::kF32;
    failed_ = !type;
    if (failed_) return {};
  }
  auto out = promote(*trace_, list, what_, type);
  failed_ = out.empty();
  return out;
}

std::vector<Tensor> Call::promoted(const std::vector<Tensor>& tensors) {
  if (!ok()) return {};
  std::vector<Operand> operands;
  std::vector<const Operand*> list;
  operands.reserve(tensors.size());
  for (const Tensor& each : tensors) list.push_back(&operands.emplace_back(each, loc_));
  auto out = list.empty() ? std::vector<Tensor>() : promote(*trace_, list, what_);
  failed_ = out.size() != tensors.size();
  return out;
}

std::vector<Tensor> Call::broadcast_together(std::vector<Tensor> tensors) {
  if (!ok()) return {};
  auto shape = common_shape(*trace_, tensors, what_, loc_);
  failed_ = !shape;
  for (Tensor& each : tensors) {
    if (ok()) each = broadcast(each, *shape);
  }
  return tensors;
}

Expr Call::extent(const Tensor& x, int64_t axis) const {
  if (!ok()) return 1;
  const std::vector<Expr>& shape = trace_->type(x).shape;
  return shape[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis)];
}

int64_t Call::axis(int axis, int count) {
  if (!ok()) return 0;
  auto out = resolve_axis(*trace_, axis, count, what_, loc_);
  failed_ = !out;
  return out.value_or(0);
}

std::vector<int64_t> Call::axes(const Axes& axes, int count) {
  if (!ok()) return {};
  auto out = resolve_axes(*trace_, axes, count, what_, loc_);
  failed_ = !out;
  return out.value_or(std::vector<int64_t>());
}

Expr Call::expr(const Dim& dim) {
  if (!ok()) return 1;
  auto out = trace_->expr(dim, what_, loc_);
  failed_ = !out;
  return out.value_or(Expr(1));
}

std::vector<Expr> Call::exprs(const Shape& shape) {
  if (!ok()) return {};
  auto out = trace_->exprs(shape, what_, loc_);
  failed_ = !out;
  return out.value_or(std::vector<Expr>());
}

Tensor Call::reshape(const Tensor& x, std::vector<Expr> shape) {
  if (!ok() || trace_->type(x).shape == shape) return ok() ? x : Tensor();
  return emit(TensorOp::kReshape, {x}, {std::move(shape)});
}

Tensor Call::permute(const Tensor& x, std::vector<int64_t> order) {
  std::vector<int64_t> same(order.size());
  std::iota(same.begin(), same.end(), 0);
  if (!ok() || order == same) return ok() ? x : Tensor();
  return emit(TensorOp::kPermute, {x}, {std::move(order)});
}

}  // namespace kiln::graph
