// Statistics, softmax and norms.
#include <cmath>
#include <numeric>

#include "decompose/decompositions.h"

namespace kiln::graph {
namespace {

Axes last_axes(const Tensor& x, int64_t count) {
  Axes out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), x.rank() - static_cast<int>(count));
  return out;
}

struct Moments {
  Tensor mean, variance;  // with the axes kept
};

// The variance from the distances, which loses nothing where the mean is large.
Moments moments(const Tensor& x, const Axes& axes) {
  const Tensor count = count_of(x, axes, x.element());
  const Tensor mean = sum(x, axes, true) / count;
  return {mean, sum(square(x - mean), axes, true) / count};
}

// Less the greatest along the axis, so that no exponent is above 0.
Tensor shifted(const Tensor& x, const Axes& axes) {
  const Tensor most = stop_gradient(reduce_max(x, axes, true));
  return x - most;
}

// The greatest, 0 where it is infinite.
Tensor finite_max(const Tensor& x, const Axes& axes) {
  const Tensor most = stop_gradient(reduce_max(x, axes, true));
  return where(isinf(most), 0.0, most);
}

// weight and bias of channels, where they are.
Tensor scaled_by_channel(const Composite& c, Tensor y, size_t weight) {
  const int rank = y.rank();
  if (c.has(weight)) y = y * by_channel(cast(c[weight], y.element()), rank);
  if (c.has(weight + 1)) y = y + by_channel(cast(c[weight + 1], y.element()), rank);
  return y;
}

// All axes but that of the channels.
Axes but_channels(const Tensor& x) {
  Axes out;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis != 1) out.push_back(axis);
  }
  return out;
}

}  // namespace

KILN_DECOMPOSITION(mean) {
  const Axes axes = axes_of(c, 0);
  const Tensor x = widened(c[0]);
  if (axes.empty()) return {c[0]};
  return {cast(sum(x, axes, c.flag(1)) / count_of(x, axes, x.element()), c[0].element())};
}

KILN_DECOMPOSITION(variance) {
  const Axes axes = axes_of(c, 0);
  const Tensor x = widened(c[0]);
  const Tensor count = count_of(x, axes, x.element());
  const Tensor mean = axes.empty() ? x : sum(x, axes, true) / count;
  const Tensor squares = square(x - mean);
  const Tensor total = axes.empty() ? squares : sum(squares, axes, c.flag(2));
  // Of no more elements than the correction: over 0.
  Tensor divisor = count - filled(count, static_cast<double>(c.integer(1)));
  if (!always_at_most(c.integer(1), size_along(x, axes))) divisor = max(divisor, 0.0);
  return {cast(total / divisor, c[0].element())};
}

KILN_DECOMPOSITION(logsumexp) {
  const Axes axes = axes_of(c, 0);
  const Tensor x = widened(c[0]);
  if (axes.empty()) return {c[0]};
  const Tensor most = finite_max(x, axes);
  const Tensor sums = log(sum(exp(x - most), axes, true)) + most;
  return {cast(c.flag(1) ? sums : squeeze(sums, axes), c[0].element())};
}

KILN_DECOMPOSITION(softmax) {
  const Axes axes = {static_cast<int>(c.integer(0))};
  const Tensor e = exp(shifted(widened(c[0]), axes));
  return {cast(e / sum(e, axes, true), c[0].element())};
}

KILN_DECOMPOSITION(log_softmax) {
  const Axes axes = {static_cast<int>(c.integer(0))};
  const Tensor x = shifted(widened(c[0]), axes);
  return {cast(x - log(sum(exp(x), axes, true)), c[0].element())};
}

KILN_DECOMPOSITION(layer_norm) {
  const Tensor x = widened(c[0]);
  const auto [mean, variance] = moments(x, last_axes(x, c.integer(0)));
  Tensor y = (x - mean) * rsqrt(variance + filled(variance, c.number(1)));
  if (c.has(1)) y = y * cast(c[1], x.element());
  if (c.has(2)) y = y + cast(c[2], x.element());
  return {cast(y, c[0].element())};
}

