// Functions whose places are data.
#include <algorithm>
#include <cmath>
#include <limits>

#include "aten/import/functions.h"
#include "kiln/graph/control.h"

namespace kiln::graph::aten {
namespace {

Results embedded(Arguments& a) {
  const Tensor table = a.tensor("weight"), ids = a.tensor("indices");
  return {a.ok() ? embedding(table, ids) : Tensor()};
}

// --- index and index_put ---

// The axes that have an index, the indices broadcast together, and where NumPy puts their axes.
struct Points {
  std::vector<Tensor> indices;
  Axes axes;
  Shape shape;
  int at = 0;
};

Points points_of(Arguments& a, const Tensor& x) {
  Points out;
  const auto given = a.optional_tensors("indices");
  if (given.size() > static_cast<size_t>(x.rank())) a.fail("more indices than axes");
  for (size_t i = 0; a.ok() && i < given.size(); ++i) {
    if (!given[i]) continue;
    if (given[i]->element() == i1) a.fail("a mask among the indices, whose extent is data");
    out.axes.push_back(static_cast<int>(i));
    out.indices.push_back(is_float(*given[i]) ? Tensor() : *given[i]);
    out.shape = broadcast_shape(out.shape, given[i]->shape());
  }
  if (a.ok() && out.axes.empty()) a.fail("no indices");
  if (!a.ok()) return out;
  const bool neighbours = out.axes.back() - out.axes.front() + 1 == static_cast<int>(out.axes.size());
  out.at = neighbours ? out.axes.front() : 0;
  for (Tensor& each : out.indices) each = broadcast_to(each, out.shape);
  return out;
}

// Axes of a result with the points' ones at their place, as those of one with these in front.
Axes points_first(const Points& points, int rank) {
  const int count = static_cast<int>(points.shape.size());
  Axes out;
  for (int i = 0; i < count; ++i) out.push_back(points.at + i);
  for (int i = 0; i < rank; ++i) {
    if (i < points.at || i >= points.at + count) out.push_back(i);
  }
  return out;
}

Axes inverse(const Axes& order) {
  Axes out(order.size());
  for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = static_cast<int>(i);
  return out;
}

Results indexed(Arguments& a) {
  const Tensor x = a.tensor("self");
  const Points points = points_of(a, x);
  if (!a.ok()) return {};
  const Tensor y = index(x, points.indices, points.axes);
  return {permute(y, inverse(points_first(points, y.rank())))};
}

// A mask alone, with one value or one for each place: a choice.
std::optional<Tensor> put_by_mask(Arguments& a, const Tensor& x, const Tensor& values) {
  const auto given = a.optional_tensors("indices");
  if (!a.ok() || given.size() != 1 || !given[0] || given[0]->element() != i1) return std::nullopt;
  const bool one_value = values.rank() == 0 || (values.rank() == 1 && same(values.extent(0), 1));
  if (!one_value) {
    a.fail("a mask with several values, whose places are data");
    return Tensor();
  }
  Shape shape = given[0]->shape();
  shape.resize(static_cast<size_t>(std::max(x.rank(), given[0]->rank())), Dim(1));
  const Tensor mask = reshape(*given[0], shape), value = like(reshape(values, {}), x);
  return where(mask, a.flag("accumulate", false) ? x + value : value, x);
}

Results put(Arguments& a) {
  const Tensor x = a.tensor("self"), values = a.tensor("values");
  if (!a.ok()) return {};
  if (const auto chosen = put_by_mask(a, x, values)) return {*chosen};
  const Points points = points_of(a, x);
  if (!a.ok()) return {};
  Shape parts;
  for (const int axis : all_but(x.rank(), points.axes)) parts.push_back(x.extent(axis));
  parts.insert(parts.begin() + std::min<ptrdiff_t>(points.at, static_cast<ptrdiff_t>(parts.size())),
               points.shape.begin(), points.shape.end());
  const int rank = static_cast<int>(parts.size());
  const Tensor spread = permute(broadcast_to(like(values, x), parts), points_first(points, rank));
  const bool adds = a.flag("accumulate", false);
  if (adds && x.element() == i1) {
    const Tensor counts = index_put(as(x, i32), points.indices, points.axes, as(spread, i32), ScatterKind::kAdd);
    return {counts != 0};
  }
  return {index_put(x, points.indices, points.axes, spread, adds ? ScatterKind::kAdd : ScatterKind::kSet)};
}

// --- along an axis ---

Results rows_selected(Arguments& a) {
  const Tensor given = a.tensor("self"), places = a.tensor("index");
  const int at = a.axis("dim", given.rank());
  if (!a.ok()) return {};
  const Tensor x = given.rank() == 0 ? reshape(given, {1}) : given;
  const Tensor y = take(x, places.rank() == 0 ? reshape(places, {1}) : places, at);
  return {given.rank() == 0 ? reshape(y, {}) : y};
}

std::optional<ScatterKind> kind_named(const std::string& name) {
  if (name == "add" || name == "sum" || name == "mean") return ScatterKind::kAdd;
  if (name == "multiply" || name == "prod") return ScatterKind::kMul;
  if (name == "amin") return ScatterKind::kMin;
  if (name == "amax") return ScatterKind::kMax;
  return std::nullopt;
}

// Source with the axis in front, which index_put wants there.
Tensor axis_first(const Tensor& x, int axis) { return x.rank() == 0 ? reshape(x, {1}) : move_axis(x, axis, 0); }

Tensor put_rows(const Tensor& given, int axis, const Tensor& places, const Tensor& source, ScatterKind kind) {
  const Tensor x = given.rank() == 0 ? reshape(given, {1}) : given;
  const Tensor index = places.rank() == 0 ? reshape(places, {1}) : places;
  const Tensor y = index_put(x, {index}, {axis}, axis_first(source, axis), kind);
  return given.rank() == 0 ? reshape(y, {}) : y;
}

Results rows_added(Arguments& a) {
  const Tensor x = a.tensor("self"), places = a.tensor("index");
  Tensor source = a.tensor("source");
  const Term alpha = a.term("alpha", Term(int64_t{1}));
  const int at = a.axis("dim", x.rank());
  if (!a.ok()) return {};
  const auto* whole = std::get_if<int64_t>(&alpha);
  if (x.element() == i1) {
    const Tensor marks = as(as(tensor_of(alpha), i1) & source, i32);
    return {put_rows(as(x, i32), at, places, marks, ScatterKind::kAdd) != 0};
  }
  if (!whole || *whole != 1) source = like(binary(operator*, source, alpha), source);
  return {put_rows(x, at, places, like(source, x), ScatterKind::kAdd)};
}

Results rows_copied(Arguments& a) {
  const Tensor x = a.tensor("self"), places = a.tensor("index"), source = a.tensor("source");
  const int at = a.axis("dim", x.rank());
  return {a.ok() ? put_rows(x, at, places, like(source, x), ScatterKind::kSet) : Tensor()};
}

Results rows_filled(Arguments& a) {
  const Tensor x = a.tensor("self"), places = a.tensor("index");
  const Term value = a.term("value");
  const int at = a.axis("dim", x.rank());
  if (!a.ok()) return {};
  const Tensor x1 = x.rank() == 0 ? reshape(x, {1}) : x;
  const Tensor index = places.rank() == 0 ? reshape(places, {1}) : places;
  const Tensor y = index_put(x1, {index}, {at}, as(value, x.element()), ScatterKind::kSet);
  return {reshape(y, x.shape())};
}

// --- gather and scatter: the index may be smaller along other axes, and is of a part of x then ---

Tensor part_like(Tensor x, const Tensor& index, int axis) {
  for (int i = 0; i < index.rank() && i < x.rank(); ++i) {
    if (i != axis && !same(x.extent(i), index.extent(i))) x = slice(x, i, 0, index.extent(i));
  }
  return x;
}
Tensor first_places(Tensor x, const Tensor& index) { return part_like(x, index, -1); }

// x with its first places along all axes those of the part.
Tensor with_part(const Tensor& x, Tensor part) {
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    if (same(part.extent(axis), x.extent(axis))) continue;
    Tensor rest = x;
    for (int before = 0; before < axis; ++before) {
      if (!same(rest.extent(before), part.extent(before))) rest = slice(rest, before, 0, part.extent(before));
    }
    part = cat({part, slice(rest, axis, part.extent(axis), x.extent(axis))}, axis);
  }
  return part;
}

bool is_empty(const Tensor& x) { return same(product(x.shape()), 0); }

// A scalar has one axis here, which it has no more in the end.
struct Along {
  Tensor x, index;
  int axis;
  bool scalar;
  Tensor back(const Tensor& y) const { return scalar ? reshape(y, {}) : y; }
};
Along along(Arguments& a) {
  Along out{a.tensor("self"), a.tensor("index"), 0, false};
  out.axis = a.axis("dim", out.x.rank());
  if (!a.ok()) return out;
  out.scalar = out.x.rank() == 0;
  if (out.scalar) out.x = reshape(out.x, {1});
  if (out.index.rank() == 0) out.index = reshape(out.index, {1});
  if (!same(Dim(out.index.rank()), Dim(out.x.rank())) && !is_empty(out.index)) {
    a.fail("`index` has another rank than the tensor");
  }
  return out;
}

Results gathered(Arguments& a) {
  const bool index_is_scalar = a.tensor("index").rank() == 0;
  const Along by = along(a);
  if (!a.ok()) return {};
  if (is_empty(by.index)) return {full(by.index.shape(), 0, by.x.element())};
  const Tensor y = gather(part_like(by.x, by.index, by.axis), by.index, by.axis);
  return {index_is_scalar ? reshape(y, {}) : y};
}

Results scattered(Arguments& a) {
  const Along by = along(a);
  const Term source = a.term(a.has("src") ? "src" : "value");
  const std::string name = a.word("reduce", "");
  std::optional<ScatterKind> kind = a.base() == "scatter_add" ? ScatterKind::kAdd : ScatterKind::kSet;
  if (!name.empty()) kind = kind_named(name);
  if (!kind) a.fail("there is no way to combine " + name);
  if (!a.ok()) return {};
  if (is_empty(by.index)) return {by.back(by.x)};
  const Tensor part = part_like(by.x, by.index, by.axis);
  const auto* tensor = std::get_if<Tensor>(&source);
  const bool flags = by.x.element() == i1 && *kind != ScatterKind::kSet;
  const ElementType in = flags ? i32 : by.x.element();
  Tensor y;
  if (tensor && a.has("src")) {
    const Tensor values = tensor->rank() == 0 ? reshape(*tensor, {1}) : *tensor;
    y = scatter(as(part, in), by.index, as(first_places(values, by.index), in), by.axis, *kind);
  } else {
    y = scatter(as(part, in), by.index, as(source, in), by.axis, *kind);
  }
  return {by.back(with_part(by.x, as(y, by.x.element())))};
}

// What a kind begins with.
Operand neutral(ScatterKind kind, ElementType type) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (kind == ScatterKind::kAdd) return as(Term(int64_t{0}), type);
  if (kind == ScatterKind::kMul) return as(Term(int64_t{1}), type);
  const bool least = kind == ScatterKind::kMax;
  if (dsl::is_float(type)) return least ? -infinity : infinity;
  const int bits = dsl::info(type).bits;
  if (!dsl::info(type).is_signed) return least ? Operand(uint64_t{0}) : Operand(~uint64_t{0} >> (64 - bits));
  const int64_t most = static_cast<int64_t>(~uint64_t{0} >> 1) >> (64 - bits);
  return least ? -most - 1 : most;
}

