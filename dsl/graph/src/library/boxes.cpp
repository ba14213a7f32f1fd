// Boxes: how they overlap, what they show, which are kept.
#include <cmath>

#include "decompose/decompositions.h"
#include "kiln/graph/control.h"
#include "kiln/graph/detection.h"
#include "library/sampling.h"
#include "trace/call.h"

namespace kiln::graph {
namespace {

void must_be_boxes(Call& call, const Tensor& x) {
  if (call.ok() && (call.rank(x) < 1 || !(call.extent(x, -1) == Expr(4)))) {
    call.fail(call.text(x) + " are not boxes […, 4]");
  }
}

// The areas that boxes share, and those of both: of shapes that broadcast, [..., 4].
Tensor overlap_of(const Tensor& a, const Tensor& b) {
  const auto along = [&](int axis) {
    return max(min(a(rest, axis + 2), b(rest, axis + 2)) - max(a(rest, axis), b(rest, axis)), 0);
  };
  const Tensor shared = along(0) * along(1);
  const Tensor both = box_area(a) + box_area(b) - shared;
  return where(both > 0, shared / where(both > 0, both, 1.0), 0.0);
}

}  // namespace

Tensor box_area(Operand boxes) {
  Call call("box_area", boxes);
  const Tensor x = call.float_tensor(boxes);
  must_be_boxes(call, x);
  if (!call.ok()) return {};
  const Trace::LineScope line(boxes.loc());
  return (x(rest, 2) - x(rest, 0)) * (x(rest, 3) - x(rest, 1));
}

Tensor box_iou(Operand a, Operand b) {
  Call call("box_iou", a);
  const std::vector<Tensor> operands = call.promoted({&a, &b}, true);
  for (size_t i = 0; call.ok() && i < 2; ++i) {
    must_be_boxes(call, operands[i]);
    if (call.ok() && call.rank(operands[i]) < 2) call.fail(call.text(operands[i]) + " is one box");
  }
  if (!call.ok()) return {};
  const Trace::LineScope line(a.loc());
  return overlap_of(expand_dims(operands[0], -2), expand_dims(operands[1], -3));
}

// Points are [R, height, samples, width, samples].
Tensor roi_align(Operand x, Operand boxes, Operand images, RoiOptions options) {
  Call call("roi_align", x);
  const Tensor from = call.float_tensor(x), regions = call.float_tensor(boxes), numbers = call.tensor(images);
  must_be_boxes(call, regions);
  if (call.ok() && (call.rank(from) != 4 || call.rank(regions) != 2 || call.rank(numbers) != 1)) {
    call.fail(call.text(from) + ", " + call.text(regions) + " and " + call.text(numbers) +
              " are not [N, C, H, W], [R, 4] and [R]");
  }
  if (call.ok() && (options.height < 1 || options.width < 1 || options.samples < 1)) {
    call.fail("a height, width or number of samples below 1");
  }
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const ElementType work = widened(from).element();
  const Dim count = regions.extent(0);
  const Shape points = {count, options.height, options.samples, options.width, options.samples};
  const Tensor corners = cast(regions, work) * options.scale - (options.aligned ? 0.5 : 0.0);
  const auto corner = [&](int i) { return reshape(corners(all, i), {count, 1, 1, 1, 1}); };
  std::vector<std::vector<Tap>> by_axis;
  Tensor inside;
  for (int axis = 0; axis < 2; ++axis) {  // lines, then columns
    const int64_t parts = axis == 0 ? options.height : options.width;
    Tensor size = corner(3 - axis) - corner(1 - axis);
    if (!options.aligned) size = max(size, 1);
    const Tensor step = (iota(work, points, 2 + 2 * axis) + 0.5) / static_cast<double>(options.samples);
    const Tensor place = corner(1 - axis) + (iota(work, points, 1 + 2 * axis) + step) * (size / parts);
    const Dim extent = from.extent(2 + axis);
    const Tensor seen = (place >= -1) & (place <= graph::extent(extent, work));
    inside = inside.valid() ? inside & seen : seen;
    by_axis.push_back(linear_taps(max(min(place, graph::extent(extent - 1, work)), 0), extent));
  }
  const Tensor image = broadcast_to(reshape(cast(numbers, i64), {count, 1, 1, 1, 1}), points);
  const Tensor sampled = where(expand_dims(inside, -1), sum_of_taps(from, image, by_axis), 0.0);
  return cast(permute(mean(sampled, {2, 4}), {0, 3, 1, 2}), from.element());
}

KeptBoxes nms(Operand boxes, Operand scores, int64_t limit, double overlap, Operand classes) {
  Call call("nms", boxes);
  const std::vector<Tensor> operands = call.promoted({&boxes, &scores}, true);
  const Tensor kinds = classes.present() ? call.tensor(classes) : Trace::absent();
  if (call.ok()) must_be_boxes(call, operands[0]);
  if (call.ok() && (call.rank(operands[0]) != 3 || call.rank(operands[1]) != 2)) {
    call.fail(call.text(operands[0]) + " and scores " + call.text(operands[1]) + " are not [B, N, 4] and [B, N]");
  }
  if (call.ok() && limit < 1) call.fail("a limit of " + std::to_string(limit));
  if (!call.ok()) return {};
  const Trace::LineScope line(boxes.loc());
  const Tensor all_boxes = widened(operands[0]), first = widened(operands[1]);
  const Dim batch = first.extent(0), count = first.extent(1);
  const Tensor image = arange(batch), number = iota(i64, {batch, count}, 1);
  const LoopStep done = loop(limit, {where(isnan(first), -INFINITY, first)}, {}, [&](Tensors carried, Tensors) {
    const Tensor best = argmax(carried[0], 1);
    const Tensor found = index(carried[0], {image, best}, {0, 1}) > -INFINITY;
    const Tensor box = expand_dims(index(all_boxes, {image, best}, {0, 1}), 1);
    Tensor gone = overlap_of(box, all_boxes) > overlap;
    if (classes.present()) gone = gone & (kinds == expand_dims(index(kinds, {image, best}, {0, 1}), 1));
    gone = gone | (number == expand_dims(best, 1));
    return LoopStep{{where(gone, -INFINITY, carried[0])}, {where(found, best, -1)}};
  });
  const Tensor indices = transpose(done.stacked[0], 0, 1);
  return {indices, sum(cast(indices >= 0, i64), {1})};
}

}  // namespace kiln::graph
