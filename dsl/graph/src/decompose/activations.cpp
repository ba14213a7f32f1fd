// Activations. A branch that is not taken stays finite, for a gradient through it is multiplied by 0.
#include <numbers>

#include "decompose/decompositions.h"

namespace kiln::graph {
namespace {

// A function of one element, computed in f32 at least and rounded once.
template <class Function>
std::vector<Tensor> elementwise(const Composite& c, const Function& function) {
  return {cast(function(widened(c[0])), c[0].element())};
}

// e^-|x| is 1 at most, where e^-x would be infinite, and the gradient through it NaN. |x| is written out and branches
// agree at 0 in all derivatives, which those of abs, min and max would not.
Tensor logistic(const Tensor& x) {
  const Tensor negative = x < 0.0, e = exp(-where(negative, -x, x));
  return where(negative, e, 1.0) / (1.0 + e);
}

// log(1 + e^x), which is x to the last bit of an f64 from 40 on. (max(x, 0) + log1p(e^-|x|) has no derivative at 0, and
// min(x, 40) half of one at 40.)
Tensor soft(const Tensor& x) {
  const Tensor far = x > 40.0;
  return where(far, x, log1p(exp(where(far, 40.0, x))));
}

// x + 3 clamped to 0 … 6, over 6.
Tensor hard(const Tensor& x) { return min(max(x + 3.0, 0.0), 6.0) / 6.0; }

}  // namespace

KILN_DECOMPOSITION(relu) { return {max(c[0], 0.0)}; }

KILN_DECOMPOSITION(leaky_relu) {
  return elementwise(c, [&](const Tensor& x) { return where(x > 0.0, x, x * filled(x, c.number(0))); });
}

KILN_DECOMPOSITION(elu) {
  return elementwise(c, [&](const Tensor& x) {
    const Tensor positive = x > 0.0;
    return where(positive, x, expm1(where(positive, 0.0, x)) * filled(x, c.number(0)));
  });
}

KILN_DECOMPOSITION(clamp) {
  return elementwise(c, [&](const Tensor& x) { return min(max(x, filled(x, c.number(0))), filled(x, c.number(1))); });
}

KILN_DECOMPOSITION(sigmoid) { return elementwise(c, logistic); }

KILN_DECOMPOSITION(silu) {
  return elementwise(c, [](const Tensor& x) { return x * logistic(x); });
}

KILN_DECOMPOSITION(gelu) {
  return elementwise(c, [&](const Tensor& x) {
    if (enum_attr<GeluKind>(c.attrs, 0) == GeluKind::kErf) {
      return x * 0.5 * (1.0 + erf(x * (1 / std::numbers::sqrt2)));
    }
    // From 100 on tanh is 1 whatever the square is, but an infinite one would make gradients NaN.
    const Tensor square = min(x * x, 10000.0);
    const Tensor inner = x * (square * 0.044715 + 1.0) * (std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    return x * 0.5 * (1.0 + tanh(inner));
  });
}

KILN_DECOMPOSITION(softplus) { return elementwise(c, soft); }

KILN_DECOMPOSITION(mish) {
  return elementwise(c, [](const Tensor& x) { return x * tanh(soft(x)); });
}

KILN_DECOMPOSITION(hard_sigmoid) { return elementwise(c, hard); }

// The product with 6 would overflow where a sixth of it does not.
KILN_DECOMPOSITION(hard_swish) {
  return elementwise(c, [](const Tensor& x) { return x * hard(x); });
}

}  // namespace kiln::graph
