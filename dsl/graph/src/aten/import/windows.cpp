// Pools, resampling, columns, samples at given places.
#include "aten/import/windows.h"

#include <algorithm>
#include <cmath>

#include "aten/import/functions.h"

namespace kiln::graph::aten {

Dim places(const Dim& extent, int64_t size, int64_t stride, int64_t low, int64_t high, int64_t dilation) {
  const Dim span = extent + (low + high - dilation * (size - 1) - 1);
  return (stride == 1 ? span : span / stride) + 1;
}

namespace {

// So much behind the end that the last window, which begins within, is whole.
std::optional<int64_t> ceiled(int64_t n, int64_t size, int64_t stride, int64_t padding, int64_t dilation) {
  if (stride < 1) return std::nullopt;
  const int64_t span = n + 2 * padding - dilation * (size - 1) - 1;
  int64_t out = (span + stride - 1) / stride + 1;
  if ((out - 1) * stride >= n + padding) --out;
  return std::max(padding, (out - 1) * stride + dilation * (size - 1) + 1 - n - padding);
}

}  // namespace

Pool pool_of(Arguments& arguments, const Shape& spatial) {
  const size_t axes = spatial.size();
  Pool out{arguments.repeated("kernel_size", axes),
           {},
           arguments.repeated("padding", axes, 0),
           {},
           arguments.repeated("dilation", axes, 1)};
  const bool strided = arguments.has("stride") && !arguments.shape("stride").empty();
  out.stride = strided ? arguments.repeated("stride", axes) : out.size;
  out.high = out.low;
  for (size_t i = 0; i < axes; ++i) {
    if (out.stride[i] < 1 || out.size[i] < 1) arguments.fail("a window or step below 1");
  }
  if (!arguments.flag("ceil_mode", false)) return out;
  for (size_t i = 0; arguments.ok() && i < axes; ++i) {
    const auto extent = known(spatial[i]);
    if (!extent) {
      if (out.stride[i] != 1) arguments.fail("`ceil_mode` and an extent that is known when the graph runs");
      continue;
    }
    out.high[i] = ceiled(*extent, out.size[i], out.stride[i], out.low[i], out.dilation[i]).value_or(out.low[i]);
    out.wider = out.wider || out.high[i] != out.low[i];
  }
  return out;
}

WindowOptions over_all(const Pool& pool, size_t front) {
  WindowOptions out{pool.size, pool.stride, pool.low, pool.high, pool.dilation};
  for (Ints* each : {&out.size, &out.strides, &out.dilation}) each->insert(each->begin(), front, 1);
  for (Ints* each : {&out.low, &out.high}) each->insert(each->begin(), front, 0);
  return out;
}

namespace {

// [N, C, …] of what may lack N; the last `axes` are spatial.
struct Batched {
  Tensor x;
  bool added;
  Tensor back(const Tensor& y) const { return added ? reshape(y, without(y.shape(), 0)) : y; }
};
Batched batched(Arguments& a, const Tensor& x, int axes) {
  if (a.ok() && x.rank() != axes + 1 && x.rank() != axes + 2) {
    a.fail("a tensor of " + std::to_string(x.rank()) + " axes, of which " + std::to_string(axes) + " are spatial");
  }
  const bool added = x.rank() == axes + 1;
  return {added && a.ok() ? reshape(x, inserted(x.shape(), 0, 1)) : x, added};
}
Shape spatial_of(const Tensor& x, int axes) {
  const Shape shape = x.shape();
  if (shape.size() < static_cast<size_t>(axes)) return {};
  return {shape.end() - axes, shape.end()};
}

// "avg_pool2d" has 2.
int axes_of(std::string_view name) {
  const size_t at = name.find_first_of("123");
  return at == std::string_view::npos ? 2 : name[at] - '0';
}

// How many elements each window has; padding counts, or does not; what ceil_mode adds does not.
Tensor counted_elements(const Tensor& x, Pool by, bool counts) {
  Tensor ones = full(x.shape(), 1, x.element());
  if (counts) {
    Shape low(2, Dim(0));
    low.insert(low.end(), by.low.begin(), by.low.end());
    ones = pad(ones, low, low, 1);
    for (size_t i = 0; i < by.low.size(); ++i) {
      by.high[i] -= by.low[i];
      by.low[i] = 0;
    }
  }
  return window(ones, WindowKind::kSum, over_all(by, 2));
}

Results averages(Arguments& a) {
  const int axes = axes_of(a.base());
  const Batched given = batched(a, a.tensor("self"), axes);
  if (!a.ok()) return {};
  Pool by = pool_of(a, spatial_of(given.x, axes));
  bool counts = a.flag("count_include_pad", true);
  const int64_t divisor = a.integer("divisor_override", 0);
  if (!a.ok()) return {};
  Tensor x = given.x;
  if (!is_float(x)) {  // the quotients truncated
    const Tensor y = window(x, WindowKind::kSum, over_all(by, 2));
    if (divisor != 0) return {given.back(y / divisor)};
    return {given.back(y / counted_elements(x, by, counts))};
  }
  if (divisor != 0) {
    const Tensor y = window(wide(x), WindowKind::kSum, over_all(by, 2)) / as_double(divisor);
    return {given.back(like(y, x))};
  }
  if (by.wider && counts) {  // padding counts, what ceil_mode adds does not
    Shape low(2, Dim(0));
    low.insert(low.end(), by.low.begin(), by.low.end());
    x = pad(x, low, low, 0);
    for (size_t i = 0; i < by.low.size(); ++i) {
      by.high[i] -= by.low[i];
      by.low[i] = 0;
    }
    counts = false;
  }
  return {given.back(avg_pool(x, {by.size, by.stride, by.low, by.high, {}}, counts))};
}

// [out, n]: what each place counts in each average, 1/count between floor(i·n/out) and ceil((i + 1)·n/out).
Tensor averaging(int64_t n, int64_t out, ElementType type) {
  const Shape shape = {out, n};
  const Tensor i = iota(i64, shape, 0), at = iota(i64, shape, 1);
  const Tensor start = i * n / out, end = ((i + 1) * n + (out - 1)) / out;
  return where((at >= start) & (at < end), 1 / as(end - start, type), full({}, 0, type));
}

struct Adapted {
  int64_t from, to;
};

// Each of the last axes times its matrix of averages, or its transpose.
Tensor by_matrices(Tensor x, const std::vector<Adapted>& sizes, bool turned) {
  int axis = x.rank() - static_cast<int>(sizes.size());
  for (const auto& [from, to] : sizes) {
    const Tensor matrix = averaging(from, to, x.element());
    const Tensor y = dot(x, matrix, {{}, {}, {axis}, {turned ? 0 : 1}}, x.element());
    x = move_axis(y, y.rank() - 1, axis++);
  }
  return x;
}

// Known extents before and after; none where one is not.
std::vector<Adapted> adapted(Arguments& a, const Shape& from, const Shape& to) {
  std::vector<Adapted> out;
  for (size_t i = 0; i < from.size() && i < to.size(); ++i) {
    const auto n = known(from[i]), m = known(to[i]);
    if (!n || !m) a.fail("extents that are known when the graph runs, to another number than 1");
    if (a.ok() && *m < 1) a.fail("an extent of " + std::to_string(*m));
    out.push_back({n.value_or(1), m.value_or(1)});
  }
  return out;
}

bool divides(const std::vector<Adapted>& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](const Adapted& each) { return each.from % each.to == 0; });
}