KILN_DECOMPOSITION(rms_norm) {
  const Tensor x = widened(c[0]);
  const Axes axes = last_axes(x, c.integer(0));
  const Tensor squares = sum(square(x), axes, true) / count_of(x, axes, x.element());
  Tensor y = x * rsqrt(squares + filled(squares, c.number(1)));
  if (c.has(1)) y = y * cast(c[1], x.element());
  return {cast(y, c[0].element())};
}

KILN_DECOMPOSITION(group_norm) {
  const Tensor x = widened(c[0]);
  const int64_t groups = c.integer(0);
  Shape cut = {x.extent(0), groups, exact_part(x.extent(1), groups)};
  for (int axis = 2; axis < x.rank(); ++axis) cut.push_back(x.extent(axis));
  const Tensor parts = reshape(x, cut);
  const auto [mean, variance] = moments(parts, last_axes(parts, parts.rank() - 2));
  const Tensor y = reshape((parts - mean) * rsqrt(variance + filled(variance, c.number(1))), x.shape());
  return {cast(scaled_by_channel(c, y, 1), c[0].element())};
}

KILN_DECOMPOSITION(batch_norm) {
  const Tensor x = widened(c[0]);
  const Tensor mean = by_channel(cast(c[1], x.element()), x.rank());
  const Tensor variance = by_channel(cast(c[2], x.element()), x.rank());
  const Tensor y = (x - mean) * rsqrt(variance + filled(variance, c.number(0)));
  return {cast(scaled_by_channel(c, y, 3), c[0].element())};
}

KILN_DECOMPOSITION(batch_norm_training) {
  const Tensor x = widened(c[0]);
  const Axes axes = but_channels(x);
  const auto [mean, variance] = moments(x, axes);
  const Tensor y = (x - mean) * rsqrt(variance + filled(variance, c.number(0)));
  // The running variance is of the population: over the count less 1.
  const Tensor count = count_of(x, axes, x.element());
  const Tensor unbiased = squeeze(variance, axes) * (count / max(count - 1, 1));
  const double momentum = c.number(1);
  const auto moved = [&](const Tensor& running, const Tensor& now) {
    const Tensor wide = widened(running);
    return cast(wide * (1 - momentum) + cast(now, wide.element()) * momentum, running.element());
  };
  return {cast(scaled_by_channel(c, y, 3), c[0].element()), moved(c[1], squeeze(mean, axes)), moved(c[2], unbiased)};
}

KILN_DECOMPOSITION(rope) {
  const Tensor x = widened(c[0]);
  const Tensor cos = cast(c[1], x.element()), sin = cast(c[2], x.element());
  const Dim half = c[1].extent(1);
  if (!c.flag(0)) {
    const Tensor a = slice(x, -1, 0, half), b = slice(x, -1, half, half * 2);
    return {cast(cat({a * cos - b * sin, b * cos + a * sin}, -1), c[0].element())};
  }
  Shape pairs = x.shape();
  pairs.back() = half;
  pairs.push_back(2);
  const Tensor cut = reshape(x, pairs);
  const Tensor a = cut(rest, 0), b = cut(rest, 1);
  return {cast(reshape(stack({a * cos - b * sin, b * cos + a * sin}, -1), x.shape()), c[0].element())};
}

KILN_DECOMPOSITION(dropout) {
  const double p = c.number(0);
  const Tensor x = widened(c[0]);
  const Tensor words = philox(c[1], c[2], x.shape());
  // The least word that is p·2³² or more; for a p next to 1 there is none.
  const double least = std::ceil(p * 4294967296.0);
  const Tensor kept = least < 4294967296.0 ? words >= static_cast<uint32_t>(least) : zeros(i1, x.shape());
  return {cast(where(kept, x / filled(x, 1 - p), 0.0), c[0].element())};
}

KILN_DECOMPOSITION(triangle) {
  const Tensor& x = c[0];
  const Tensor row = iota(i64, {x.extent(-2), x.extent(-1)}, 0), column = iota(i64, {x.extent(-2), x.extent(-1)}, 1);
  const Tensor above = column - row;
  const Tensor inside = c.flag(1) ? above >= c.integer(0) : above <= c.integer(0);
  return {where(broadcast_to(inside, x.shape()), x, zeros_like(x))};
}

}  // namespace kiln::graph