// Where something is written, and how often: a scatter of ones.
Tensor written_count(const Tensor& x, const Tensor& index, int axis) {
  return scatter(full(x.shape(), 0, i32), index, Operand(1), axis, ScatterKind::kAdd);
}

Tensor mean_of(const Tensor& total, const Tensor& count, ElementType type) {
  if (dsl::is_float(type)) return total / as(count, total.element());
  const Tensor n = as(count, type), r = total % n, q = total / n;
  return dsl::info(type).is_signed ? where((r < 0), q - 1, q) : q;
}

Results scatter_reduced(Arguments& a) {
  const Along by = along(a);
  const Tensor given = a.tensor("src");
  const std::string name = a.word("reduce", "");
  const bool includes = a.flag("include_self", true);
  const auto kind = kind_named(name);
  if (!kind) a.fail("there is no way to combine `" + name + "`");
  if (!a.ok()) return {};
  if (is_empty(by.index)) return {by.back(by.x)};
  const Tensor source = given.rank() == 0 ? reshape(given, {1}) : given;
  const ElementType type = by.x.element(), in = type == i1 ? i32 : dsl::is_small_float(type) ? f32 : type;
  Tensor x = part_like(as(by.x, in), by.index, by.axis);
  const Tensor count = written_count(x, by.index, by.axis);
  if (!includes) x = where(count != 0, neutral(*kind, in), x);
  Tensor y = scatter(x, by.index, as(first_places(source, by.index), in), by.axis, *kind);
  if (name == "mean") y = where(count != 0, mean_of(y, includes ? count + 1 : max(count, 1), in), y);
  return {by.back(with_part(by.x, as(y, type)))};
}

