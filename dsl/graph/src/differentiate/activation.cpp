// Gradients of activations, each in few operations of x or y. At a kink: relu and its like 0 at 0; clamp 1 at its ends.
// Those of more than a product compute in f32 below 64 bits, as their forward parts: squares of an f16 are soon
// infinite.
#include <cmath>
#include <numbers>

#include "differentiate/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

// x and g as they are computed with.
struct Widened {
  Tensor x, g;
  explicit Widened(const Adjoint& a) {
    const ElementType type = a.x().element() == f64 ? f64 : f32;
    x = cast(a.x(), type);
    g = cast(a.g(), type);
  }
  static void give(Adjoint& a, const Tensor& gradient) { a.give(0, cast(gradient, a.x().element())); }
};

void relu_rule(Adjoint& a) { a.give(0, where(a.x() > 0, a.g(), 0)); }
void leaky_rule(Adjoint& a) { a.give(0, where(a.x() > 0, a.g(), a.g() * float_attr(a.attrs(), 0))); }
void elu_rule(Adjoint& a) {
  // The part below 0 overflows nowhere, for an infinity would come back as NaN in second derivatives.
  const Tensor positive = a.x() > 0;
  const Tensor slope = exp(where(positive, 0, a.x())) * float_attr(a.attrs(), 0);
  a.give(0, where(positive, a.g(), a.g() * slope));
}
void clamp_rule(Adjoint& a) {
  const Tensor low = number_like(a.x(), float_attr(a.attrs(), 0)), high = number_like(a.x(), float_attr(a.attrs(), 1));
  const Tensor inside = (a.x() >= low) & (a.x() <= high);
  a.give(0, where(inside, a.g(), 0));
}
void sigmoid_rule(Adjoint& a) { a.give(0, a.g() * a.y() * (1 - a.y())); }
void silu_rule(Adjoint& a) {
  const Widened w(a);
  const Tensor s = sigmoid(w.x);
  Widened::give(a, w.g * (s * (w.x * (1 - s) + 1)));
}
// Φ(x) + x·φ(x)
void gelu_erf(Adjoint& a) {
  const Widened w(a);
  const Tensor& x = w.x;
  const Tensor density = exp(x * x * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  const Tensor below = erf(x * (1 / std::numbers::sqrt2)) * 0.5 + 0.5;
  Widened::give(a, w.g * (below + x * density));
}
// y = x/2·(1 + t), t = tanh(k·(x + c·x³)). Far out t is 1, and the square of x must not be infinite.
void gelu_tanh(Adjoint& a) {
  const Widened w(a);
  const Tensor& x = w.x;
  const double k = std::sqrt(2 / std::numbers::pi), c = 0.044715;
  const Tensor square = min(x * x, 10000);
  const Tensor t = tanh(x * (square * c + 1) * k);
  const Tensor slope = (1 - t * t) * (square * (3 * c) + 1) * k;
  Widened::give(a, w.g * ((t + 1) * 0.5 + x * slope * 0.5));
}
void gelu_rule(Adjoint& a) { return enum_attr<GeluKind>(a.attrs(), 0) == GeluKind::kErf ? gelu_erf(a) : gelu_tanh(a); }
void softplus_rule(Adjoint& a) { a.give(0, a.g() * sigmoid(a.x())); }
void mish_rule(Adjoint& a) {
  const Widened w(a);
  const Tensor t = tanh(softplus(w.x));
  Widened::give(a, w.g * (t + w.x * (1 - t * t) * sigmoid(w.x)));
}
void hard_sigmoid_rule(Adjoint& a) {
  const Tensor inside = (a.x() > -3) & (a.x() < 3);
  a.give(0, where(inside, a.g() * (1.0 / 6), 0));
}
void hard_swish_rule(Adjoint& a) {
  const Tensor inside = a.g() * (a.x() * (1.0 / 3) + 0.5);
  a.give(0, where(a.x() < -3, 0, where(a.x() <= 3, inside, a.g())));
}

}  // namespace

void add_activation_rules(GradientTable& table) {
  table.rule(kRelu, relu_rule);
  table.rule(kLeakyRelu, leaky_rule);
  table.rule(kElu, elu_rule);
  table.rule(kClamp, clamp_rule);
  table.rule(kSigmoid, sigmoid_rule);
  table.rule(kSilu, silu_rule);
  table.rule(kGelu, gelu_rule);
  table.rule(kSoftplus, softplus_rule);
  table.rule(kMish, mish_rule);
  table.rule(kHardSigmoid, hard_sigmoid_rule);
  table.rule(kHardSwish, hard_swish_rule);
}

}  // namespace kiln::graph
