// What is selected or combined by data: compaction by running counts, bisection, segments.
#include <bit>

#include "decompose/decompositions.h"
#include "kiln/graph/control.h"
#include "kiln/graph/detection.h"
#include "kiln/graph/extents.h"
#include "trace/call.h"

namespace kiln::graph {
namespace {

// Rows [n, …] whose mask [n] holds, one behind the other; `fill` behind the last.
Tensor compacted(const Tensor& rows, const Tensor& mask, const Operand& fill) {
  const Dim count = rows.extent(0);
  const Tensor place = where(mask, cumsum(cast(mask, i64), 0) - 1, count);
  Shape shape = rows.shape();
  shape[0] = count + 1;  // the last row takes what is not selected
  return slice(index_put(full(shape, fill, rows.element()), {place}, {0}, rows), 0, 0, count);
}

Tensor count_of(const Tensor& mask) { return sum(cast(mask, i64)); }

ScatterKind scatter_kind(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::kMin:
      return ScatterKind::kMin;
    case SegmentKind::kMax:
      return ScatterKind::kMax;
    case SegmentKind::kProd:
      return ScatterKind::kMul;
    case SegmentKind::kSum:
    case SegmentKind::kMean:
      break;
  }
  return ScatterKind::kAdd;
}

// What a kind begins with: of type and shape of x.
Tensor neutral(const Tensor& x, SegmentKind kind) {
  const ElementType type = x.element();
  switch (kind) {
    case SegmentKind::kSum:
    case SegmentKind::kMean:
      return zeros(type, x.shape());
    case SegmentKind::kProd:
      return ones(type, x.shape());
    case SegmentKind::kMin:
    case SegmentKind::kMax:
      break;
  }
  // The neutral element of a type: what a reduction of no elements gives.
  const ReduceKind by = kind == SegmentKind::kMin ? ReduceKind::kMin : ReduceKind::kMax;
  return broadcast_to(reduce(zeros(type, {0}), by, {0}), x.shape());
}

bool is_extreme(SegmentKind kind) { return kind == SegmentKind::kMin || kind == SegmentKind::kMax; }

}  // namespace

Selected masked_select(Operand x, Operand mask, Operand fill) {
  Call call("masked_select", x);
  const Tensor from = call.tensor(x);
  const Tensor chosen = call.ok() ? call.tensor_as(mask, i1, call.shape(from)) : Tensor();
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const Tensor flat_mask = flatten(chosen);
  return {compacted(flatten(from), flat_mask, fill), count_of(flat_mask)};
}

Selected nonzero(Operand x) {
  Call call("nonzero", x);
  const Tensor from = call.tensor(x);
  if (call.ok() && call.rank(from) < 1) call.fail(call.text(from) + " has no axes");
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const Tensor mask = from.element() == i1 ? from : from != 0;
  Tensors places;
  for (int axis = 0; axis < from.rank(); ++axis) places.push_back(flatten(iota(i64, from.shape(), axis)));
  const Tensor flat_mask = flatten(mask);
  return {compacted(stack(places, 1), flat_mask, -1), count_of(flat_mask)};
}

UniqueValues unique(Operand x) {
  Call call("unique", x);
  const Tensor from = call.tensor(x);
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const Tensor flat = flatten(from);
  const Dim count = flat.extent(0);
  const auto [values, order] = sort(flat, 0);
  const Tensor is_new = slice(values, 0, 1, count) != slice(values, 0, 0, count - 1);
  const Tensor number = cumsum(cast(cat({ones(i1, {1}), is_new}, 0), i64), 0) - 1;
  const Tensor none = zeros(i64, {count});
  return {index_put(zeros(from.element(), {count}), {number}, {0}, values),
          reshape(index_put(none, {order}, {0}, number), from.shape()),
          index_put(none, {number}, {0}, ones(i64, {count}), ScatterKind::kAdd), number(-1) + 1};
}