// index_reduce: rows of the source combined with those that the index names.
Results rows_reduced(Arguments& a) {
  const Tensor given = a.tensor("self"), index = a.tensor("index"), source = a.tensor("source");
  const std::string name = a.word("reduce", "");
  const bool includes = a.flag("include_self", true);
  const auto kind = kind_named(name);
  const int at = a.axis("dim", given.rank());
  if (!kind) a.fail("there is no way to combine `" + name + "`");
  if (!a.ok()) return {};
  const ElementType type = given.element(), in = dsl::is_small_float(type) ? f32 : type;
  Tensor x = given.rank() == 0 ? reshape(as(given, in), {1}) : as(given, in);
  const Tensor places = index.rank() == 0 ? reshape(index, {1}) : index;
  const Tensor rows = index_put(full({x.extent(at)}, 0, i32), {places}, {0}, Operand(1), ScatterKind::kAdd);
  Shape beside(static_cast<size_t>(x.rank()), Dim(1));
  beside[static_cast<size_t>(at)] = x.extent(at);
  const Tensor count = reshape(rows, beside);
  if (!includes) x = where(count != 0, neutral(*kind, in), x);
  Tensor y = put_rows(x, at, places, as(source, in), *kind);
  if (name == "mean") y = where(count != 0, mean_of(y, includes ? count + 1 : max(count, 1), in), y);
  return {reshape(as(y, type), given.shape())};
}

