// Resampling, samples at given places, channels as places.
#include <algorithm>
#include <cmath>

#include "aten/import/functions.h"
#include "aten/import/windows.h"

namespace kiln::graph::aten {
namespace {

// --- resampling ---

ResizeMode mode_of(std::string_view name) {
  if (name.find("nearest") != std::string_view::npos) return ResizeMode::kNearest;
  return name.find("cubic") != std::string_view::npos ? ResizeMode::kCubic : ResizeMode::kLinear;
}

// The size, of what scale_factors say where it is not given.
Shape output_size(Arguments& a, const Shape& spatial) {
  if (a.has("output_size") || !a.has("scale_factors")) return a.shape("output_size");
  Shape out;
  const std::vector<double> factors = a.reals("scale_factors");
  for (size_t i = 0; i < spatial.size() && i < factors.size(); ++i) {
    const auto n = known(spatial[i]);
    const double factor = factors[i];
    if (n) {
      out.emplace_back(static_cast<int64_t>(std::floor(as_double(*n) * factor)));
    } else if (factor == std::floor(factor)) {
      out.push_back(spatial[i] * static_cast<int64_t>(factor));
    } else {
      a.fail("a factor that is no whole number, of an extent that is known when the graph runs");
    }
  }
  return out;
}

// The factors that are given, by axis; none where not all are.
std::vector<double> factors_of(Arguments& a, size_t axes) {
  std::vector<double> out;
  if (a.has("scale_factors")) out = a.reals("scale_factors");
  for (const char* name : {"scales_d", "scales_h", "scales_w", "scales"}) {
    if (a.has(name)) out.push_back(a.real(name));
  }
  return out.size() == axes ? out : std::vector<double>();
}

// Whether they say other places than the extents do.
bool differ(const std::vector<double>& factors, const Shape& from, const Shape& to) {
  for (size_t i = 0; i < factors.size() && i < from.size() && i < to.size(); ++i) {
    const auto n = known(from[i]), m = known(to[i]);
    if (n && m && as_double(*n) * factors[i] != as_double(*m)) return true;
  }
  return false;
}

// floor((i + shift)·n/out), or by the factor, of each axis.
Tensor nearest(const Tensor& x, const Shape& size, const std::vector<double>& factors, double shift) {
  Tensor y = x;
  for (size_t i = 0; i < size.size(); ++i) {
    const int axis = x.rank() - static_cast<int>(size.size()) + static_cast<int>(i);
    const Dim n = x.extent(axis);
    const Tensor line = iota(f32, {size[i]}, 0) + shift;
    const Tensor step =
        factors.empty() ? graph::extent(n, f32) / graph::extent(size[i], f32) : full({}, 1 / factors[i], f32);
    y = take(y, min(as(floor(line * step), i64), n - 1), axis);
  }
  return y;
}

// Factors that do not give a whole number of places say where they lie, which is no option of the op.
void check_factors(Arguments& a, const Shape& from, const Shape& to, bool corners) {
  if (!corners && differ(factors_of(a, from.size()), from, to)) {
    a.fail("scale factors that do not give whole extents, and so other places");
  }
}

Results resized(Arguments& a) {
  const Tensor x = a.tensor(a.has("input") ? "input" : "self");
  if (!a.ok()) return {};
  const Shape spatial = spatial_of(x, std::max(x.rank() - 2, 0));
  const Shape size = output_size(a, spatial);
  const bool corners = a.flag("align_corners", false);
  if (a.ok() && size.size() != spatial.size()) a.fail("a size of another number of axes");
  if (!a.ok()) return {};
  const bool exact = a.base().find("exact") != std::string_view::npos;
  if (mode_of(a.base()) == ResizeMode::kNearest) {
    const auto factors = factors_of(a, spatial.size());
    if (exact || differ(factors, spatial, size)) return {nearest(x, size, factors, exact ? 0.5 : 0)};
  }
  check_factors(a, spatial, size, corners);
  return {a.ok() ? resize(x, size, mode_of(a.base()), corners) : Tensor()};
}

Results resized_backward(Arguments& a) {
  const Tensor g = a.tensor("grad_output");
  const Shape size = a.shape("input_size");
  const bool corners = a.flag("align_corners", false);
  if (a.ok() && (g.rank() < 3 || size.size() != static_cast<size_t>(g.rank()))) a.fail("`input_size` of another rank");
  if (!a.ok()) return {};
  const Shape spatial(size.begin() + 2, size.end());
  check_factors(a, spatial, spatial_of(g, g.rank() - 2), corners);
  return {a.ok() ? resize_spread(g, spatial, mode_of(a.base()), corners) : Tensor()};
}

// --- samples at given places ---

// Of a plane [N, C, H, W] at places [N, h, w] in elements; 0 outside.
struct Plane {
  Tensor x;
  Dim height, width;

