// Pools and columns.
#include "aten/import/windows.h"

#include <algorithm>
#include <cmath>

#include "aten/import/functions.h"

namespace kiln::graph::aten {

Dim places(const Dim& extent, int64_t size, int64_t stride, int64_t low, int64_t high, int64_t dilation) {
  const Dim span = extent + (low + high - dilation * (size - 1) - 1);
  return (stride == 1 ? span : span / stride) + 1;
}

Shape spatial_of(const Tensor& x, int axes) {
  const Shape shape = x.shape();
  if (shape.size() < static_cast<size_t>(axes)) return {};
  return {shape.end() - axes, shape.end()};
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

// Of each average's places along an axis, [to, most of one]: those that a shorter one lacks are its last again.
Tensor adapted_places(const Adapted& size) {
  int64_t most = 1;
  for (int64_t i = 0; i < size.to; ++i) {
    most = std::max(most, ((i + 1) * size.from + size.to - 1) / size.to - i * size.from / size.to);
  }
  const Shape shape = {size.to, most};
  const Tensor i = iota(i64, shape, 0), start = i * size.from / size.to;
  const Tensor end = ((i + 1) * size.from + (size.to - 1)) / size.to;
  return min(start + iota(i64, shape, 1), end - 1);
}

// The greatest between floor(i·n/out) and ceil((i + 1)·n/out), and its row-major number among the last axes.
Results adaptive_greatest(Arguments& a) {
  const int axes = axes_of(a.base());
  const Batched all = batched(a, a.tensor("self"), axes);
  if (!a.ok()) return {};
  const Shape spatial = spatial_of(all.x, axes);
  Shape to = a.shape("output_size");
  to.resize(spatial.size(), to.empty() ? Dim(1) : to[0]);
  for (size_t i = 0; i < to.size(); ++i) to[i] = known(to[i]) == -1 ? spatial[i] : to[i];
  const auto sizes = adapted(a, spatial, to);
  if (!a.ok()) return {};
  // Each axis as its places and those of one window; then the windows' axes as one, the last.
  Tensor x = all.x, number = full({}, 0, i64);
  Shape whole = {x.extent(0), x.extent(1)}, window;
  Axes order = {0, 1}, inner;
  for (int i = 0; i < axes; ++i) {
    const Tensor places = adapted_places(sizes[static_cast<size_t>(i)]);
    x = take(x, places, 2 + 2 * i);
    whole.push_back(places.extent(0));
    window.push_back(places.extent(1));
    order.push_back(2 + 2 * i);
    inner.push_back(3 + 2 * i);
    Shape beside(static_cast<size_t>(2 * axes), Dim(1));
    beside[static_cast<size_t>(i)] = places.extent(0);
    beside[static_cast<size_t>(axes + i)] = places.extent(1);
    number = number * spatial[static_cast<size_t>(i)] + reshape(places, beside);
  }
  order.insert(order.end(), inner.begin(), inner.end());
  Shape rows = whole, plane(whole.begin() + 2, whole.end());
  rows.push_back(product(window));
  plane.push_back(product(window));
  const Tensor windows = reshape(permute(x, order), rows);
  const Tensor y = reduce_max(windows, {-1});
  if (!a.wants(1)) return {all.back(y)};
  const Tensor at = argmax(windows, -1, true);
  const Tensor places = gather(broadcast_to(reshape(number, plane), rows), at, -1);
  return {all.back(y), all.back(reshape(places, whole))};
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

constexpr Function kWindowFunctions[] = {
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
    {"col2im", from_columns},
    {"im2col", columns},
    {"max_pool1d", greatest},
    {"max_pool1d_with_indices", greatest},
    {"max_pool2d", greatest},
    {"max_pool2d_with_indices", greatest},
    {"max_pool2d_with_indices_backward", greatest_backward},
    {"max_pool3d", greatest},
    {"max_pool3d_with_indices", greatest},
    {"max_pool3d_with_indices_backward", greatest_backward},
};

}  // namespace

std::span<const Function> window_functions() { return kWindowFunctions; }

}  // namespace kiln::graph::aten