// Elements by their row-major numbers.
Results taken(Arguments& a) {
  const Tensor x = a.tensor("self"), places = a.tensor("index");
  return {a.ok() ? index(reshape(x, {product(x.shape())}), {places}, {0}) : Tensor()};
}

Results put_at_numbers(Arguments& a) {
  const Tensor x = a.tensor("self"), places = a.tensor("index"), source = a.tensor("source");
  if (!a.ok()) return {};
  const Tensor values = reshape(like(source, x), places.shape());
  const bool adds = a.flag("accumulate", false);
  const ElementType in = adds && x.element() == i1 ? i32 : x.element();
  const Tensor y = index_put(reshape(as(x, in), {product(x.shape())}), {places}, {0}, as(values, in),
                             adds ? ScatterKind::kAdd : ScatterKind::kSet);
  return {reshape(in == i32 && x.element() == i1 ? y != 0 : y, x.shape())};
}

Results gathered_along(Arguments& a) {
  Tensor x = a.tensor("self"), places = a.tensor("indices");
  if (!a.ok()) return {};
  if (!a.has("dim")) {
    x = reshape(x, {product(x.shape())});
    places = reshape(places, {product(places.shape())});
  }
  const int at = a.axis("dim", x.rank(), 0);
  if (!a.ok()) return {};
  Shape shape = broadcast_shape(without(x.shape(), at), without(places.shape(), at));
  const Tensor y = broadcast_to(x, inserted(shape, at, x.extent(at)));
  return {gather(y, broadcast_to(places, inserted(shape, at, places.extent(at))), at)};
}