  Tensor at(const Tensor& py, const Tensor& px) const {
    const Tensor iy = as(py, i64), ix = as(px, i64);
    const Tensor inside = (iy >= 0) & (iy < height) & (ix >= 0) & (ix < width);
    const Tensor image = broadcast_to(reshape(iota(i64, {x.extent(0)}, 0), {x.extent(0), 1, 1}), iy.shape());
    const Tensor y = index(x, {image, min(max(iy, 0), height - 1), min(max(ix, 0), width - 1)}, {0, 2, 3});
    return where(reshape(inside, inserted(inside.shape(), 3, 1)), y, 0);  // [N, h, w, C]
  }
};

enum class Outside : int64_t { kZeros, kBorder, kReflection };

// Back and forth between the edges: with corners the first and last elements, else half an element beyond.
Tensor reflected(const Tensor& p, const Dim& extent, bool corners) {
  const Tensor span = corners ? graph::extent(extent - 1, p.element()) : graph::extent(extent, p.element());
  const double low = corners ? 0 : -0.5;
  const Tensor d = abs(p - low), turns = floor(d / span), rest = d - turns * span;
  const Tensor even = (turns - 2 * floor(turns / 2)) == 0;
  return where(span == 0, 0, where(even, rest + low, span - rest + low));
}

Tensor place_on(const Tensor& grid, int axis, const Dim& extent, Outside outside, bool corners) {
  const Tensor g = reshape(slice(grid, 3, axis, axis + 1), without(grid.shape(), 3));
  const Tensor n = graph::extent(extent, g.element());
  Tensor p = corners ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
  if (outside == Outside::kReflection) p = reflected(p, extent, corners);
  if (outside != Outside::kZeros) p = min(max(p, 0), n - 1);
  return p;
}

// Keys' weights, a = -0.75, of the four neighbours at a fraction.
std::vector<Tensor> cubic_weights(const Tensor& t) {
  constexpr double kA = -0.75;
  const auto near = [&](const Tensor& d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  const auto far = [&](const Tensor& d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

Results sampled(Arguments& a) {
  const Tensor given = a.tensor("input"), grid = wide(a.tensor("grid"));
  const int64_t mode = a.integer("interpolation_mode", 0);
  const auto outside = static_cast<Outside>(a.integer("padding_mode", 0));
  const bool corners = a.flag("align_corners", false);
  if (a.ok() && (given.rank() != 4 || grid.rank() != 4)) a.fail("a plane and a grid of four axes are needed");
  if (mode < 0 || mode > 2) a.fail("`interpolation_mode` is 0, 1 or 2");
  if (!a.ok()) return {};
  const Plane plane{wide(given), given.extent(2), given.extent(3)};
  const bool cubic = mode == 2;
  const Outside edge = cubic ? Outside::kZeros : outside;  // cubic neighbours are brought inside one by one
  const Tensor px = place_on(grid, 0, plane.width, edge, corners), py = place_on(grid, 1, plane.height, edge, corners);
  const auto done = [&](const Tensor& y) { return Results{like(permute(y, {0, 3, 1, 2}), given)}; };
  if (mode == 1) return done(plane.at(round(py), round(px)));
  const Tensor fy = floor(py), fx = floor(px);
  const auto inside = [&](const Tensor& p, const Dim& n) {
    if (!cubic || outside == Outside::kZeros) return p;
    const Tensor q = outside == Outside::kReflection ? reflected(p, n, corners) : p;
    return min(max(q, 0), graph::extent(n - 1, q.element()));
  };
  const auto weights = [&](const Tensor& p, const Tensor& floor_p) -> std::vector<Tensor> {
    const Tensor t = p - floor_p;
    return cubic ? cubic_weights(t) : std::vector<Tensor>{1 - t, t};
  };
  const std::vector<Tensor> wy = weights(py, fy), wx = weights(px, fx);
  const int first = cubic ? -1 : 0;
  Tensor total;
  for (size_t i = 0; i < wy.size(); ++i) {
    for (size_t k = 0; k < wx.size(); ++k) {
      const Tensor w = wy[i] * wx[k];
      const Tensor y = plane.at(inside(fy + (static_cast<int>(i) + first), plane.height),
                                inside(fx + (static_cast<int>(k) + first), plane.width));
      const Tensor part = y * reshape(w, inserted(w.shape(), 3, 1));
      total = total.valid() ? total + part : part;
    }
  }
  return done(total);
}

Results shuffled(Arguments& a) {
  const Tensor x = a.tensor("self");
  const bool back = a.base() == "pixel_unshuffle";
  const int64_t r = a.integer(back ? "downscale_factor" : "upscale_factor");
  if (a.ok() && (x.rank() < 3 || r < 1)) a.fail("a factor of " + std::to_string(r) + ", or fewer than three axes");
  if (!a.ok()) return {};
  const Shape shape = x.shape(), front(shape.begin(), shape.end() - 3);
  const Dim n = product(front), c = x.extent(-3), h = x.extent(-2), w = x.extent(-1);
  Shape out = front;
  if (back) {
    out.insert(out.end(), {c * (r * r), h / r, w / r});
    return {reshape(permute(reshape(x, {n, c, h / r, r, w / r, r}), {0, 1, 3, 5, 2, 4}), out)};
  }
  const Dim k = c / (r * r);
  out.insert(out.end(), {k, h * r, w * r});
  return {reshape(permute(reshape(x, {n, k, r, r, h, w}), {0, 1, 4, 2, 5, 3}), out)};
}

// Channels in groups, dealt out by turns.
Results channels_shuffled(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int64_t groups = a.integer("groups");
  if (a.ok() && (x.rank() < 3 || groups < 1)) a.fail(std::to_string(groups) + " groups, or fewer than three axes");
  if (!a.ok()) return {};
  Shape shape = x.shape(), apart = shape;
  apart[1] = x.extent(1) / groups;
  apart.insert(apart.begin() + 1, groups);
  return {reshape(transpose(reshape(x, apart), 1, 2), shape)};
}

constexpr Function kSamplingFunctions[] = {
    {"_upsample_nearest_exact1d", resized},
    {"_upsample_nearest_exact1d.vec", resized},
    {"_upsample_nearest_exact2d", resized},
    {"_upsample_nearest_exact2d.vec", resized},
    {"_upsample_nearest_exact3d", resized},
    {"_upsample_nearest_exact3d.vec", resized},
    {"channel_shuffle", channels_shuffled},
    {"grid_sampler", sampled},
    {"grid_sampler_2d", sampled},
    {"pixel_shuffle", shuffled},
    {"pixel_unshuffle", shuffled},
    {"upsample_bicubic2d", resized},
    {"upsample_bicubic2d.vec", resized},
    {"upsample_bicubic2d_backward", resized_backward},
    {"upsample_bilinear2d", resized},
    {"upsample_bilinear2d.vec", resized},
    {"upsample_bilinear2d_backward", resized_backward},
    {"upsample_linear1d", resized},
    {"upsample_linear1d.vec", resized},
    {"upsample_linear1d_backward", resized_backward},
    {"upsample_nearest1d", resized},
    {"upsample_nearest1d.vec", resized},
    {"upsample_nearest1d_backward", resized_backward},
    {"upsample_nearest2d", resized},
    {"upsample_nearest2d.vec", resized},
    {"upsample_nearest2d_backward", resized_backward},
    {"upsample_nearest3d", resized},
    {"upsample_nearest3d.vec", resized},
    {"upsample_nearest3d_backward", resized_backward},
    {"upsample_trilinear3d", resized},
    {"upsample_trilinear3d.vec", resized},
    {"upsample_trilinear3d_backward", resized_backward},
};

}  // namespace

std::span<const Function> sampling_functions() { return kSamplingFunctions; }

}  // namespace kiln::graph::aten
