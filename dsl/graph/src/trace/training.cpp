// Functions that are made of others.
#include "kiln/graph/training.h"

#include "trace/call.h"

namespace kiln::graph {
namespace {

Tensor widened(Call& call, const Tensor& x) { return dsl::info(call.element(x)).bits < 32 ? call.cast(x, f32) : x; }

Tensor all_of(const Tensor& x, Call& call, Tensor (*function)(Operand, Axes, bool)) {
  return call.rank(x) == 0 ? x : function(x, {}, false);
}

// The tensors, each a float.
std::vector<Tensor> floats(Call& call, const std::vector<Tensor>& xs) {
  if (xs.empty()) call.fail("no tensors");
  std::vector<Tensor> out;
  for (const Tensor& x : xs) out.push_back(call.float_tensor(x));
  return call.ok() ? out : std::vector<Tensor>();
}

}  // namespace

BufferStep lion_step(Operand param, Operand grad, Operand m, Operand lr, LionOptions options) {
  Call call("lion_step", param);
  const Tensor now = call.float_tensor(param), buffer = call.float_tensor(m), by = call.float_tensor(grad);
  if (!call.ok()) return {};
  const Tensor weights = widened(call, now), slope = widened(call, by), mean = widened(call, buffer);
  const Tensor rate = call.tensor(lr, call.element(weights));
  const Tensor towards = mean * options.beta1 + slope * (1 - options.beta1);
  const Tensor stay = options.weight_decay == 0 ? weights : weights * (1.0 - rate * options.weight_decay);
  const Tensor next = stay - rate * sign(towards), moved = mean * options.beta2 + slope * (1 - options.beta2);
  return {call.cast(next, call.element(now)), call.cast(moved, call.element(buffer))};
}

Tensor global_norm(const std::vector<Tensor>& grads, SourceLocation loc) {
  Call call("global_norm", loc);
  Tensor total;
  for (const Tensor& grad : floats(call, grads)) {
    const Tensor squares = all_of(square(widened(call, grad)), call, sum);
    total = total.valid() ? total + squares : squares;
  }
  return call.ok() ? Tensor(sqrt(total)) : Tensor();
}

std::vector<Tensor> clip_by_global_norm(const std::vector<Tensor>& grads, Operand max_norm) {
  Call call("clip_by_global_norm", max_norm);
  const Tensor norm = global_norm(grads, max_norm.loc());
  if (!call.ok() || !norm.valid()) return std::vector<Tensor>(grads.size());
  const Tensor scale = min(call.tensor(max_norm, call.element(norm)) / (norm + 1e-6), 1.0);
  std::vector<Tensor> out;
  for (const Tensor& grad : grads) out.push_back(call.cast(widened(call, grad) * scale, call.element(grad)));
  return out;
}

Tensor all_finite(const std::vector<Tensor>& xs, SourceLocation loc) {
  Call call("all_finite", loc);
  Tensor bad;
  for (const Tensor& x : floats(call, xs)) {
    const Tensor here = all_of(isnan(x) | isinf(x), call, any);
    bad = bad.valid() ? bad | here : here;
  }
  return call.ok() ? Tensor(~bad) : Tensor();
}

QuantisedRows quantise_rows(Operand x) {
  Call call("quantise_rows", x);
  const Tensor given = call.float_tensor(x);
  if (call.ok() && call.rank(given) == 0) call.fail("a scalar has no rows");
  if (!call.ok()) return {};
  const Tensor wide = widened(call, given);
  const Tensor scale = reduce_max(abs(wide), {-1}, true) / 127.0;
  return {call.cast(round(wide / where(scale == 0.0, 1.0, scale)), i8), scale};  // 0 of a row of zeros
}

Tensor dynamic_linear(Operand x, Operand w, Operand scale, Operand bias) {
  Call call("dynamic_linear", x);
  const Tensor given = call.float_tensor(x), weights = call.tensor(w), by = call.float_tensor(scale);
  if (call.ok() && call.element(weights) != i8) call.fail("weights are of i8, not " + call.text(weights));
  if (!call.ok()) return {};
  const auto [rows, of_rows] = quantise_rows(given);
  const Tensor sums = matmul(rows, transpose(weights));
  Tensor y = cast(sums, call.element(of_rows)) * of_rows * by;
  if (bias.present()) y = y + call.tensor(bias);
  return call.cast(y, call.element(given));
}

}  // namespace kiln::graph