// The first elements of the source, in order, where the mask is true.
Results mask_scattered(Arguments& a) {
  const Tensor x = a.tensor("self"), source = a.tensor("source"), given = truth(a.tensor("mask"));
  if (!a.ok()) return {};
  const Shape whole = broadcast_shape(x.shape(), given.shape());
  const Dim count = product(whole);
  const Tensor mask = reshape(broadcast_to(given, whole), {count}), old = reshape(broadcast_to(x, whole), {count});
  if (is_empty(source)) return {reshape(old, whole)};
  const Tensor place = max(cumsum(as(mask, i64), 0) - 1, 0);
  const Tensor from = reshape(like(source, x), {product(source.shape())});
  return {reshape(where(mask, index(from, {min(place, from.extent(0) - 1)}, {0}), old), whole)};
}

// --- bags, bins ---

Results bags(Arguments& a) {
  const Tensor table = a.tensor("weight"), ids = a.tensor("indices");
  Tensor offsets = a.tensor("offsets");
  const int64_t mode = a.integer("mode", 0), padding = a.integer("padding_idx", -1);
  Operand weights = a.optional("per_sample_weights");
  if (mode < 0 || mode > 2) a.fail("`mode` is 0, 1 or 2");
  if (!a.ok()) return {};
  if (a.flag("include_last_offset", false)) offsets = slice(offsets, 0, 0, offsets.extent(0) - 1);
  const auto by = static_cast<BagMode>(mode);
  if (padding < 0) return {embedding_bag(table, ids, offsets, by, weights)};
  if (mode == 2) a.fail("the greatest of a bag that leaves out `padding_idx`");
  const Tensor kept = as(ids != padding, table.element());
  if (mode == 0) {
    const Tensor factors = weights.present() ? Tensor(weights.tensor() * kept) : kept;
    return {embedding_bag(table, ids, offsets, BagMode::kSum, factors)};
  }
  const Tensor total = embedding_bag(table, ids, offsets, BagMode::kSum, kept);
  const Tensor ones = full({table.extent(0), 1}, 1, table.element());
  return {total / max(embedding_bag(ones, ids, offsets, BagMode::kSum, kept), 1)};
}

Results binned(Arguments& a) {
  const Tensor x = a.tensor("self");
  const Dim bins = a.dim("minlength", Dim(0));
  if (same(bins, 0)) a.fail("the number of bins is data; give it as `minlength`");
  const Operand weights = a.optional("weights");
  if (!a.ok()) return {};
  if (!weights.present()) return {histogram(x, bins)};
  const Tensor values = is_float(weights.tensor()) ? weights.tensor() : as(weights.tensor(), f64);
  return {index_put(full({bins}, 0, values.element()), {x}, {0}, values, ScatterKind::kAdd)};
}

Results histogram_of(Arguments& a) {
  const Tensor given = a.tensor("self");
  const int64_t bins = a.integer("bins", 100);
  const double low = a.real("min", 0), high = a.real("max", 0);
  if (low == high) a.fail("equal bounds stand for those of the data");
  if (!a.ok()) return {};
  const Tensor x = reshape(wide(given), {product(given.shape())});
  const Tensor place = cast(floor((x - low) * as_double(bins) / (high - low)), i64);
  return {like(histogram(where(x == high, bins - 1, where((x < low) | (x > high), -1, place)), bins), given)};
}

// --- places among sorted values ---

Results searched(Arguments& a) {
  const bool buckets = a.base() == "bucketize";
  const Tensor edges = a.tensor(buckets ? "boundaries" : "sorted_sequence");
  const Term given = a.term("self");
  const bool right = a.flag("right", false) || a.word("side", "left") == "right";
  if (a.has("sorter")) a.fail("`sorter` is not supported");
  if (!a.ok()) return {};
  const Tensor x = tensor_of(given);
  const ElementType type = promoted(edges.element(), x.element());
  const Tensor values = reshape(as(x, type), inserted(x.shape(), x.rank(), 1));
  Tensor line = as(edges, type);
  if (edges.rank() > 1) line = reshape(line, inserted(edges.shape(), edges.rank() - 1, 1));
  // How many are below, or not above.
  const Tensor before = right ? line <= values : line < values;
  return {as(sum(as(before, i64), {-1}), a.flag("out_int32", false) ? i32 : i64)};
}

