// Pools, edges, channels and norms of images.
#include "kiln/graph/images.h"

#include <algorithm>
#include <numeric>

#include "decompose/decompositions.h"
#include "kiln/graph/control.h"
#include "kiln/graph/extents.h"
#include "trace/call.h"

namespace kiln::graph {
namespace {

// A call whose x is [N, C, …] of 1 to 3 spatial axes; 0 after an error.
int spatial_axes(Call& call, const Tensor& x) {
  const int count = call.rank(x) - 2;
  if (call.ok() && (count < 1 || count > 3)) call.fail(call.text(x) + " has not the form [N, C, …] of 1 to 3 axes");
  return call.ok() ? count : 0;
}

void check_count(Call& call, size_t given, int axes, const char* what) {
  if (call.ok() && given != static_cast<size_t>(axes)) {
    call.fail(std::to_string(given) + " " + what + " for " + std::to_string(axes) + " spatial axes");
  }
}

Shape spatial_shape(const Tensor& x) {
  const Shape shape = x.shape();
  return {shape.begin() + 2, shape.end()};
}

Dim count_of_places(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), Dim(1), [](const Dim& a, const Dim& b) { return a * b; });
}

Shape with_places(const Tensor& x, const Shape& places) {
  Shape out = {x.extent(0), x.extent(1)};
  out.insert(out.end(), places.begin(), places.end());
  return out;
}

// [N, C, all places].
Tensor flat(const Tensor& x) { return reshape(x, {x.extent(0), x.extent(1), count_of_places(spatial_shape(x))}); }

// The window of pools to extents that divide an image's.
std::optional<WindowOptions> even_windows(const Tensor& x, const Shape& to) {
  WindowOptions out;
  const Shape from = spatial_shape(x);
  for (size_t i = 0; i < to.size(); ++i) {
    const auto all = from[i].expr().as_constant(), parts = to[i].expr().as_constant();
    if (!all || !parts || *parts < 1 || *all % *parts != 0) return std::nullopt;
    out.size.push_back(*all / *parts);
  }
  return out;
}

// Where each of `to` parts of an axis begins and ends: i64 [to].
struct Parts {
  Tensor start, end;
};
Parts parts_of(const Dim& from, const Dim& to) {
  const Tensor i = arange(to), whole = extent(from), parts = extent(to);
  return {i * whole / parts, ((i + 1) * whole + (parts - 1)) / parts};
}

// The mean of each part of an axis: a product with a matrix of the parts' shares.
Tensor mean_of_parts(const Tensor& x, int axis, const Dim& to) {
  const auto [start, end] = parts_of(x.extent(axis), to);
  const Tensor place = iota(i64, {to, x.extent(axis)}, 1);
  const Tensor inside = (place >= expand_dims(start, 1)) & (place < expand_dims(end, 1));
  const Tensor share = 1.0 / cast(end - start, x.element());
  const Tensor shares = where(inside, expand_dims(share, 1), 0.0);
  const Tensor mean = dot(x, shares, {.contract_a = {axis}, .contract_b = {1}}, x.element());
  Axes order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  order.pop_back();
  order.insert(order.begin() + axis, x.rank() - 1);
  return permute(mean, order);
}

// The places that each part of an image is made of, i64 [parts, most]; those of smaller parts are repeated.
Tensor places_of_parts(const Shape& from, const Shape& to) {
  const auto axes = static_cast<int>(from.size());
  Shape apart;  // to0, most0, to1, most1, …
  std::vector<Tensor> along;
  Dim most = 1;
  for (size_t i = 0; i < from.size(); ++i) {
    const auto [start, end] = parts_of(from[i], to[i]);
    const Dim length = min(from[i], cdiv(from[i], to[i]) + 1);
    along.push_back(min(expand_dims(start, 1) + expand_dims(arange(length), 0), expand_dims(end - 1, 1)));
    apart.insert(apart.end(), {to[i], length});
    most = most * length;
  }
  Tensor place = zeros(i64, apart);
  for (int i = 0; i < axes; ++i) {
    Shape beside(apart.size(), 1);
    const auto at = static_cast<size_t>(2 * i);
    std::copy_n(apart.begin() + 2 * i, 2, beside.begin() + 2 * i);
    place = place * extent(from[at / 2]) + reshape(along[at / 2], beside);
  }
  Axes order;
  for (int i = 0; i < axes; ++i) order.push_back(2 * i);
  for (int i = 0; i < axes; ++i) order.push_back(2 * i + 1);
  return reshape(permute(place, order), {count_of_places(to), most});
}

// x of a pool to extents; invalid after an error.
Tensor adaptive_input(Call& call, const Operand& x, const Shape& to, bool floats) {
  const Tensor from = floats ? call.float_tensor(x) : call.tensor(x);
  check_count(call, to.size(), spatial_axes(call, from), "extents");
  return call.ok() ? from : Tensor();
}

}  // namespace

