// One step of an optimiser for one parameter. Numbers for the learning rate and the count of steps are f32 (f64 of
// parameters that are); a count that is an int tensor is cast to that.
#include "trace/call.h"

namespace kiln::graph {
namespace {

ElementType rate_type(ElementType param) { return param == f64 ? f64 : f32; }

std::array<Tensor, 3> moments(TensorOp op, const char* what, std::array<const Operand*, 6> given, AttrList attrs) {
  Call call(what, *given[0]);
  std::array<Tensor, 6> x;
  for (size_t i = 0; i < 4; ++i) x[i] = call.tensor(*given[i]);
  x[4] = call.tensor(*given[4], rate_type(call.element(x[0])));
  x[5] = call.tensor(*given[5], rate_type(call.element(x[0])));
  if (!dsl::is_float(call.element(x[5]))) x[5] = call.cast(x[5], rate_type(call.element(x[0])));
  return call.emit_n<3>(op, {x[0], x[1], x[2], x[3], x[4], x[5]}, std::move(attrs));
}

}  // namespace

Tensor sgd_step(Operand param, Operand grad, Operand lr, double weight_decay) {
  Call call("sgd_step", param);
  const Tensor now = call.tensor(param), by = call.tensor(grad), rate = call.tensor(lr, rate_type(call.element(now)));
  return call.emit(TensorOp::kSgdStep, {now, by, rate}, {weight_decay});
}

BufferStep momentum_step(Operand param, Operand grad, Operand buffer, Operand lr, MomentumOptions options) {
  Call call("momentum_step", param);
  const Tensor now = call.tensor(param), by = call.tensor(grad), kept = call.tensor(buffer);
  const Tensor rate = call.tensor(lr, rate_type(call.element(now)));
  const auto [next, moved] =
      call.emit_n<2>(TensorOp::kMomentumStep, {now, by, kept, rate},
                     {options.momentum, options.dampening, int64_t{options.nesterov}, options.weight_decay});
  return {next, moved};
}

MomentStep adam_step(Operand param, Operand grad, Operand m, Operand v, Operand lr, Operand step, AdamOptions options) {
  const auto [next, m2, v2] =
      moments(TensorOp::kAdamStep, "adam_step", {&param, &grad, &m, &v, &lr, &step},
              {options.beta1, options.beta2, options.eps, options.weight_decay, int64_t{options.decoupled}});
  return {next, m2, v2};
}

BufferStep adagrad_step(Operand param, Operand grad, Operand sum, Operand lr, double eps, double weight_decay) {
  Call call("adagrad_step", param);
  const Tensor now = call.tensor(param), by = call.tensor(grad), kept = call.tensor(sum);
  const Tensor rate = call.tensor(lr, rate_type(call.element(now)));
  const auto [next, moved] = call.emit_n<2>(TensorOp::kAdagradStep, {now, by, kept, rate}, {eps, weight_decay});
  return {next, moved};
}

MomentStep lamb_step(Operand param, Operand grad, Operand m, Operand v, Operand lr, Operand step, AdamOptions options) {
  const auto [next, m2, v2] = moments(TensorOp::kLambStep, "lamb_step", {&param, &grad, &m, &v, &lr, &step},
                                      {options.beta1, options.beta2, options.eps, options.weight_decay});
  return {next, m2, v2};
}

}  // namespace kiln::graph