// Places that the mask leaves out are brought inside; there the value is `fill`, and nothing is added.
std::vector<Tensor> places_inside(Arguments& a, const Tensor& x, const Tensor& mask, Axes& axes) {
  std::vector<Tensor> out;
  const auto given = a.optional_tensors("indices");
  for (size_t i = 0; a.ok() && i < given.size() && i < static_cast<size_t>(x.rank()); ++i) {
    if (!given[i]) continue;
    const int axis = static_cast<int>(i);
    axes.push_back(axis);
    const Tensor place = where(mask, as(*given[i], i64), 0);
    const Dim n = x.extent(axis);
    out.push_back(min(max(where(place < 0, place + n, place), 0), max(n - 1, Dim(0))));
  }
  if (a.ok() && out.size() != static_cast<size_t>(x.rank())) a.fail("an axis without an index");
  return out;
}

Results masked_points(Arguments& a) {
  const Tensor x = a.tensor("self"), mask = truth(a.tensor("mask"));
  Axes axes;
  const auto places = places_inside(a, x, mask, axes);
  const Term fill = a.term("fill");
  return {a.ok() ? where(mask, index(x, places, axes), as(fill, x.element())) : Tensor()};
}

Results masked_points_added(Arguments& a) {
  const Tensor x = a.tensor("self"), mask = truth(a.tensor("mask")), values = a.tensor("values");
  Axes axes;
  const auto places = places_inside(a, x, mask, axes);
  if (!a.ok()) return {};
  const ElementType in = x.element() == i1 ? i32 : x.element();
  const Tensor y = index_put(as(x, in), places, axes, where(mask, as(values, in), 0), ScatterKind::kAdd);
  return {as(y, x.element())};
}

// Whether an element is one of the test elements.
Results is_among(Arguments& a) {
  const Term x = a.term(a.has("elements") ? "elements" : "element");
  const Term tests = a.term(a.has("test_elements") ? "test_elements" : "test_element");
  const bool inverts = a.flag("invert", false);
  if (!a.ok()) return {};
  const Tensor each = tensor_of(x), others = tensor_of(tests);
  const Tensor line = reshape(others, {product(others.shape())});
  const Tensor found = any(binary(operator==, reshape(each, inserted(each.shape(), each.rank(), 1)), line), {-1});
  return {inverts ? ~found : found};
}

constexpr Function kIndexFunctions[] = {
    {"bincount", binned},
    {"bucketize.Scalar", searched},
    {"bucketize.Tensor", searched},
    {"embedding", embedded},
    {"_embedding_bag", bags},
    {"_embedding_bag_forward_only", bags},
    {"gather", gathered},
    {"histc", histogram_of},
    {"index.Tensor", indexed},
    {"index_add", rows_added},
    {"index_copy", rows_copied},
    {"index_fill.int_Scalar", rows_filled},
    {"index_fill.int_Tensor", rows_filled},
    {"index_put", put},
    {"index_reduce", rows_reduced},
    {"index_select", rows_selected},
    {"masked_scatter", mask_scattered},
    {"put", put_at_numbers},
    {"scatter.reduce", scattered},
    {"scatter.src", scattered},
    {"scatter.value", scattered},
    {"scatter.value_reduce", scattered},
    {"scatter_add", scattered},
    {"scatter_reduce.two", scatter_reduced},
    {"searchsorted.Scalar", searched},
    {"searchsorted.Tensor", searched},
    {"take", taken},
    {"take_along_dim", gathered_along},
    {"_unsafe_index.Tensor", indexed},
    {"_unsafe_index_put", put},
    {"_index_put_impl_", put},
    {"_unsafe_masked_index", masked_points},
    {"_unsafe_masked_index_put_accumulate", masked_points_added},
    {"isin.Scalar_Tensor", is_among},
    {"isin.Tensor_Scalar", is_among},
    {"isin.Tensor_Tensor", is_among},
};

}  // namespace

std::span<const Function> index_functions() { return kIndexFunctions; }

}  // namespace kiln::graph::aten