Results adaptive_averages(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int axes = axes_of(a.base());
  Shape to;
  const Shape from = spatial_of(x, axes);
  // None and -1 keep an extent.
  const Shape given = a.shape("output_size");
  for (size_t i = 0; i < from.size(); ++i) {
    const Dim each = given.size() == 1 ? given[0] : i < given.size() ? given[i] : Dim(-1);
    to.push_back(known(each) == -1 ? from[i] : each);
  }
  if (!a.ok() || same(from, to)) return {x};
  const bool to_one = std::all_of(to.begin(), to.end(), [](const Dim& each) { return same(each, 1); });
  if (to_one) {
    Axes last;
    for (int i = 0; i < axes; ++i) last.push_back(i - axes);
    return {mean(x, last, true)};
  }
  const auto sizes = adapted(a, from, to);
  const Batched all = batched(a, x, axes);
  if (!a.ok()) return {};
  if (!divides(sizes)) return {all.back(by_matrices(all.x, sizes, false))};
  Ints parts;
  for (const auto& [n, m] : sizes) parts.push_back(n / m);
  return {all.back(avg_pool(all.x, {parts, parts, Ints(parts.size(), 0), Ints(parts.size(), 0), {}}))};
}

Results adaptive_averages_backward(Arguments& a) {
  const Tensor g = a.tensor("grad_output"), x = a.tensor("self");
  const int axes = axes_of(a.base());
  const Batched all = batched(a, x, axes), grads = batched(a, g, axes);
  if (!a.ok()) return {};
  const auto sizes = adapted(a, spatial_of(x, axes), spatial_of(g, axes));
  if (!a.ok()) return {};
  if (!divides(sizes)) return {all.back(by_matrices(grads.x, sizes, true))};
  Pool by;
  double count = 1;
  for (const auto& [n, m] : sizes) {
    by.size.push_back(n / m);
    count *= as_double(n / m);
  }
  by.stride = by.size;
  by.low = by.high = Ints(by.size.size(), 0);
  by.dilation = Ints(by.size.size(), 1);
  return {all.back(window_spread(all.x, grads.x / count, WindowKind::kSum, over_all(by, 2)))};
}