Pooled max_pool_with_indices(Operand x, WindowOptions options) {
  Call call("max_pool_with_indices", x);
  const Tensor from = call.tensor(x);
  check_count(call, options.size.size(), spatial_axes(call, from), "sizes");
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const Shape places = spatial_shape(from);
  const Tensor values = max_pool(from, options);
  const Tensor numbers = broadcast_to(reshape(arange(count_of_places(places)), places), from.shape());
  // Windows of all axes: those of images and channels are 1.
  for (Ints* each : {&options.size, &options.strides, &options.dilation}) {
    if (!each->empty()) each->insert(each->begin(), 2, 1);
  }
  for (Ints* each : {&options.low, &options.high}) {
    if (!each->empty()) each->insert(each->begin(), 2, 0);
  }
  return {values, window_pick(from, numbers, PickKind::kMax, options)};
}

Tensor max_unpool(Operand values, Operand indices, Shape places) {
  Call call("max_unpool", values);
  const Tensor parts = call.tensor(values), at = call.tensor(indices);
  check_count(call, places.size(), spatial_axes(call, parts), "extents");
  if (call.ok() && call.rank(at) != call.rank(parts)) call.fail(call.text(parts) + " at places of " + call.text(at));
  if (!call.ok()) return {};
  const Trace::LineScope line(values.loc());
  const Tensor empty = zeros(parts.element(), {parts.extent(0), parts.extent(1), count_of_places(places)});
  return reshape(scatter(empty, flat(at), flat(parts), 2), with_places(parts, places));
}

Tensor adaptive_avg_pool(Operand x, Shape to) {
  Call call("adaptive_avg_pool", x);
  const Tensor from = adaptive_input(call, x, to, true);
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  if (const auto even = even_windows(from, to)) return avg_pool(from, *even);
  Tensor y = widened(from);
  for (size_t i = 0; i < to.size(); ++i) y = mean_of_parts(y, static_cast<int>(i) + 2, to[i]);
  return cast(y, from.element());
}

Pooled adaptive_max_pool(Operand x, Shape to) {
  Call call("adaptive_max_pool", x);
  const Tensor from = adaptive_input(call, x, to, false);
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  if (const auto even = even_windows(from, to)) return max_pool_with_indices(from, *even);
  const Tensor image = flat(from), places = places_of_parts(spatial_shape(from), to);
  const Tensor best = argmax(take(image, places, 2), 3, true);  // [N, C, parts, 1]
  const Shape parts = {from.extent(0), from.extent(1), places.extent(0)};
  Shape all = parts;
  all.push_back(places.extent(1));
  const Tensor indices = reshape(gather(broadcast_to(places, all), best, 3), parts);
  const Shape out = with_places(from, to);
  return {reshape(gather(image, indices, 2), out), reshape(indices, out)};
}

Tensor pad(Operand x, PadMode mode, Ints low, Ints high) {
  Call call("pad", x);
  Tensor y = call.tensor(x);
  if (call.ok() && (low.size() != high.size() || static_cast<int>(low.size()) > call.rank(y))) {
    call.fail(std::to_string(low.size()) + " places in front and " + std::to_string(high.size()) + " behind, of " +
              call.text(y));
  }
  for (const Ints* each : {&low, &high}) {
    if (std::any_of(each->begin(), each->end(), [](int64_t count) { return count < 0; })) call.fail("a negative count");
  }
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const int first = y.rank() - static_cast<int>(low.size());
  for (size_t i = 0; i < low.size(); ++i) {
    const int axis = first + static_cast<int>(i);
    const Dim n = y.extent(axis);
    const int64_t before = low[i], behind = high[i];
    const auto edge = [&](const Dim& from, const Dim& to, int64_t count) {
      const Tensor part = slice(y, axis, from, to);
      if (mode == PadMode::kCircular) return part;
      if (mode == PadMode::kReflect) return reverse(part, {axis});
      Shape shape = y.shape();
      shape[static_cast<size_t>(axis)] = count;
      return broadcast_to(part, shape);
    };
    Tensors parts;
    if (before > 0) {
      parts.push_back(mode == PadMode::kReflect    ? edge(1, before + 1, before)
                      : mode == PadMode::kCircular ? edge(n - before, n, before)
                                                   : edge(0, 1, before));
    }
    parts.push_back(y);
    if (behind > 0) {
      parts.push_back(mode == PadMode::kReflect    ? edge(n - 1 - behind, n - 1, behind)
                      : mode == PadMode::kCircular ? edge(0, behind, behind)
                                                   : edge(n - 1, n, behind));
    }
    y = cat(parts, axis);
  }
  return y;
}

namespace {

// An image [N, C, H, W] and a factor of 1 or more.
Tensor image_of(Call& call, const Operand& x, int64_t factor, const char* what) {
  const Tensor from = call.tensor(x);
  if (call.ok() && call.rank(from) != 4) call.fail(call.text(from) + " is not [N, C, H, W]");
  if (call.ok() && factor < 1) call.fail(std::string(what) + " is " + std::to_string(factor));
  return from;
}

// extent / factor, which must be whole for all sizes.
Dim part_of(Call& call, const Tensor& x, int axis, int64_t factor) {
  if (!call.ok()) return 1;
  const auto part = exact_quotient(call.trace().graph().dims, call.extent(x, axis), Expr(factor));
  if (!part) {
    call.fail("axis " + std::to_string(axis) + " of " + call.text(x) + " is not known to be a multiple of " +
              std::to_string(factor));
  }
  return part ? call.trace().dim(*part) : Dim(1);
}

}  // namespace

