// Rows of tables, and products of pairs of rows.
#include <cmath>

#include "decompose/decompositions.h"
#include "kiln/graph/extents.h"
#include "trace/trace.h"

namespace kiln::graph {
namespace {

// Numbers 0 … count-1 by the range that holds each: -1 before the first one. Ranges begin at `starts` [N], which do not
// fall; a start may be `count` itself.
Tensor range_of(const Tensor& starts, const Dim& count) {
  const Tensor marks =
      index_put(zeros(i64, {count + 1}), {starts}, {0}, ones(i64, {starts.extent(0)}), ScatterKind::kAdd);
  return slice(cumsum(marks, 0), 0, 0, count) - 1;
}

// How many pairs a constant is made for; more are computed.
constexpr int64_t kMostListedPairs = int64_t{1} << 16;

// Places in a square of rows × rows of the pairs i > j, or i ≥ j, row by row.
Tensor places_of_pairs(int64_t rows, bool diagonal) {
  const int64_t more = diagonal ? 1 : 0;
  const int64_t count = rows * (rows - 1 + 2 * more) / 2;
  if (count <= kMostListedPairs) {
    std::vector<double> places;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < i + more; ++j) places.push_back(static_cast<double>(i * rows + j));
    }
    return constant(i64, {count}, places);
  }
  // Row i begins at pair i(i-1)/2, or i(i+1)/2.
  const Tensor i = arange(rows);
  const Tensor starts = i * (i - 1 + 2 * more) / 2;
  const Tensor row = range_of(starts, count);
  return row * rows + (arange(count) - index(starts, {row}, {0}));
}

}  // namespace

KILN_DECOMPOSITION(embedding) { return {index(c[0], {c[1]}, {0})}; }

// Ids in front of the first bag have the bag -1, which is the row behind all others; it is left out.
KILN_DECOMPOSITION(embedding_bag) {
  const Tensor &table = c[0], &ids = c[1], &offsets = c[2];
  const auto mode = enum_attr<BagMode>(c.attrs, 0);
  const Dim bags = offsets.extent(0), count = ids.extent(0);
  const Tensor bag = range_of(cast(offsets, i64), count);
  Tensor rows = widened(index(table, {ids}, {0}));
  if (c.has(3)) rows = rows * expand_dims(widened(c[3]), 1);
  const bool takes_max = mode == BagMode::kMax;
  const Tensor start = full({bags + 1, table.extent(1)}, takes_max ? -INFINITY : 0.0, rows.element());
  const Tensor all = index_put(start, {bag}, {0}, rows, takes_max ? ScatterKind::kMax : ScatterKind::kAdd);
  Tensor y = slice(all, 0, 0, bags);
  if (mode != BagMode::kSum) {
    const Tensor ones_by_id = ones(i64, {count});
    const Tensor counts = index_put(zeros(i64, {bags + 1}), {bag}, {0}, ones_by_id, ScatterKind::kAdd);
    const Tensor sizes = expand_dims(slice(counts, 0, 0, bags), 1);
    y = takes_max ? where(sizes > 0, y, 0.0) : y / cast(max(sizes, 1), y.element());
  }
  return {cast(y, table.element())};
}

KILN_DECOMPOSITION(one_hot) {
  const ElementType type = element_attr(c.attrs, 1);
  const Dim classes = Trace::current()->dim(expr_attr(c.attrs, 0));
  return {cast(expand_dims(cast(c[0], i64), -1) == arange(classes), type)};
}

KILN_DECOMPOSITION(interaction) {
  const Tensor &dense = c[0], &features = c[1];
  const Tensor rows = cat({expand_dims(dense, 1), features}, 1);
  const Tensor products = dot(rows, rows, {{0}, {0}, {2}, {2}}, dense.element());
  const int64_t count = rows.extent(1).expr().as_constant().value_or(1);
  const Tensor square = reshape(products, {rows.extent(0), count * count});
  return {cat({dense, take(square, places_of_pairs(count, c.flag(0)), 1)}, 1)};
}

}  // namespace kiln::graph
