// Optimiser steps and numbers of few bits. New states have the type of the old ones; all is computed in f32 at least.
#include <cmath>

#include "decompose/decompositions.h"

namespace kiln::graph {
namespace {

// An operand in the type that the step computes in.
Tensor at_work(const Composite& c, size_t i) { return cast(c[i], widened(c[0]).element()); }

// Weight decay in the gradient: without it, an infinite parameter is no NaN.
Tensor decayed(const Tensor& grad, const Tensor& param, double decay) {
  return decay == 0 ? grad : grad + param * decay;
}

struct Moments {
  Tensor m, v, direction;  // of operands param, grad, m, v, lr, step
};

// Adam's moments with the bias of their start taken out.
Moments adam_moments(const Composite& c, const Tensor& grad, double beta1, double beta2, double eps) {
  const Tensor step = at_work(c, 5);
  const Tensor m = at_work(c, 2) * beta1 + grad * (1 - beta1);
  const Tensor v = at_work(c, 3) * beta2 + square(grad) * (1 - beta2);
  // 1 - beta^step. From the rounded beta the difference of the first steps would have few right digits.
  const auto unbiased = [&](double beta) { return -expm1(step * filled(step, std::log(beta))); };
  const Tensor m_hat = m / unbiased(beta1), v_hat = v / unbiased(beta2);
  return {m, v, m_hat / (sqrt(v_hat) + eps)};
}

Tensor norm(const Tensor& x) { return sqrt(x.rank() == 0 ? square(x) : sum(square(x))); }

// scale or zero of [extent] along an axis of x.
Tensor along(const Composite& c, size_t i, ElementType type) {
  const int64_t axis = c.integer(1);
  const Tensor value = cast(c[i], type);
  if (axis == -1) return value;
  Shape shape(static_cast<size_t>(c[0].rank()), Dim(1));
  shape[static_cast<size_t>(axis)] = value.extent(0);
  return reshape(value, shape);
}

// Where ints and a float type meet: f32 has all ints of 16 bits, f64 those of 32.
ElementType work_for(ElementType ints, ElementType floats) {
  return dsl::info(ints).bits > 16 || floats == f64 ? f64 : f32;
}

}  // namespace

KILN_DECOMPOSITION(sgd_step) {
  const Tensor param = widened(c[0]);
  const Tensor grad = decayed(at_work(c, 1), param, c.number(0));
  return {cast(param - at_work(c, 2) * grad, c[0].element())};
}

KILN_DECOMPOSITION(momentum_step) {
  const Tensor param = widened(c[0]);
  const Tensor grad = decayed(at_work(c, 1), param, c.number(3));
  const Tensor buffer = at_work(c, 2) * c.number(0) + grad * (1 - c.number(1));
  const Tensor direction = c.flag(2) ? grad + buffer * c.number(0) : buffer;
  return {cast(param - at_work(c, 3) * direction, c[0].element()), cast(buffer, c[2].element())};
}

KILN_DECOMPOSITION(adam_step) {
  const Tensor param = widened(c[0]), lr = at_work(c, 4);
  const double decay = c.number(3);
  const bool decoupled = c.flag(4);
  const Tensor grad = decoupled ? at_work(c, 1) : decayed(at_work(c, 1), param, decay);
  const Moments moments = adam_moments(c, grad, c.number(0), c.number(1), c.number(2));
  const Tensor from = decoupled && decay != 0 ? param * (1.0 - lr * decay) : param;
  return {cast(from - lr * moments.direction, c[0].element()), cast(moments.m, c[2].element()),
          cast(moments.v, c[3].element())};
}

KILN_DECOMPOSITION(adagrad_step) {
  const Tensor param = widened(c[0]);
  const Tensor grad = decayed(at_work(c, 1), param, c.number(1));
  const Tensor sums = at_work(c, 2) + square(grad);
  return {cast(param - at_work(c, 3) * grad / (sqrt(sums) + c.number(0)), c[0].element()), cast(sums, c[2].element())};
}

KILN_DECOMPOSITION(lamb_step) {
  const Tensor param = widened(c[0]);
  const Moments moments = adam_moments(c, at_work(c, 1), c.number(0), c.number(1), c.number(2));
  const Tensor direction = decayed(moments.direction, param, c.number(3));
  const Tensor of_param = norm(param), of_direction = norm(direction);
  const Tensor either = (of_param == 0.0) | (of_direction == 0.0);
  const Tensor trust = where(either, 1.0, of_param / where(either, 1.0, of_direction));
  return {cast(param - at_work(c, 4) * trust * direction, c[0].element()), cast(moments.m, c[2].element()),
          cast(moments.v, c[3].element())};
}

KILN_DECOMPOSITION(quantise) {
  const Tensor x = widened(c[0]);
  const ElementType to = element_attr(c.attrs, 0);
  Tensor y = round(x / along(c, 1, x.element()));
  if (c.has(2)) y = cast(y, work_for(to, x.element())) + along(c, 2, work_for(to, x.element()));
  return {cast(y, to)};  // saturates
}

KILN_DECOMPOSITION(dequantise) {
  const ElementType type = element_attr(c.attrs, 0);
  const ElementType work = work_for(c[0].element(), type);
  Tensor y = cast(c[0], work);
  if (c.has(2)) y = y - along(c, 2, work);
  return {cast(y * along(c, 1, work), type)};
}

}  // namespace kiln::graph