Tensor pixel_shuffle(Operand x, int64_t factor) {
  Call call("pixel_shuffle", x);
  const Tensor from = image_of(call, x, factor, "the factor");
  const Dim channels = part_of(call, from, 1, factor * factor);
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const Dim n = from.extent(0), h = from.extent(2), w = from.extent(3);
  const Tensor apart = reshape(from, {n, channels, factor, factor, h, w});
  return reshape(permute(apart, {0, 1, 4, 2, 5, 3}), {n, channels, h * factor, w * factor});
}

Tensor pixel_unshuffle(Operand x, int64_t factor) {
  Call call("pixel_unshuffle", x);
  const Tensor from = image_of(call, x, factor, "the factor");
  const Dim h = part_of(call, from, 2, factor), w = part_of(call, from, 3, factor);
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const Dim n = from.extent(0), channels = from.extent(1);
  const Tensor apart = reshape(from, {n, channels, h, factor, w, factor});
  return reshape(permute(apart, {0, 1, 3, 5, 2, 4}), {n, channels * (factor * factor), h, w});
}

Tensor channel_shuffle(Operand x, int64_t groups) {
  Call call("channel_shuffle", x);
  const Tensor from = image_of(call, x, groups, "the number of groups");
  const Dim each = part_of(call, from, 1, groups);
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const Tensor apart = reshape(from, {from.extent(0), groups, each, from.extent(2), from.extent(3)});
  return reshape(transpose(apart, 1, 2), from.shape());
}

namespace {

Tensor moved_channels(const char* what, const Operand& x, bool last) {
  Call call(what, x);
  const Tensor from = call.tensor(x);
  if (call.ok() && call.rank(from) < 3) call.fail(call.text(from) + " has no spatial axes");
  if (!call.ok()) return {};
  std::vector<int64_t> order(static_cast<size_t>(call.rank(from)));
  std::iota(order.begin(), order.end(), 0);
  if (last) {
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  } else {
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
  }
  return call.permute(from, std::move(order));
}

}  // namespace

Tensor channels_last(Operand x) { return moved_channels("channels_last", x, true); }
Tensor channels_first(Operand x) { return moved_channels("channels_first", x, false); }

Tensor instance_norm(Operand x, Operand weight, Operand bias, double eps) {
  Call call("instance_norm", x);
  const Tensor from = call.float_tensor(x);
  const int axes = spatial_axes(call, from);
  const Tensor scale = call.optional(weight, call.element(from)), shift = call.optional(bias, call.element(from));
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  Tensor y = layer_norm(widened(from), {}, {}, eps, axes);
  if (weight.present()) y = y * by_channel(cast(scale, y.element()), y.rank());
  if (bias.present()) y = y + by_channel(cast(shift, y.element()), y.rank());
  return cast(y, from.element());
}

Tensor frozen_batch_norm(Operand x, Operand mean, Operand variance, Operand weight, Operand bias, double eps) {
  const Trace::LineScope line(x.loc());
  const auto frozen = [](const Operand& each) {
    return each.is_tensor() ? Operand(stop_gradient(each), each.loc()) : each;
  };
  return batch_norm(x, frozen(mean), frozen(variance), frozen(weight), frozen(bias), eps);
}

FoldedConv fold_batch_norm(Operand w, Operand bias, Operand mean, Operand variance, Operand weight, Operand shift,
                           double eps) {
  Call call("fold_batch_norm", w);
  const Tensor filters = call.float_tensor(w), center = call.tensor(mean), spread = call.tensor(variance);
  if (!call.ok()) return {};
  const Trace::LineScope line(w.loc());
  const ElementType work = widened(filters).element();
  Tensor scale = rsqrt(cast(spread, work) + eps);
  if (weight.present()) scale = scale * cast(weight, work);
  Tensor moved = -cast(center, work);
  if (bias.present()) moved = moved + cast(bias, work);
  moved = moved * scale;
  if (shift.present()) moved = moved + cast(shift, work);
  Shape by_filter(static_cast<size_t>(filters.rank()), 1);
  by_filter[0] = filters.extent(0);
  const Tensor folded = cast(filters, work) * reshape(scale, by_filter);
  return {cast(folded, filters.element()), cast(moved, filters.element())};
}

Difference difference(Operand a, Operand b) {
  Call call("difference", a);
  const std::vector<Tensor> operands = call.promoted({&a, &b}, true);
  if (!call.ok()) return {};
  const Trace::LineScope line(a.loc());
  const Tensor x = widened(operands[0]), y = widened(operands[1]);
  const Tensor apart = x - y;
  const Tensor norm = sum(square(y));
  const Tensor relative = sqrt(sum(square(apart)) / where(norm == 0.0, 1.0, norm));
  return {cast(reduce_max(abs(apart)), f32), cast(relative, f32)};
}

}  // namespace kiln::graph