namespace {

// Many steps in one kernel, each a lookup by the one before, take minutes to compile.
constexpr int kMostSteps = 8;

// By powers of two: a step is taken where the edge in front of its end is still below the value.
Tensor bisected(const Tensor& edges, const Tensor& x, bool right, int bits) {
  const Tensor count = extent(edges.extent(0)), last = max(count - 1, 0);
  Tensor place = zeros(i64, x.shape());
  for (int bit = bits - 1; bit >= 0; --bit) {
    const Tensor next = place + (int64_t{1} << bit);
    const Tensor edge = take(edges, min(next - 1, last), 0);
    Tensor before = right ? edge <= x : edge < x;
    if (dsl::is_float(x.element())) before = before | (right ? isnan(x) : isnan(x) & (edge == edge));
    place = where((next <= count) & before, next, place);
  }
  return place;
}

// Both sorted together, stable: how many edges are in front of each value. Of equal ones the edges come first if they
// count, else the values.
Tensor merged(const Tensor& edges, const Tensor& x, bool right) {
  const Tensor values = flatten(x);
  const Dim n = edges.extent(0), m = values.extent(0);
  const Tensor order = sort(right ? cat({edges, values}, 0) : cat({values, edges}, 0), 0).second;
  const Tensor is_edge = right ? order < n : order >= m;
  const Tensor before = scan(cast(is_edge, i64), ReduceKind::kSum, 0, false, true);
  const Tensor back = index_put(zeros(i64, {n + m}), {order}, {0}, before);
  return reshape(right ? slice(back, 0, n, n + m) : slice(back, 0, 0, m), x.shape());
}

}  // namespace

// By bisection where the edges are few for all sizes.
Tensor searchsorted(Operand edges, Operand values, bool right) {
  Call call("searchsorted", edges);
  const std::vector<Tensor> operands = call.promoted({&edges, &values});
  if (call.ok() && call.rank(operands[0]) != 1) call.fail("edges are " + call.text(operands[0]) + ", not [n]");
  if (!call.ok()) return {};
  const Trace::LineScope line(edges.loc());
  const int64_t most = interval(call.trace().graph().dims, call.extent(operands[0], 0)).high;
  const int bits = std::bit_width(static_cast<uint64_t>(most));
  if (bits > kMostSteps) return merged(operands[0], operands[1], right);
  return bisected(operands[0], operands[1], right, bits);
}

Tensor bucketize(Operand values, Operand edges, bool right) { return searchsorted(edges, values, right); }

// Rows get the number of the last segment that begins at or before them. What lies in front of the first one or behind
// the last has a row of its own, the last of S + 1, which -1 names too.
Tensor segment_reduce(Operand x, Operand offsets, SegmentKind kind) {
  Call call("segment_reduce", x);
  const Tensor from = call.tensor(x), starts = call.tensor(offsets);
  if (call.ok() && (call.rank(from) < 1 || call.rank(starts) != 1 || !dsl::is_int(call.element(starts)))) {
    call.fail(call.text(from) + " and offsets " + call.text(starts) + " are not [n, …] and ints [S + 1]");
  }
  if (call.ok() && kind == SegmentKind::kMean && !dsl::is_float(call.element(from))) {
    call.fail("a mean of " + call.text(from) + ", which are no floats");
  }
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const Dim rows = from.extent(0), marks = starts.extent(0), segments = marks - 1;
  const Tensor begun =
      index_put(zeros(i64, {rows + 1}), {cast(starts, i64)}, {0}, ones(i64, {marks}), ScatterKind::kAdd);
  const Tensor segment = slice(cumsum(begun, 0), 0, 0, rows) - 1;
  const Tensor wide = dsl::is_float(from.element()) ? widened(from) : from;
  Shape shape = wide.shape();
  shape[0] = marks;
  const Tensor start = neutral(zeros(wide.element(), shape), kind);
  Tensor y = slice(index_put(start, {segment}, {0}, wide, scatter_kind(kind)), 0, 0, segments);
  if (kind == SegmentKind::kMean || is_extreme(kind)) {
    Shape beside(shape.size(), 1);
    beside[0] = segments;
    const Tensor size = reshape(cast(slice(starts, 0, 1, marks) - slice(starts, 0, 0, segments), i64), beside);
    y = is_extreme(kind) ? where(size > 0, y, zeros_like(y)) : y / cast(max(size, 1), y.element());
  }
  return cast(y, from.element());
}

Tensor scatter_reduce(Operand x, Operand index, Operand values, int axis, SegmentKind kind, bool include_self) {
  Call call("scatter_reduce", x);
  const Tensor to = call.tensor(x), places = call.tensor(index);
  if (call.ok() && kind == SegmentKind::kMean && !dsl::is_float(call.element(to))) {
    call.fail("a mean of " + call.text(to) + ", which are no floats");
  }
  if (!call.ok()) return {};
  const Trace::LineScope line(x.loc());
  const Tensor counted = scatter(zeros(i64, to.shape()), places, ones(i64, places.shape()), axis, ScatterKind::kAdd);
  const Tensor start = include_self ? to : where(counted > 0, neutral(to, kind), to);
  const Tensor y = scatter(start, places, values, axis, scatter_kind(kind));
  if (kind != SegmentKind::kMean) return y;
  return y / cast(include_self ? counted + 1 : max(counted, 1), y.element());
}

}  // namespace kiln::graph
