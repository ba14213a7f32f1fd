// Convolutions as products over what their windows see, group by group.
#include "spell_out/spellings.h"
#include "trace/trace.h"

namespace kiln::graph {
namespace {

struct ConvAttrs {
  const std::vector<int64_t>&strides, &low, &high, &dilation;
  int64_t groups;

  ConvAttrs(const AttrList& attrs, size_t first)
      : strides(ints_attr(attrs, first)),
        low(ints_attr(attrs, first + 1)),
        high(ints_attr(attrs, first + 2)),
        dilation(ints_attr(attrs, first + 3)),
        groups(int_attr(attrs, first + 4)) {}
};

// Windows over the spatial axes, of tensors whose first spatial axis is `first`.
std::vector<WindowAxis> spatial_axes(const ConvAttrs& attrs, const std::vector<int64_t>& window, const Shape& outs,
                                     int first) {
  std::vector<WindowAxis> out;
  for (size_t i = 0; i < window.size(); ++i) {
    out.push_back({first + static_cast<int>(i), outs[i], window[i], attrs.strides[i], attrs.low[i], attrs.high[i],
                   attrs.dilation[i]});
  }
  return out;
}

// [A, C, …] as [A, groups, C/groups, …].
Tensor in_groups(const Tensor& x, int axis, int64_t groups) {
  Shape shape = x.shape();
  const auto at = static_cast<size_t>(axis);
  shape[at] = exact_part(shape[at], Dim(groups));
  shape.insert(shape.begin() + axis, Dim(groups));
  return reshape(x, shape);
}

Axes counting(int first, int count) {
  Axes out;
  for (int i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

std::vector<int64_t> window_of(const Tensor& w) {
  std::vector<int64_t> out;
  for (int i = 2; i < w.rank(); ++i) out.push_back(w.extent(i).expr().as_constant().value_or(1));
  return out;
}

Tensor zero_of(const Tensor& x) { return full({}, 0, x.element()); }

Axes joined(Axes a, const Axes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Of windows that lie side by side: those that go the other way, over what they gave.
std::vector<WindowAxis> turned(std::vector<WindowAxis> axes, const Shape& extents) {
  for (size_t i = 0; i < axes.size(); ++i) {
    WindowAxis& axis = axes[i];
    const int64_t length = axis.dilation * (axis.size - 1);
    axis = {axis.axis, extents[i], axis.size, 1, length - axis.low, length - axis.high, axis.dilation};
  }
  return axes;
}

// [O…, S…, N, G, C]. Edges come before groups: places beyond them are no channels of others then.
Tensor seen_in_groups(const Tensor& x, const ConvAttrs& attrs, const std::vector<WindowAxis>& axes) {
  const Tensor seen = windows_of(x, axes, zero_of(x));
  return in_groups(seen, seen.rank() - 1, attrs.groups);
}

// Filters that are short enough to be written out: of a channel each, or of few channels that all of them see.
bool is_short(const Tensor& x, const Tensor& w, const ConvAttrs& attrs, const std::vector<int64_t>& window) {
  constexpr int64_t kMost = 64;
  const auto channels = w.extent(1).expr().as_constant(), filters = w.extent(0).expr().as_constant();
  if (!channels || !filters || !dsl::is_float(x.element())) return false;
  int64_t elements = *channels;
  for (const int64_t size : window) elements *= size;
  const bool is_by_channel = attrs.groups > 1 && *channels == 1 && *filters == attrs.groups;
  const bool has_few = attrs.groups == 1 && *channels < 16;
  return elements <= kMost && (is_by_channel || has_few);
}

// The sum over taps and channels of what each sees, times its weights: no product is so narrow.
Tensor sum_of_taps(const Tensor& x, const Tensor& w, const std::vector<WindowAxis>& axes) {
  const ElementType sum_type = x.element() == f64 ? f64 : f32;
  const int64_t channels = *w.extent(1).expr().as_constant();
  const Tensor wide = with_edges(x, axes, zero_of(x));
  Shape by_channel(axes.size() + 1, Dim(1));
  by_channel[0] = w.extent(0);
  Tensor out;
  for_each_place(axes, [&](const std::vector<int64_t>& tap) {
    const Tensor seen = seen_at(wide, axes, tap);
    Tensor weight = w;
    for (size_t i = 0; i < axes.size(); ++i) weight = slice(weight, axes[i].axis, tap[i], tap[i] + 1);
    for (int64_t c = 0; c < channels; ++c) {
      const Tensor one = channels == 1 ? seen : slice(seen, 1, c, c + 1);
      const Tensor filters = reshape(slice(weight, 1, c, c + 1), by_channel);
      const Tensor part = cast(one, sum_type) * cast(filters, sum_type);
      out = out.valid() ? out + part : part;
    }
  });
  return cast(out, x.element());
}

}  // namespace

std::vector<Tensor> spell_conv(const Composite& c) {
  const Tensor &x = c[0], &w = c[1];
  const ConvAttrs attrs(c.attrs, 0);
  const std::vector<int64_t> window = window_of(w);
  const int spatial = static_cast<int>(window.size());
  Shape outs;
  for (int i = 0; i < spatial; ++i) {
    const auto at = static_cast<size_t>(i);
    outs.push_back(window_count(x.extent(2 + i), window[at], attrs.strides[at], attrs.low[at], attrs.high[at],
                                attrs.dilation[at]));
  }
  // [O…, S…, N, G, C]
  const std::vector<WindowAxis> axes = spatial_axes(attrs, window, outs, 2);
  if (is_short(x, w, attrs, window)) return {sum_of_taps(x, w, axes)};
  const Tensor seen = seen_in_groups(x, attrs, axes);
  const Tensor weights = in_groups(w, 0, attrs.groups);  // [G, K, C, S…]
  const int n = 2 * spatial;
  const Tensor y = dot(permute(seen, joined(joined({n + 1, n}, counting(0, spatial)),
                                            joined(counting(spatial, spatial), {n + 2}))),  // [G, N, O…, S…, C]
                       weights,
                       {.batch_a = {0},
                        .batch_b = {0},
                        .contract_a = counting(2 + spatial, 1 + spatial),
                        .contract_b = joined(counting(3, spatial), {2})},
                       x.element());  // [G, N, O…, K]
  const Tensor ordered = permute(y, joined({1, 0, 2 + spatial}, counting(2, spatial)));
  Shape shape{x.extent(0), w.extent(0)};
  for (int i = 0; i < spatial; ++i) shape.push_back(ordered.extent(3 + i));
  return {reshape(ordered, shape)};
}

std::vector<Tensor> spell_conv_input(const Composite& c) {
  const Tensor &g = c[0], &w = c[1];
  const ConvAttrs attrs(c.attrs, 1);
  const std::vector<int64_t> window = window_of(w);
  const int spatial = static_cast<int>(window.size());
  Shape outs, extents;
  for (int i = 0; i < spatial; ++i) outs.push_back(g.extent(2 + i));
  // The spatial extents of the result are the attribute's.
  for (const Expr& extent : shape_attr(c.attrs, 0)) extents.push_back(Trace::current()->dim(extent));
  // [I…, S…, N, G, K]
  const std::vector<WindowAxis> axes = spatial_axes(attrs, window, outs, 2);
  const bool is_dense = std::all_of(attrs.strides.begin(), attrs.strides.end(), [](int64_t x) { return x == 1; });
  const Tensor owners = is_dense ? windows_of(g, turned(axes, extents), zero_of(g)) : owners_of(g, axes, extents);
  const Tensor seen = in_groups(owners, owners.rank() - 1, attrs.groups);
  const Tensor filters = is_dense ? reverse(w, counting(2, spatial)) : w;
  const Tensor weights = in_groups(filters, 0, attrs.groups);  // [G, K, C, S…]
  const int n = 2 * spatial;
  const Tensor x = dot(permute(seen, joined(joined({n + 1, n}, counting(0, spatial)),
                                            joined(counting(spatial, spatial), {n + 2}))),  // [G, N, I…, S…, K]
                       weights,
                       {.batch_a = {0},
                        .batch_b = {0},
                        .contract_a = counting(2 + spatial, 1 + spatial),
                        .contract_b = joined(counting(3, spatial), {1})},
                       g.element());  // [G, N, I…, C]
  const Tensor ordered = permute(x, joined({1, 0, 2 + spatial}, counting(2, spatial)));
  Shape shape{g.extent(0), w.extent(1) * attrs.groups};
  for (int i = 0; i < spatial; ++i) shape.push_back(ordered.extent(3 + i));
  return {reshape(ordered, shape)};
}

std::vector<Tensor> spell_conv_weight(const Composite& c) {
  const Tensor &x = c[0], &g = c[1];
  const ConvAttrs attrs(c.attrs, 1);
  std::vector<int64_t> window;
  for (const Expr& extent : shape_attr(c.attrs, 0)) window.push_back(extent.as_constant().value_or(1));
  const int spatial = static_cast<int>(window.size());
  Shape outs;
  for (int i = 0; i < spatial; ++i) outs.push_back(g.extent(2 + i));
  // [O…, S…, N, G, C]
  const Tensor seen = seen_in_groups(x, attrs, spatial_axes(attrs, window, outs, 2));
  const Tensor slopes = in_groups(g, 1, attrs.groups);  // [N, G, K, O…]
  const int n = 2 * spatial;
  const Tensor w = dot(slopes, seen,
                       {.batch_a = {1},
                        .batch_b = {n + 1},
                        .contract_a = joined({0}, counting(3, spatial)),
                        .contract_b = joined({n}, counting(0, spatial))},
                       x.element());  // [G, K, S…, C]
  const Tensor ordered = permute(w, joined({0, 1, 2 + spatial}, counting(2, spatial)));
  Shape shape{g.extent(1), ordered.extent(2)};
  for (int i = 0; i < spatial; ++i) shape.push_back(ordered.extent(3 + i));
  return {reshape(ordered, shape)};
}

}  // namespace kiln::graph