Results averages_backward(Arguments& a) {
  const Tensor g = a.tensor("grad_output"), x = a.tensor("self");
  const int axes = axes_of(a.base());
  const Batched all = batched(a, x, axes), grads = batched(a, g, axes);
  if (!a.ok()) return {};
  const Pool by = pool_of(a, spatial_of(x, axes));
  const bool counts = a.flag("count_include_pad", true);
  const int64_t divisor = a.integer("divisor_override", 0);
  if (!a.ok()) return {};
  double size = 1;
  for (const int64_t each : by.size) size *= as_double(each);
  const WindowOptions windows = over_all(by, 2);
  Tensor scaled;
  if (divisor != 0 || (counts && !by.wider)) {
    scaled = grads.x / (divisor != 0 ? as_double(divisor) : size);
  } else {
    scaled = grads.x / counted_elements(all.x, by, counts);
  }
  return {all.back(window_spread(all.x, scaled, WindowKind::kSum, windows))};
}

// The greatest of each window, and its row-major number among the last axes.
Results greatest(Arguments& a) {
  const int axes = axes_of(a.base());
  const Batched all = batched(a, a.tensor("self"), axes);
  if (!a.ok()) return {};
  const Shape spatial = spatial_of(all.x, axes);
  const Pool by = pool_of(a, spatial);
  if (!a.ok()) return {};
  const Tensor y = max_pool(all.x, {by.size, by.stride, by.low, by.high, by.dilation});
  const bool with_places = a.base().ends_with("with_indices");
  if (!with_places || !a.wants(1)) return {all.back(y)};
  Shape plane = {1, 1};
  plane.insert(plane.end(), spatial.begin(), spatial.end());
  const Tensor numbers = broadcast_to(reshape(iota(i64, {product(spatial)}, 0), plane), all.x.shape());
  return {all.back(y), all.back(window_pick(all.x, numbers, PickKind::kMax, over_all(by, 2)))};
}

Results greatest_backward(Arguments& a) {
  const Tensor g = a.tensor("grad_output"), x = a.tensor("self"), places = a.tensor("indices");
  const int axes = axes_of(a.base());
  if (a.ok() && (x.rank() <= axes || g.rank() != x.rank() || places.rank() != x.rank()))
    a.fail("tensors of other axes");
  if (!a.ok()) return {};
  const Shape shape = x.shape(), front(shape.begin(), shape.end() - axes);
  const auto planes = [&](const Tensor& each) { return Shape{product(front), product(spatial_of(each, axes))}; };
  const Tensor zero = full(planes(x), 0, x.element());
  return {reshape(scatter(zero, reshape(places, planes(g)), reshape(g, planes(g)), 1, ScatterKind::kAdd), shape)};
}

// Of a window that may differ from place to place: start floor(i·n/out), end ceil((i + 1)·n/out).
Results adaptive_greatest(Arguments& a) {
  const int axes = axes_of(a.base());
  const Batched all = batched(a, a.tensor("self"), axes);
  if (!a.ok()) return {};
  const Shape spatial = spatial_of(all.x, axes);
  Shape to = a.shape("output_size");
  if (to.size() == 1) to.resize(spatial.size(), to[0]);
  for (size_t i = 0; i < to.size() && i < spatial.size(); ++i) to[i] = known(to[i]) == -1 ? spatial[i] : to[i];
  const auto sizes = adapted(a, spatial, to);
  if (a.ok() && !divides(sizes)) a.fail("extents that `output_size` does not divide");
  if (!a.ok()) return {};
  Pool by{{}, {}, Ints(sizes.size(), 0), Ints(sizes.size(), 0), Ints(sizes.size(), 1)};
  for (const auto& [n, m] : sizes) by.size.push_back(n / m);
  by.stride = by.size;
  const Tensor y = max_pool(all.x, {by.size, by.stride, by.low, by.high, by.dilation});
  if (!a.wants(1)) return {all.back(y)};
  Shape plane = {1, 1};
  plane.insert(plane.end(), spatial.begin(), spatial.end());
  const Tensor numbers = broadcast_to(reshape(iota(i64, {product(spatial)}, 0), plane), all.x.shape());
  return {all.back(y), all.back(window_pick(all.x, numbers, PickKind::kMax, over_all(by, 2)))};
}

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

// Factors that do not give a whole number of places say where they lie, which is no option of the op.
void check_factors(Arguments& a, const Shape& from, const Shape& to, bool corners) {
  if (corners) return;
  std::vector<double> factors;
  if (a.has("scale_factors")) factors = a.reals("scale_factors");
  for (const char* name : {"scales_d", "scales_h", "scales_w", "scales"}) {
    if (a.has(name)) factors.push_back(a.real(name));
  }
  if (factors.size() != from.size()) return;
  for (size_t i = 0; i < from.size() && i < to.size(); ++i) {
    const auto n = known(from[i]), m = known(to[i]);
    if (n && m && as_double(*n) * factors[i] != as_double(*m)) {
      a.fail("a scale factor of " + std::to_string(factors[i]) + ", which does not give a whole extent");
    }
  }
}

