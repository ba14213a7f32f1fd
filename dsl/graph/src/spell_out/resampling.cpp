// Resampling as weighted looks, axis by axis, in f64.
#include "spell_out/spellings.h"
#include "trace/trace.h"

namespace kiln::graph {
namespace {

struct Tap {
  Tensor place;   // i64 [out]
  Tensor weight;  // f64 [out]
};

// As taps_of of the evaluator says (resize.cpp): Keys' cubic with a = -0.75.
Tensor cubic(const Tensor& distance) {
  const double a = -0.75;
  const Tensor d = abs(distance);
  const Tensor near = ((a + 2) * d - (a + 3)) * d * d + 1.0;
  const Tensor far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return where(d <= 1.0, near, where(d < 2.0, far, zeros_like(d)));
}

std::vector<Tap> taps_of(ResizeMode mode, bool corners, const Dim& in, const Dim& out) {
  const Tensor i = iota(i64, {out}, 0);
  const Tensor n = broadcast_to(extent(in, i64), {out}), m = broadcast_to(extent(out, i64), {out});
  if (mode == ResizeMode::kNearest) return {{i * n / m, ones(f64, {out})}};
  Tensor at;
  if (corners) {
    const Tensor steps = m - 1;
    at = where(steps > 0, cast(i, f64) * cast(n - 1, f64) / cast(max(steps, ones_like(steps)), f64), zeros(f64, {out}));
  } else {
    at = (cast(i, f64) + 0.5) * cast(n, f64) / cast(m, f64) - 0.5;
  }
  const Tensor below = floor(at);
  std::vector<Tap> taps;
  for (int k = mode == ResizeMode::kLinear ? 0 : -1; k <= (mode == ResizeMode::kLinear ? 1 : 2); ++k) {
    const Tensor distance = at - below - static_cast<double>(k);
    const Tensor weight = mode == ResizeMode::kLinear ? 1.0 - abs(distance) : cubic(distance);
    const Tensor place = cast(below, i64) + k;
    taps.push_back({min(max(place, zeros_like(place)), n - 1), weight});
  }
  return taps;
}

// A tensor [extent] in the place of an axis.
Tensor along(const Tensor& x, int axis, int rank) {
  Shape shape(static_cast<size_t>(rank), Dim(1));
  shape[static_cast<size_t>(axis)] = x.extent(0);
  return reshape(x, shape);
}

}  // namespace

std::vector<Tensor> spell_resize(const Composite& c) {
  const Tensor& x = c[0];
  const auto mode = enum_attr<ResizeMode>(c.attrs, 1);
  const auto& shape = shape_attr(c.attrs, 0);
  const int first = x.rank() - static_cast<int>(shape.size());
  Tensor out = mode == ResizeMode::kNearest ? x : cast(x, f64);
  for (size_t i = 0; i < shape.size(); ++i) {
    const int axis = first + static_cast<int>(i);
    Tensor sum;
    for (const Tap& tap : taps_of(mode, c.flag(2), x.extent(axis), Trace::current()->dim(shape[i]))) {
      const Tensor looked = take(out, tap.place, axis);
      if (mode == ResizeMode::kNearest) {
        sum = looked;
        continue;
      }
      const Tensor weighted = looked * along(tap.weight, axis, x.rank());
      sum = sum.valid() ? sum + weighted : weighted;
    }
    out = sum;
  }
  return {cast(out, x.element())};
}

// From the other side: a place that takes nothing of another must not see it, for it may be NaN.
std::vector<Tensor> spell_resize_spread(const Composite& c) {
  const Tensor& g = c[0];
  const auto mode = enum_attr<ResizeMode>(c.attrs, 1);
  const auto& shape = shape_attr(c.attrs, 0);
  const int first = g.rank() - static_cast<int>(shape.size());
  Tensor out = cast(g, f64);
  for (size_t i = 0; i < shape.size(); ++i) {
    const int axis = first + static_cast<int>(i);
    const Dim in = Trace::current()->dim(shape[i]), fine = g.extent(axis);
    // [other axes…, in, fine]: what each fine place gives to each coarse one, where it gives it anything.
    Axes last;
    for (int j = 0; j < g.rank(); ++j) {
      if (j != axis) last.push_back(j);
    }
    last.push_back(axis);
    Shape shape_of_parts;
    const Tensor turned = expand_dims(permute(out, last), -2);
    for (int j = 0; j < turned.rank(); ++j) shape_of_parts.push_back(j + 2 == turned.rank() ? in : turned.extent(j));
    const Tensor given = broadcast_to(turned, shape_of_parts);
    const Tensor place = iota(i64, {in, fine}, 0);
    Tensor parts = zeros(f64, shape_of_parts);
    for (const Tap& tap : taps_of(mode, c.flag(2), in, fine)) {
      const Tensor here = broadcast_to(place == broadcast_to(tap.place, {in, fine}), shape_of_parts);
      parts = parts + where(here, given * broadcast_to(tap.weight, shape_of_parts), zeros(f64, shape_of_parts));
    }
    const Tensor spread = sum(parts, {-1});  // [other axes…, in]
    Axes order;
    for (int j = 0; j + 1 < g.rank(); ++j) order.push_back(j);
    order.insert(order.begin() + axis, g.rank() - 1);
    out = permute(spread, order);
  }
  return {cast(out, g.element())};
}

}  // namespace kiln::graph
