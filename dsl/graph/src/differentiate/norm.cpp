// Gradients of softmax and norms: from the normalised rows, computed again from x.
#include <numeric>

#include "differentiate/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

// The sum along one axis, kept.
Tensor sum_along(const Tensor& x, int64_t axis) { return sum(x, {static_cast<int>(axis)}, true); }

void softmax_rule(Adjoint& a) {
  const Tensor weighed = a.g() * a.y();
  a.give(0, weighed - a.y() * sum_along(weighed, int_attr(a.attrs(), 0)));
}
void log_softmax_rule(Adjoint& a) { a.give(0, a.g() - exp(a.y()) * sum_along(a.g(), int_attr(a.attrs(), 0))); }

// A norm over the last axes, in f32 below 64 bits, as its forward part.
struct LastAxes {
  std::vector<int64_t> rows, normalised;
  Tensor x, g, weighed;  // g times weight

  explicit LastAxes(Adjoint& a) {
    const size_t rank = a.extents(a.x()).size();
    const size_t first = rank - static_cast<size_t>(int_attr(a.attrs(), 0));
    for (size_t i = 0; i < rank; ++i) (i < first ? rows : normalised).push_back(static_cast<int64_t>(i));
    const ElementType type = a.x().element() == f64 ? f64 : f32;
    x = cast(a.x(), type);
    g = cast(a.g(), type);
    weighed = a.has(1) ? g * cast(a.x(1), type) : g;
  }
  Tensor mean_of(Adjoint& a, const Tensor& t) const { return a.emit(kMean, {t}, {normalised, int64_t{1}}); }
};

void layer_norm_rule(Adjoint& a) {
  const LastAxes norm(a);
  const Tensor centred = norm.x - norm.mean_of(a, norm.x);
  const Tensor scale =
      rsqrt(norm.mean_of(a, centred * centred) + number_like(norm.mean_of(a, norm.x), float_attr(a.attrs(), 1)));
  const Tensor normal = centred * scale;
  if (a.wants(0)) {
    const Tensor rest = norm.weighed - norm.mean_of(a, norm.weighed) - normal * norm.mean_of(a, norm.weighed * normal);
    a.give(0, cast(rest * scale, a.x().element()));
  }
  if (a.wants(1)) a.give(1, cast(sum_axes(norm.g * normal, norm.rows), a.x(1).element()));
  if (a.wants(2)) a.give(2, cast(sum_axes(norm.g, norm.rows), a.x(2).element()));
}

void rms_norm_rule(Adjoint& a) {
  const LastAxes norm(a);
  const Tensor square = norm.mean_of(a, norm.x * norm.x);
  const Tensor scale = rsqrt(square + number_like(square, float_attr(a.attrs(), 1)));
  const Tensor normal = norm.x * scale;
  if (a.wants(0)) {
    const Tensor rest = norm.weighed - normal * norm.mean_of(a, norm.weighed * normal);
    a.give(0, cast(rest * scale, a.x().element()));
  }
  if (a.wants(1)) a.give(1, cast(sum_axes(norm.g * normal, norm.rows), a.x(1).element()));
}

}  // namespace

void add_norm_rules(GradientTable& table) {
  table.rule(kSoftmax, softmax_rule);
  table.rule(kLogSoftmax, log_softmax_rule);
  table.rule(kLayerNorm, layer_norm_rule);
  table.rule(kRmsNorm, rms_norm_rule);
  table.all(GradientKind::kDecompose, {kGroupNorm, kBatchNorm, kBatchNormTraining});
}

}  // namespace kiln::graph
