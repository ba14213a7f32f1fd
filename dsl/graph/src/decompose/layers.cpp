// Products, convolutions, pools and losses.
#include <algorithm>

#include "decompose/decompositions.h"

namespace kiln::graph {
namespace {

ConvOptions conv_options(const Composite& c) {
  return {ints_attr(c.attrs, 0), ints_attr(c.attrs, 1), ints_attr(c.attrs, 2), ints_attr(c.attrs, 3), c.integer(4)};
}

// Options by spatial axis as those of all axes of x.
Ints with_front(const Ints& spatial, int64_t front) {
  Ints out = {front, front};
  out.insert(out.end(), spatial.begin(), spatial.end());
  return out;
}
WindowOptions window_options(const Composite& c, bool dilates) {
  const size_t axes = ints_attr(c.attrs, 0).size();
  return {with_front(ints_attr(c.attrs, 0), 1), with_front(ints_attr(c.attrs, 1), 1),
          with_front(ints_attr(c.attrs, 2), 0), with_front(ints_attr(c.attrs, 3), 0),
          with_front(dilates ? ints_attr(c.attrs, 4) : Ints(axes, 1), 1)};
}

// What sums of products of a type are kept in until they are rounded.
ElementType sums_type(ElementType type) { return dsl::is_small_float(type) ? f32 : type; }

}  // namespace

KILN_DECOMPOSITION(linear) {
  const int last = c[0].rank() - 1;
  const ElementType type = c[0].element();
  if (!c.has(2)) return {dot(c[0], c[1], {{}, {}, {last}, {1}}, type)};
  const Tensor y = dot(c[0], c[1], {{}, {}, {last}, {1}}, sums_type(type));
  return {cast(y + cast(c[2], y.element()), type)};
}

KILN_DECOMPOSITION(conv_bias) { return {conv(c[0], c[1], conv_options(c)) + by_channel(c[2], c[0].rank())}; }

KILN_DECOMPOSITION(max_pool) { return {window(c[0], WindowKind::kMax, window_options(c, true))}; }

KILN_DECOMPOSITION(avg_pool) {
  const Tensor x = widened(c[0]);
  const WindowOptions options = window_options(c, false);
  const Tensor sums = window(x, WindowKind::kSum, options);
  const auto padded = [](const Ints& ends) {
    return std::any_of(ends.begin(), ends.end(), [](int64_t n) { return n > 0; });
  };
  if (c.flag(4) || !(padded(options.low) || padded(options.high))) {
    int64_t count = 1;
    for (const int64_t size : options.size) count *= size;
    return {cast(sums / static_cast<double>(count), c[0].element())};
  }
  // How many places of the window lie inside.
  Shape plane = x.shape();
  plane[0] = plane[1] = 1;
  const Tensor counts = window(ones(x.element(), plane), WindowKind::kSum, options);
  return {cast(sums / counts, c[0].element())};
}

KILN_DECOMPOSITION(cross_entropy) {
  const auto reduction = enum_attr<LossReduction>(c.attrs, 0);
  const double smoothing = c.number(2);
  const Tensor logs = log_softmax(widened(c[0]), -1);
  const Tensor targets = cast(c[1], i64);
  const Tensor counts = targets != c.integer(1);
  const Tensor safe = where(counts, targets, zeros_like(targets));
  const Tensor picked = squeeze(gather(logs, expand_dims(safe, -1), -1), {-1});
  Tensor losses = -picked;
  if (smoothing != 0) {
    const Tensor over_classes = sum(logs, {-1}) / extent(logs.extent(-1), logs.element());
    losses = losses * (1 - smoothing) - over_classes * smoothing;
  }
  losses = where(counts, losses, zeros_like(losses));
  const ElementType type = c[0].element();
  if (reduction == LossReduction::kNone) return {cast(losses, type)};
  const Tensor total = losses.rank() == 0 ? losses : sum(losses);
  if (reduction == LossReduction::kSum) return {cast(total, type)};
  const Tensor ones = cast(counts, losses.element());
  return {cast(total / (ones.rank() == 0 ? ones : sum(ones)), type)};
}

}  // namespace kiln::graph