Results resized(Arguments& a) {
  const Tensor x = a.tensor(a.has("input") ? "input" : "self");
  if (!a.ok()) return {};
  const Shape spatial = spatial_of(x, std::max(x.rank() - 2, 0));
  const Shape size = output_size(a, spatial);
  const bool corners = a.flag("align_corners", false);
  check_factors(a, spatial, size, corners);
  if (a.ok() && size.size() != spatial.size()) a.fail("a size of another number of axes");
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

// --- columns ---

// One filter for each place of a window: that place's element.
Tensor pickers(const Pool& by, ElementType type) {
  int64_t count = 1;
  Shape windows = {1, 1};
  for (const int64_t each : by.size) {
    count *= each;
    windows.emplace_back(each);
  }
  windows[0] = count;
  const Shape square = {count, count};
  return reshape(as(iota(i64, square, 0) == iota(i64, square, 1), type), windows);
}

ConvOptions as_conv(const Pool& by) { return {by.stride, by.low, by.high, by.dilation, 1}; }

// Of one channel at a time, with the channels in N.
Results columns(Arguments& a) {
  const Batched all = batched(a, a.tensor("self"), 2);
  if (!a.ok()) return {};
  const Pool by = pool_of(a, spatial_of(all.x, 2));
  if (!a.ok()) return {};
  const Tensor x = all.x;
  const Tensor lone = reshape(x, {x.extent(0) * x.extent(1), 1, x.extent(2), x.extent(3)});
  const Tensor y = conv(lone, pickers(by, x.element()), as_conv(by));
  const Dim k = y.extent(1);
  return {all.back(reshape(y, {x.extent(0), x.extent(1) * k, y.extent(2) * y.extent(3)}))};
}

Results from_columns(Arguments& a) {
  const Tensor given = a.tensor(a.has("self") ? "self" : "grad_output");
  const Shape to = a.shape(a.has("output_size") ? "output_size" : "input_size");
  if (a.ok() && (to.size() != 2 || given.rank() < 2 || given.rank() > 3)) a.fail("not columns of two spatial axes");
  if (!a.ok()) return {};
  const Tensor x = given.rank() == 2 ? reshape(given, inserted(given.shape(), 0, 1)) : given;
  const Pool by = pool_of(a, to);
  if (!a.ok()) return {};
  const int64_t count = by.size[0] * by.size[1];
  const Dim channels = x.extent(1) / count;
  Shape parted = {x.extent(0) * channels, count};
  for (size_t i = 0; i < 2; ++i) {
    parted.push_back(places(to[i], by.size[i], by.stride[i], by.low[i], by.high[i], by.dilation[i]));
  }
  const Tensor y = conv_input(reshape(x, parted), pickers(by, x.element()), to, as_conv(by));
  Shape out = {x.extent(0), channels, to[0], to[1]};
  if (given.rank() == 2) out.erase(out.begin());
  return {reshape(y, out)};
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

constexpr Function kFunctions[] = {
    {"_adaptive_avg_pool2d", adaptive_averages},
    {"_adaptive_avg_pool2d_backward", adaptive_averages_backward},
    {"_adaptive_avg_pool3d", adaptive_averages},
    {"_adaptive_avg_pool3d_backward", adaptive_averages_backward},
    {"adaptive_avg_pool1d", adaptive_averages},
    {"adaptive_avg_pool2d", adaptive_averages},
    {"adaptive_avg_pool3d", adaptive_averages},
    {"adaptive_max_pool1d", adaptive_greatest},
    {"adaptive_max_pool2d", adaptive_greatest},
    {"adaptive_max_pool3d", adaptive_greatest},
    {"avg_pool1d", averages},
    {"avg_pool2d", averages},
    {"avg_pool2d_backward", averages_backward},
    {"avg_pool3d", averages},
    {"avg_pool3d_backward", averages_backward},
    {"channel_shuffle", channels_shuffled},
    {"col2im", from_columns},
    {"grid_sampler", sampled},
    {"grid_sampler_2d", sampled},
    {"im2col", columns},
    {"max_pool1d", greatest},
    {"max_pool1d_with_indices", greatest},
    {"max_pool2d", greatest},
    {"max_pool2d_with_indices", greatest},
    {"max_pool2d_with_indices_backward", greatest_backward},
    {"max_pool3d", greatest},
    {"max_pool3d_with_indices", greatest},
    {"max_pool3d_with_indices_backward", greatest_backward},
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

std::span<const Function> window_functions() { return kFunctions; }

}  // namespace kiln::graph::aten
