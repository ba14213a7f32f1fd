// Images sampled at points: each is a weighted sum of the pixels around it.
#include "library/sampling.h"

#include <cmath>

#include "decompose/decompositions.h"
#include "kiln/graph/control.h"
#include "trace/call.h"

namespace kiln::graph {
namespace {

// The greatest place of an axis, as a scalar beside x.
Tensor last_of(const Dim& extent, const Tensor& x) { return graph::extent(extent - 1, x.element()); }

Tensor clipped(const Tensor& place, const Dim& extent) { return max(min(place, last_of(extent, place)), 0); }

// Mirrored at the centres of the outermost pixels, or at their outer edges, as often as it takes.
Tensor reflected(const Tensor& place, const Dim& extent, bool corners) {
  const double edge = corners ? 0 : -0.5;
  const Tensor span = graph::extent(corners ? extent - 1 : extent, place.element());
  const Tensor from = abs(place - edge), length = max(span, 1);
  const Tensor times = floor(from / length), more = from - times * length;
  const Tensor odd = times - 2 * floor(times / 2);
  const Tensor back = where(odd == 0, more, length - more) + edge;
  return clipped(where(span == 0, 0.0, back), extent);
}

// Where a place beyond the edges is looked up instead.
Tensor within(const Tensor& place, const Dim& extent, const SampleOptions& options) {
  return options.edges == SampleEdges::kReflect ? reflected(place, extent, options.corners) : clipped(place, extent);
}

// A tap at a whole number; with zeros around the image its weight says whether it lies inside.
Tap tap(const Tensor& place, const Tensor& weight, const Dim& extent, const SampleOptions& options) {
  Tensor share = weight;
  if (options.edges == SampleEdges::kZeros) {
    const Tensor inside = (place >= 0) & (place <= last_of(extent, place));
    share = where(inside, share, 0.0);
  }
  return {cast(within(place, extent, options), i64), share};
}

// Keys' weights of the four pixels around a fraction t, a = -0.75.
std::array<Tensor, 4> cubic_weights(const Tensor& t) {
  constexpr double kA = -0.75;
  const auto near = [&](const Tensor& d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  const auto far = [&](const Tensor& d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

std::vector<Tap> taps(const Tensor& point, const Dim& extent, const SampleOptions& options) {
  const bool zeros = options.edges == SampleEdges::kZeros;
  if (options.mode == ResizeMode::kCubic) {
    const Tensor first = floor(point);
    const auto weights = cubic_weights(point - first);
    std::vector<Tap> out;
    for (int i = 0; i < 4; ++i) out.push_back(tap(first + (i - 1), weights[static_cast<size_t>(i)], extent, options));
    return out;
  }
  const Tensor place = zeros ? point : within(point, extent, options);
  if (options.mode == ResizeMode::kNearest) {
    const Tensor nearest = round(place);
    return {tap(nearest, ones_like(nearest), extent, options)};
  }
  if (!zeros) return linear_taps(place, extent);
  const Tensor first = floor(place), t = place - first;
  return {tap(first, 1 - t, extent, options), tap(first + 1, t, extent, options)};
}

// The place of a point of [-1, 1] along an axis.
Tensor unnormalised(const Tensor& point, const Dim& extent, bool corners) {
  const Tensor size = graph::extent(extent, point.element());
  return corners ? (point + 1) / 2 * (size - 1) : ((point + 1) * size - 1) / 2;
}

}  // namespace

std::vector<Tap> linear_taps(const Tensor& place, const Dim& extent) {
  const Tensor first = floor(place), t = place - first;
  return {{cast(first, i64), 1 - t}, {cast(min(first + 1, last_of(extent, place)), i64), t}};
}

Tensor sum_of_taps(const Tensor& x, const Tensor& image, const std::vector<std::vector<Tap>>& by_axis) {
  Axes axes = {0};
  for (size_t i = 0; i < by_axis.size(); ++i) axes.push_back(static_cast<int>(i) + 2);
  Tensor total;
  std::vector<size_t> chosen(by_axis.size(), 0);
  for (bool more = true; more;) {
    Tensors places = {image};
    Tensor weight;
    for (size_t i = 0; i < by_axis.size(); ++i) {
      const Tap& each = by_axis[i][chosen[i]];
      places.push_back(each.place);
      weight = weight.valid() ? weight * each.weight : each.weight;
    }
    const Tensor part = widened(index(x, places, axes)) * expand_dims(weight, -1);
    total = total.valid() ? total + part : part;
    more = false;
    for (size_t i = 0; i < chosen.size() && !more; ++i) {
      chosen[i] = (chosen[i] + 1) % by_axis[i].size();
      more = chosen[i] != 0;
    }
  }
  return total;
}

Tensor grid_sample(Operand x, Operand grid, SampleOptions options) {
  Call call("grid_sample", x);
  const Tensor from = call.float_tensor(x), points = call.float_tensor(grid);
  const int axes = call.rank(from) - 2;
  if (call.ok() && (axes < 1 || axes > 3 || call.rank(points) < 2 || !(call.extent(points, -1) == Expr(axes)))) {
    call.fail(call.text(from) + " at points " + call.text(points) + ", which must be [N, …, " +
              std::to_string(std::max(axes, 0)) + "]");
  }
  if (call.ok() && options.mode == ResizeMode::kCubic && axes != 2) {
    call.fail("cubic weights are for two spatial axes, and " + call.text(from) + " has " + std::to_string(axes));
  }
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const Tensor wide = widened(from), at = cast(points, wide.element());
  Shape shape = at.shape();
  shape.pop_back();
  std::vector<std::vector<Tap>> by_axis;
  for (int i = 0; i < axes; ++i) {
    const Tensor point = at(rest, axes - 1 - i);
    const Dim extent = from.extent(i + 2);
    by_axis.push_back(taps(unnormalised(point, extent, options.corners), extent, options));
  }
  const Tensor y = sum_of_taps(from, iota(i64, shape, 0), by_axis);
  Axes order = {0, y.rank() - 1};
  for (int i = 1; i + 1 < y.rank(); ++i) order.push_back(i);
  return cast(permute(y, order), from.element());
}

Tensor affine_grid(Operand theta, Shape places, bool corners) {
  Call call("affine_grid", theta);
  const Tensor by = call.float_tensor(theta);
  const auto axes = static_cast<int>(places.size());
  if (call.ok() && (axes < 1 || call.rank(by) != 3 || !(call.extent(by, 1) == Expr(axes)) ||
                    !(call.extent(by, 2) == Expr(axes + 1)))) {
    call.fail(call.text(by) + " for images of " + std::to_string(axes) + " spatial axes: it must be [N, S, S + 1]");
  }
  if (!call.ok()) return {};
  const Trace::LineScope line(theta.loc());
  const Tensor wide = widened(by);
  Shape shape = {by.extent(0)};
  shape.insert(shape.end(), places.begin(), places.end());
  Shape each(shape.size(), 1);
  each[0] = shape[0];
  Tensors out;
  for (int i = 0; i < axes; ++i) {
    Tensor moved = reshape(wide(all, i, axes), each);
    for (int j = 0; j < axes; ++j) {  // coordinate j is along spatial axis axes - 1 - j
      const Dim& extent = places[static_cast<size_t>(axes - 1 - j)];
      const Tensor place = iota(wide.element(), shape, axes - j), size = graph::extent(extent, wide.element());
      const Tensor center = corners ? (2 * place - (size - 1)) / max(size - 1, 1) : (2 * place + 1) / size - 1;
      moved = moved + reshape(wide(all, i, j), each) * center;
    }
    out.push_back(broadcast_to(moved, shape));
  }
  return cast(stack(out, -1), by.element());
}

}  // namespace kiln::graph
