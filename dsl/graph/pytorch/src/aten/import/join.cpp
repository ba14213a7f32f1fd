// Functions that put tensors together: cat, pad, repeat, and parts of a tensor set to another.
#include <algorithm>

#include "aten/import/functions.h"
#include "aten/import/slices.h"

namespace kiln::graph::aten {
namespace {

// To their common type.
std::vector<Tensor> alike(const std::vector<Tensor>& given) {
  std::vector<Term> terms(given.begin(), given.end());
  std::vector<const Term*> list;
  for (const Term& each : terms) list.push_back(&each);
  const ElementType type = result_type(list);
  std::vector<Tensor> out;
  for (const Tensor& each : given) out.push_back(as(each, type));
  return out;
}

// Tensors of the shape [0] are left out, as PyTorch has it; their types count.
Results joined(Arguments& a) {
  const std::vector<Tensor> given = a.tensors("tensors");
  if (given.empty()) a.fail("no tensors");
  if (!a.ok()) return {};
  std::vector<Tensor> left;
  for (const Tensor& each : alike(given)) {
    if (each.rank() != 1 || !same(each.extent(0), 0)) left.push_back(each);
  }
  if (left.empty()) return {alike(given)[0]};
  const int at = a.axis("dim", left[0].rank(), 0);
  return {a.ok() ? cat(left, at) : Tensor()};
}

Results stacked(Arguments& a) {
  const std::vector<Tensor> given = a.tensors("tensors");
  if (given.empty()) a.fail("no tensors");
  if (!a.ok()) return {};
  const int at = a.axis("dim", given[0].rank() + 1, 0);
  return {a.ok() ? stack(alike(given), at) : Tensor()};
}

// hstack, vstack, dstack: along axis 1 (0 of vectors), 0, 2, of at least as many axes.
Results stacked_along(Arguments& a) {
  const std::vector<Tensor> given = a.tensors("tensors");
  if (given.empty()) a.fail("no tensors");
  if (!a.ok()) return {};
  const char way = a.base()[0];
  std::vector<Tensor> parts;
  for (Tensor each : alike(given)) {
    if (each.rank() == 0) each = reshape(each, {1});
    if (way != 'h' && each.rank() == 1) each = reshape(each, inserted(each.shape(), 0, 1));
    if (way == 'd' && each.rank() == 2) each = reshape(each, inserted(each.shape(), 2, 1));
    parts.push_back(each);
  }
  return {cat(parts, way == 'v' || way == 'r' ? 0 : way == 'd' ? 2 : parts[0].rank() > 1 ? 1 : 0)};
}

// --- pads ---

struct Margins {
  std::vector<Dim> low, high;  // by axis; negative ones crop
};

// Pairs begin with the last axis.
Margins margins(Arguments& a, std::string_view name, int rank) {
  const Shape pairs = a.shape(name);
  Margins out{Shape(static_cast<size_t>(rank), Dim(0)), Shape(static_cast<size_t>(rank), Dim(0))};
  if (pairs.size() % 2 != 0 || pairs.size() > 2 * static_cast<size_t>(rank)) {
    a.fail(std::to_string(pairs.size()) + " numbers of padding for " + std::to_string(rank) + " axes");
    return out;
  }
  for (size_t i = 0; i < pairs.size() / 2; ++i) {
    const size_t axis = static_cast<size_t>(rank) - 1 - i;
    out.low[axis] = pairs[2 * i];
    out.high[axis] = pairs[2 * i + 1];
  }
  return out;
}

bool crops(const Dim& margin) { return known(margin).value_or(0) < 0; }

Tensor padded_with(Arguments& a, Tensor x, std::string_view name, const Term& value) {
  Margins by = margins(a, name, x.rank());
  if (!a.ok()) return {};
  bool pads = false;
  for (int axis = 0; axis < x.rank(); ++axis) {
    Dim &low = by.low[static_cast<size_t>(axis)], &high = by.high[static_cast<size_t>(axis)];
    if (crops(low) || crops(high)) {
      const Dim start = crops(low) ? Dim(0) - low : Dim(0);
      x = slice(x, axis, start, crops(high) ? x.extent(axis) + high : x.extent(axis));
    }
    if (crops(low)) low = 0;
    if (crops(high)) high = 0;
    pads = pads || !same(low, 0) || !same(high, 0);
  }
  return pads ? pad(x, by.low, by.high, as(value, x.element())) : x;
}

// By the place in x of each of the places along an axis: mirrored at the edges, the edge itself, or from the other end.
enum class Edge : uint8_t { kReflect, kReplicate, kCircular };

Tensor padded_by_places(Arguments& a, Tensor x, std::string_view name, Edge edge) {
  const Margins by = margins(a, name, x.rank());
  for (int axis = 0; a.ok() && axis < x.rank(); ++axis) {
    const Dim &low = by.low[static_cast<size_t>(axis)], &high = by.high[static_cast<size_t>(axis)];
    if (same(low, 0) && same(high, 0)) continue;
    const Dim n = x.extent(axis);
    Tensor place = iota(i64, {n + low + high}, 0) - low;
    if (edge == Edge::kReflect) place = (n - 1) - abs((n - 1) - abs(place));
    if (edge == Edge::kReplicate) place = min(max(place, 0), n - 1);
    if (edge == Edge::kCircular) place = (place + n) % n;
    x = take(x, place, axis);
  }
  return x;
}

Results constant_padded(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {padded_with(a, x, "pad", a.term("value", Term(int64_t{0})))};
}
Results reflected(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {padded_by_places(a, x, "padding", Edge::kReflect)};
}
Results replicated(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {padded_by_places(a, x, "padding", Edge::kReplicate)};
}

Results padded(Arguments& a) {
  const Tensor x = a.tensor("self");
  const std::string mode = a.word("mode", "constant");
  if (mode == "constant") return {padded_with(a, x, "pad", a.term("value", Term(int64_t{0})))};
  if (mode == "reflect") return {padded_by_places(a, x, "pad", Edge::kReflect)};
  if (mode == "replicate") return {padded_by_places(a, x, "pad", Edge::kReplicate)};
  if (mode == "circular") return {padded_by_places(a, x, "pad", Edge::kCircular)};
  a.fail("there is no mode " + mode);
  return {};
}

// --- repeated and in another order ---

Results repeated(Arguments& a) {
  const Tensor x = a.tensor("self");
  Shape times = a.shape(a.has("repeats") ? "repeats" : "dims"), shape = x.shape(), apart, whole, parts;
  if (a.base() == "tile" && times.size() < shape.size()) times.insert(times.begin(), shape.size() - times.size(), 1);
  if (times.size() < shape.size()) a.fail("fewer numbers than axes");
  if (!a.ok()) return {};
  shape.insert(shape.begin(), times.size() - shape.size(), Dim(1));
  for (size_t i = 0; i < times.size(); ++i) {
    apart.insert(apart.end(), {Dim(1), shape[i]});
    parts.insert(parts.end(), {times[i], shape[i]});
    whole.push_back(times[i] * shape[i]);
  }
  if (times.size() * 2 <= kMaxRank) return {reshape(broadcast_to(reshape(x, apart), parts), whole)};
  Tensor y = reshape(x, shape);
  for (size_t i = 0; i < times.size(); ++i) {
    const int at = static_cast<int>(i);
    y = take(y, iota(i64, {times[i] * shape[i]}, 0) % shape[i], at);
  }
  return {y};
}

Results each_repeated(Arguments& a) {
  Tensor x = a.tensor("self");
  const Dim times = a.dim("repeats");
  if (!a.has("dim")) x = reshape(x, {product(x.shape())});
  const int at = a.axis("dim", x.rank(), 0);
  if (!a.ok()) return {};
  const Shape apart = inserted(x.shape(), at + 1, 1), parts = with(apart, at + 1, times);
  return {reshape(broadcast_to(reshape(x, apart), parts), with(x.shape(), at, x.extent(at) * times))};
}

Results flipped(Arguments& a) {
  const Tensor x = a.tensor("self");
  Axes axes;
  if (a.base() == "fliplr") axes = {1};
  if (a.base() == "flipud") axes = {0};
  for (const int64_t each : a.ints("dims", Ints())) axes.push_back(a.axis(each, x.rank()));
  return {axes.empty() || x.rank() == 0 ? x : reverse(x, axes)};
}

// By k quarter turns from the first of two axes to the second.
Results turned(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int64_t k = ((a.integer("k", 1) % 4) + 4) % 4;
  const Ints dims = a.ints("dims", Ints{0, 1});
  if (dims.size() != 2) a.fail("`dims` must be two axes");
  if (!a.ok()) return {};
  const int one = a.axis(dims[0], x.rank()), other = a.axis(dims[1], x.rank());
  if (k == 0) return {x};
  if (k == 2) return {reverse(x, {one, other})};
  return {k == 1 ? reverse(transpose(x, one, other), {one}) : transpose(reverse(x, {one}), one, other)};
}

Results rolled(Arguments& a) {
  const Tensor given = a.tensor("self");
  const Ints shifts = a.ints("shifts"), dims = a.ints("dims", Ints());
  Tensor x = dims.empty() ? reshape(given, {product(given.shape())}) : given;
  if (!dims.empty() && dims.size() != shifts.size()) a.fail("`shifts` and `dims` have other lengths");
  for (size_t i = 0; a.ok() && i < shifts.size(); ++i) {
    const int at = dims.empty() ? 0 : a.axis(dims[i], x.rank());
    const Dim n = x.extent(at);
    const auto extent = known(n);
    if (x.rank() == 0 || extent == 0) continue;
    const Dim back = extent ? Dim(((shifts[i] % *extent) + *extent) % *extent) : Dim(shifts[i]);
    if (known(back) == 0) continue;
    if (crops(back)) {  // of an extent that is known when the graph runs
      x = cat({slice(x, at, Dim(0) - back, n), slice(x, at, 0, Dim(0) - back)}, at);
    } else {
      x = cat({slice(x, at, n - back, n), slice(x, at, 0, n - back)}, at);
    }
  }
  return {dims.empty() ? reshape(x, given.shape()) : x};
}

Results triangle_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int64_t diagonal = a.integer("diagonal", 0);
  return {a.base() == "tril" ? tril(x, diagonal) : triu(x, diagonal)};
}

// --- parts set to another ---

Results copied(Arguments& a) {
  const Tensor x = a.tensor("self"), source = a.tensor("src");
  return {a.ok() ? broadcast_to(like(source, x), x.shape()) : Tensor()};
}

Results slice_set(Arguments& a) {
  const Tensor x = a.tensor("self"), source = a.tensor("src");
  const int at = a.axis("dim", x.rank(), 0);
  const SliceBounds bounds = slice_bounds(a, x.extent(at));
  if (!a.ok()) return {};
  std::vector<Index> places(static_cast<size_t>(at), Index(all));
  places.emplace_back(range(bounds.start, bounds.end, bounds.step));
  return {set_at(x, places, like(source, x))};
}

Results selected_set(Arguments& a) {
  const Tensor x = a.tensor("self"), source = a.tensor("src");
  const int at = a.axis("dim", x.rank());
  const Dim place = counted_from_end(a.dim("index"), x.extent(at));
  if (!a.ok()) return {};
  std::vector<Index> places(static_cast<size_t>(at), Index(all));
  places.emplace_back(place);
  return {set_at(x, places, like(source, x))};
}

Results diagonal_set(Arguments& a) {
  const Tensor x = a.tensor("self"), source = a.tensor("src");
  const int64_t offset = a.integer("offset", 0);
  const int one = a.axis("dim1", x.rank(), 0), other = a.axis("dim2", x.rank(), 1);
  if (!a.ok()) return {};
  const Tensor line = iota(i64, {source.extent(-1)}, 0);
  const Tensor down = offset < 0 ? line + -offset : line, right = offset > 0 ? line + offset : line;
  return {index_put(x, {down, right}, {one, other}, move_axis(like(source, x), source.rank() - 1, 0))};
}

// A vector as a matrix's diagonal, the last axis as one of the last two.
Results diagonal_embedded(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int64_t offset = a.integer("offset", 0);
  const int rank = x.rank() + 1;
  const int one = a.axis("dim1", rank, -2), other = a.axis("dim2", rank, -1);
  if (!a.ok()) return {};
  const Dim n = x.extent(-1) + (offset < 0 ? -offset : offset);
  const Shape square = {n, n};
  const Tensor down = iota(i64, square, 0), right = iota(i64, square, 1);
  const Tensor place = offset < 0 ? right : down;
  const Tensor spread = take(x, min(place, x.extent(-1) - 1), -1);  // […, n, n]
  const Tensor y = where(right - down == offset, spread, 0);
  Axes order = all_but(rank, Axes{one, other}), target(static_cast<size_t>(rank));
  for (size_t i = 0; i < order.size(); ++i) target[static_cast<size_t>(order[i])] = static_cast<int>(i);
  target[static_cast<size_t>(one)] = rank - 2;
  target[static_cast<size_t>(other)] = rank - 1;
  return {permute(y, target)};
}

// Differences of neighbours along an axis, n times.
Results differences(Arguments& a) {
  Tensor x = a.tensor("self");
  const int64_t n = a.integer("n", 1);
  const int at = a.axis("dim", x.rank(), -1);
  if (a.ok() && x.rank() == 0) a.fail("a scalar has no neighbours");
  if (n < 0 || n > 64) a.fail("differences " + std::to_string(n) + " times");
  if (!a.ok()) return {};
  std::vector<Tensor> parts = {x};
  if (a.has("prepend")) parts.insert(parts.begin(), a.tensor("prepend"));
  if (a.has("append")) parts.push_back(a.tensor("append"));
  x = cat(alike(parts), at);
  for (int64_t i = 0; i < n && !same(x.extent(at), 0); ++i) {
    const Dim last = x.extent(at);
    const Tensor behind = slice(x, at, 1, last), front = slice(x, at, 0, last - 1);
    x = x.element() == i1 ? behind ^ front : behind - front;
  }
  return {x};
}

// Vectors are columns.
Results columns_stacked(Arguments& a) {
  const std::vector<Tensor> given = a.tensors("tensors");
  if (given.empty()) a.fail("no tensors");
  std::vector<Tensor> parts;
  for (const Tensor& each : alike(given)) {
    parts.push_back(each.rank() < 2 ? reshape(each, {product(each.shape()), 1}) : each);
  }
  return {a.ok() ? cat(parts, 1) : Tensor()};
}

// Matrices along the diagonal of one.
Results block_diagonal(Arguments& a) {
  const std::vector<Tensor> given = a.tensors("tensors");
  if (given.empty()) a.fail("no tensors");
  if (!a.ok()) return {};
  std::vector<Tensor> parts, rows;
  Dim width = 0, before = 0;
  for (const Tensor& each : alike(given)) {
    if (each.rank() > 2) a.fail("a tensor of more than two axes");
    parts.push_back(each.rank() < 2 ? reshape(each, {1, product(each.shape())}) : each);
    width = width + parts.back().extent(1);
  }
  if (!a.ok()) return {};
  for (const Tensor& each : parts) {
    rows.push_back(pad(each, {0, before}, {0, width - before - each.extent(1)}));
    before = before + each.extent(1);
  }
  return {cat(rows, 0)};
}

constexpr Function kJoinFunctions[] = {
    {"cat", joined},
    {"concat", joined},
    {"concatenate", joined},
    {"constant_pad_nd", constant_padded},
    {"copy", copied},
    {"diag_embed", diagonal_embedded},
    {"diagonal_scatter", diagonal_set},
    {"dstack", stacked_along},
    {"flip", flipped},
    {"fliplr", flipped},
    {"flipud", flipped},
    {"hstack", stacked_along},
    {"pad", padded},
    {"reflection_pad1d", reflected},
    {"reflection_pad2d", reflected},
    {"reflection_pad3d", reflected},
    {"repeat", repeated},
    {"repeat_interleave.self_int", each_repeated},
    {"replication_pad1d", replicated},
    {"replication_pad2d", replicated},
    {"replication_pad3d", replicated},
    {"roll", rolled},
    {"rot90", turned},
    {"select_scatter", selected_set},
    {"slice_scatter", slice_set},
    {"stack", stacked},
    {"tile", repeated},
    {"tril", triangle_of},
    {"triu", triangle_of},
    {"vstack", stacked_along},
    {"block_diag", block_diagonal},
    {"column_stack", columns_stacked},
    {"diff", differences},
    {"row_stack", stacked_along},
};

}  // namespace

std::span<const Function> join_functions() { return kJoinFunctions; }

}  // namespace kiln::graph::aten
