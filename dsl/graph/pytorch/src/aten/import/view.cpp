// Functions that show a tensor's elements at other places.
#include <algorithm>

#include "aten/import/functions.h"
#include "aten/import/slices.h"

namespace kiln::graph::aten {
namespace {

Results itself(Arguments& a) { return {a.tensor("self")}; }
Results without_gradient(Arguments& a) { return {stop_gradient(a.tensor("self"))}; }

Results reshaped(Arguments& a) {
  const Tensor x = a.tensor("self");
  return {reshape(x, a.shape(a.has("size") ? "size" : "shape"))};
}

Results as_other_shape(Arguments& a) {
  const Tensor x = a.tensor("self"), other = a.tensor("other");
  const bool expands = a.base() == "expand_as";
  return {expands ? broadcast_to(x, other.shape()) : reshape(x, other.shape())};
}

// The bits as another type; of another width only where that is the last axis's matter.
Results as_other_type(Arguments& a) {
  const Tensor x = a.tensor("self");
  const ElementType to = a.element("dtype", x.element());
  if (dsl::info(to).bytes != dsl::info(x.element()).bytes) a.fail("a view as a type of another width");
  return {bitcast(x, to)};
}

Results expanded(Arguments& a) {
  const Tensor x = a.tensor("self");
  Shape size = a.shape("size");
  const int missing = static_cast<int>(size.size()) - x.rank();
  if (missing < 0) a.fail("`size` has fewer axes than the tensor");
  for (int i = 0; a.ok() && i < x.rank(); ++i) {
    Dim& extent = size[static_cast<size_t>(missing + i)];
    if (known(extent) == -1) extent = x.extent(i);
  }
  return {broadcast_to(x, size)};
}

Results flattened(Arguments& a) {
  const Tensor x = a.tensor("self");
  const bool ravels = a.base() == "ravel";
  const int first = ravels ? 0 : a.axis("start_dim", x.rank(), 0);
  const int last = ravels ? std::max(x.rank() - 1, 0) : a.axis("end_dim", x.rank(), -1);
  return {flatten(x, first, last)};
}

Results unflattened(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int at = a.axis("dim", x.rank());
  Shape shape = x.shape(), sizes = a.shape("sizes");
  if (!a.ok() || x.rank() == 0) return {x};
  Dim rest = x.extent(at);
  Dim known_part = 1;
  for (const Dim& each : sizes) known_part = known(each) == -1 ? known_part : known_part * each;
  for (Dim& each : sizes) each = known(each) == -1 ? rest / known_part : each;
  shape.erase(shape.begin() + at);
  shape.insert(shape.begin() + at, sizes.begin(), sizes.end());
  return {reshape(x, shape)};
}

// --- orders of axes ---

Results permuted(Arguments& a) {
  const Tensor x = a.tensor("self");
  Axes order;
  for (const int64_t each : a.ints("dims")) order.push_back(a.axis(each, x.rank()));
  return {permute(x, order)};
}

Results transposed(Arguments& a) {
  const Tensor x = a.tensor("self");
  const bool axes = a.has("axis0");  // swapaxes
  const int one = a.axis(axes ? "axis0" : "dim0", x.rank()), other = a.axis(axes ? "axis1" : "dim1", x.rank());
  return {x.rank() == 0 ? x : transpose(x, one, other)};
}

Results matrix_transposed(Arguments& a) {
  const Tensor x = a.tensor("self");
  if (a.base()[0] == 'm') return {transpose(x, -2, -1)};
  if (x.rank() > 2) a.fail("a tensor of more than two axes");
  return {x.rank() < 2 ? x : transpose(x, 0, 1)};
}

// movedim, and swapaxes' like.
Results moved(Arguments& a) {
  const Tensor x = a.tensor("self");
  const Ints from = a.ints("source"), to = a.ints("destination");
  if (from.size() != to.size()) a.fail("as many places as axes are needed");
  if (!a.ok() || x.rank() == 0) return {x};
  Axes order(static_cast<size_t>(x.rank()), -1), sources;
  for (size_t i = 0; a.ok() && i < from.size(); ++i) {
    sources.push_back(a.axis(from[i], x.rank()));
    order[static_cast<size_t>(a.axis(to[i], x.rank()))] = sources.back();
  }
  auto rest = all_but(x.rank(), sources);
  size_t next = 0;
  for (int& each : order) {
    if (each < 0 && next < rest.size()) each = rest[next++];
  }
  return {permute(x, order)};
}

// --- axes of extent 1 ---

Results squeezed(Arguments& a) {
  const Tensor x = a.tensor("self");
  const Shape shape = x.shape();
  const bool all = !a.has("dim");
  std::vector<bool> named(shape.size(), all);
  for (const int64_t each : a.ints("dim", Ints())) {
    const auto at = static_cast<size_t>(a.axis(each, x.rank()));
    if (at < named.size()) named[at] = true;
  }
  Shape left;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!named[i] || !same(shape[i], 1)) left.push_back(shape[i]);
  }
  return {reshape(x, left)};
}

Results unsqueezed(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int at = a.axis("dim", x.rank() + 1);
  return {reshape(x, inserted(x.shape(), at, 1))};
}

Results at_least_axes(Arguments& a) {
  Tensor x = a.tensor("self");
  const int rank = a.base()[8] - '0';  // atleast_2d
  if (x.rank() == 0) x = reshape(x, {1});
  if (rank >= 2 && x.rank() == 1) x = reshape(x, inserted(x.shape(), 0, 1));
  if (rank >= 3 && x.rank() == 2) x = reshape(x, inserted(x.shape(), 2, 1));
  return {x};
}

// --- parts ---

Results selected(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int at = a.axis("dim", x.rank());
  if (a.ok() && x.rank() == 0) a.fail("a scalar has no axis to select from");
  const Dim place = counted_from_end(a.dim("index"), x.extent(at));
  if (!a.ok()) return {};
  return {reshape(slice(x, at, place, place + 1), without(x.shape(), at))};
}

Results sliced(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int at = a.axis("dim", x.rank(), 0);
  const SliceBounds bounds = slice_bounds(a, x.extent(at));
  if (!a.ok()) return {};
  return {slice(x, at, bounds.start, bounds.end, bounds.step)};
}

Results narrowed(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int at = a.axis("dim", x.rank());
  const Dim start = counted_from_end(a.dim("start"), x.extent(at));
  return {slice(x, at, start, start + a.dim("length"))};
}

// Consecutive parts of the given extents.
Results in_parts(const Tensor& x, int axis, const std::vector<Dim>& sizes) {
  Results out;
  Dim at = 0;
  for (const Dim& size : sizes) {
    out.push_back(slice(x, axis, at, at + size));
    at = at + size;
  }
  return out;
}

Results split_by_sizes(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int at = a.axis("dim", x.rank(), 0);
  const Shape sizes = a.shape(a.has("split_sizes") ? "split_sizes" : "split_size");
  return a.ok() ? in_parts(x, at, sizes) : Results();
}

// The number of the results says how many parts there are where that is not known from the extent.
Results in_equal_parts(Arguments& a, const Tensor& x, int at, const Dim& size, int64_t count) {
  std::vector<Dim> sizes;
  const Dim extent = x.extent(at);
  if (count < 1 || count > int64_t{1} << 20) a.fail(std::to_string(count) + " parts");
  for (int64_t i = 0; a.ok() && i < count; ++i) {
    sizes.push_back(i + 1 < count ? size : extent - size * (count - 1));
  }
  return a.ok() ? in_parts(x, at, sizes) : Results();
}

Results split_by_size(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int at = a.axis("dim", x.rank(), 0);
  const Dim size = a.dim("split_size");
  const auto extent = known(x.extent(at)), part = known(size);
  if (!a.ok() || part == 0) return {x};
  const int64_t count =
      extent && part ? std::max<int64_t>(1, (*extent + *part - 1) / *part) : static_cast<int64_t>(a.result_count());
  return in_equal_parts(a, x, at, size, count);
}

Results chunked(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int at = a.axis("dim", x.rank(), 0);
  const int64_t chunks = a.integer("chunks");
  if (chunks < 1) a.fail(std::to_string(chunks) + " chunks");
  if (!a.ok()) return {};
  const Dim extent = x.extent(at), size = cdiv(extent, chunks);
  const auto whole = known(extent);
  if (whole == 0) return Results(static_cast<size_t>(chunks), x);
  const int64_t count = whole ? (*whole + *known(size) - 1) / *known(size) : static_cast<int64_t>(a.result_count());
  return in_equal_parts(a, x, at, size, count);
}

// Of an extent n, n mod parts of one more.
Results tensor_split_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int at = a.axis("dim", x.rank(), 0);
  const auto extent = known(x.extent(at));
  if (!extent) a.fail("the extent must be known");
  std::vector<Dim> sizes;
  if (a.ok() && a.has("indices")) {
    int64_t before = 0;
    for (int64_t each : a.ints("indices")) {
      each = std::clamp<int64_t>(each < 0 ? each + *extent : each, 0, *extent);
      sizes.emplace_back(std::max<int64_t>(each - before, 0));
      before = each;
    }
    sizes.emplace_back(*extent - before);
  } else if (a.ok()) {
    const int64_t count = a.integer("sections");
    if (count < 1) a.fail("no parts");
    for (int64_t i = 0; a.ok() && i < count; ++i) sizes.emplace_back(*extent / count + (i < *extent % count ? 1 : 0));
  }
  return a.ok() ? in_parts(x, at, sizes) : Results();
}

Results unbound(Arguments& a) {
  const Tensor x = a.tensor("self");
  const int at = a.axis("dim", x.rank(), 0);
  const auto count = known(x.extent(at));
  if (!count) a.fail("the extent must be known");
  Results out;
  for (int64_t i = 0; a.ok() && i < *count; ++i) {
    out.push_back(reshape(slice(x, at, i, i + 1), without(x.shape(), at)));
  }
  return out;
}

// --- by strides and diagonals ---

// Tensors of graphs have no strides: self lies in row-major order.
struct StridedPart {
  Shape size, stride;
  Dim offset;

  // Of each element among those of self.
  Tensor places() const {
    Tensor out = full(size, offset, i64);
    for (size_t i = 0; i < size.size(); ++i) out = out + iota(i64, size, static_cast<int>(i)) * stride[i];
    return out;
  }

  bool is_whole(const Dim& count) const {
    Dim expected = 1;
    bool out = same(offset, 0);
    for (size_t i = size.size(); i > 0; --i) {
      out = out && (same(stride[i - 1], expected) || same(size[i - 1], 1));
      expected = expected * size[i - 1];
    }
    return out && same(expected, count);
  }
};

StridedPart strided_part(Arguments& a) {
  const Shape size = a.shape("size"), stride = a.shape("stride");
  if (size.size() != stride.size()) a.fail("`size` and `stride` have other lengths");
  return {size, stride, a.dim("storage_offset", Dim(0))};
}

Results strided(Arguments& a) {
  const Tensor x = a.tensor("self");
  const StridedPart part = strided_part(a);
  if (!a.ok()) return {};
  const Dim count = product(x.shape());
  if (part.is_whole(count)) return {reshape(x, part.size)};
  return {index(reshape(x, {count}), {part.places()}, {0})};
}

Results strided_set(Arguments& a) {
  const Tensor x = a.tensor("self"), source = a.tensor("src");
  const StridedPart part = strided_part(a);
  if (!a.ok()) return {};
  const Dim count = product(x.shape());
  const Tensor values = broadcast_to(like(source, x), part.size);
  if (part.is_whole(count)) return {reshape(values, x.shape())};
  return {reshape(index_put(reshape(x, {count}), {part.places()}, {0}, values), x.shape())};
}

Tensor diagonal_between(const Tensor& x, int64_t offset, int one, int other) {
  const Dim rows = x.extent(one) - (offset < 0 ? -offset : 0), columns = x.extent(other) - (offset > 0 ? offset : 0);
  const Dim length = at_most(rows, columns) ? rows : at_most(columns, rows) ? columns : min(rows, columns);
  const Dim count = at_most(length, 0) ? Dim(0) : at_most(0, length) ? length : max(length, 0);
  const Tensor line = iota(i64, {count}, 0);
  const Tensor down = offset < 0 ? line + -offset : line, right = offset > 0 ? line + offset : line;
  const Tensor y = index(x, {down, right}, {one, other});
  return move_axis(y, 0, y.rank() - 1);
}

Results diagonal_of(Arguments& a) {
  const bool last = a.base() == "linalg_diagonal";
  const Tensor x = a.tensor(last ? "A" : "self");
  const int64_t offset = a.integer("offset", 0);
  const int one = a.axis("dim1", x.rank(), last ? -2 : 0), other = a.axis("dim2", x.rank(), last ? -1 : 1);
  if (a.ok() && (one == other || x.rank() < 2)) a.fail("a diagonal of one axis");
  return {a.ok() ? diagonal_between(x, offset, one, other) : Tensor()};
}

Results trace_of(Arguments& a) {
  const Tensor x = a.tensor("self");
  if (a.ok() && x.rank() != 2) a.fail("no matrix");
  return {a.ok() ? sum(diagonal_between(is_float(x) ? x : as(x, i64), 0, 0, 1)) : Tensor()};
}

// Windows along an axis: [.., n, ..] as [.., places, .., size].
Results unfolded(Arguments& a) {
  const Tensor given = a.tensor("self");
  const int at = a.axis("dimension", given.rank());
  const int64_t size = a.integer("size"), step = a.integer("step");
  if (size < 0 || step < 1) a.fail("windows of " + std::to_string(size) + " by steps of " + std::to_string(step));
  if (!a.ok()) return {};
  const Tensor x = given.rank() == 0 ? reshape(given, {1}) : given;
  const Shape shape = {(x.extent(at) - size) / step + 1, size};
  const Tensor y = index(x, {iota(i64, shape, 0) * step + iota(i64, shape, 1)}, {at});  // places and size in front
  if (given.rank() == 0) return {reshape(y, {size})};
  return {move_axis(move_axis(y, 1, y.rank() - 1), 0, at)};
}

Results broadcast_together(Arguments& a) {
  const std::vector<Tensor> given = a.tensors("tensors");
  Shape shape;
  for (const Tensor& each : given) shape = broadcast_shape(shape, each.shape());
  Results out;
  for (const Tensor& each : given) out.push_back(broadcast_to(each, shape));
  return out;
}

// Each vector along an axis of its own; of "xy" the first two change places.
Results mesh(Arguments& a) {
  const std::vector<Tensor> given = a.tensors("tensors");
  const bool turns = a.word("indexing", "ij") == "xy" && given.size() > 1;
  Shape shape;
  for (const Tensor& each : given) shape.push_back(product(each.shape()));
  if (given.size() > kMaxRank) a.fail("more than 16 tensors");
  Results out;
  for (size_t i = 0; a.ok() && i < given.size(); ++i) {
    Shape own(given.size(), Dim(1));
    own[i] = shape[i];
    const Tensor y = broadcast_to(reshape(given[i], own), shape);
    out.push_back(turns ? transpose(y, 0, 1) : y);
  }
  return out;
}

// A vector as a diagonal, or the diagonal of a matrix.
Results diagonal_or_matrix(Arguments& a) {
  const Tensor given = a.tensor("self");
  const bool flat = a.base() == "diagflat";
  const int64_t offset = a.integer(flat ? "offset" : "diagonal", 0);
  const Tensor x = flat ? reshape(given, {product(given.shape())}) : given;
  if (a.ok() && (x.rank() < 1 || x.rank() > 2)) a.fail("neither a vector nor a matrix");
  if (!a.ok()) return {};
  if (x.rank() == 2) return {diagonal_between(x, offset, 0, 1)};
  const Dim n = x.extent(0) + (offset < 0 ? -offset : offset);
  const Tensor down = iota(i64, {n, n}, 0), right = iota(i64, {n, n}, 1);
  const Tensor spread = take(x, min(offset < 0 ? right : down, x.extent(0) - 1), 0);
  return {where(right - down == offset, spread, 0)};
}

// Ones in front, and sums over what was broadcast.
Results summed_to_size(Arguments& a) {
  const Tensor x = a.tensor("self");
  const Shape size = a.shape("size");
  const int missing = x.rank() - static_cast<int>(size.size());
  if (missing < 0) a.fail("`size` has more axes than the tensor");
  Axes gone;
  for (int i = 0; a.ok() && i < x.rank(); ++i) {
    const bool is_new = i < missing;
    if (is_new || (same(size[static_cast<size_t>(i - missing)], 1) && !same(x.extent(i), 1))) gone.push_back(i);
  }
  if (!a.ok() || (gone.empty() && !size.empty())) return {x};
  return {reshape(sum(is_float(x) ? x : as(x, i64), gone), size)};
}

constexpr Function kViewFunctions[] = {
    {"alias", itself, Sharing::kMemory},
    {"as_strided", strided, Sharing::kMemory},
    {"atleast_1d", at_least_axes, Sharing::kMemory},
    {"atleast_2d", at_least_axes, Sharing::kMemory},
    {"atleast_3d", at_least_axes, Sharing::kMemory},
    {"chunk", chunked, Sharing::kMemory},
    {"clone", itself},
    {"contiguous", itself, Sharing::kPerhaps},
    {"detach", without_gradient, Sharing::kMemory},
    {"diagonal", diagonal_of, Sharing::kMemory},
    {"diagonal_copy", diagonal_of},
    {"expand", expanded, Sharing::kMemory},
    {"expand_as", as_other_shape, Sharing::kMemory},
    {"expand_copy", expanded},
    {"flatten.using_ints", flattened, Sharing::kPerhaps},
    {"lift_fresh", itself, Sharing::kMemory},
    {"lift_fresh_copy", itself},
    {"mT", matrix_transposed, Sharing::kMemory},
    {"movedim.int", moved, Sharing::kMemory},
    {"movedim.intlist", moved, Sharing::kMemory},
    {"narrow", narrowed, Sharing::kMemory},
    {"permute", permuted, Sharing::kMemory},
    {"permute_copy", permuted},
    {"positive", itself, Sharing::kMemory},
    {"ravel", flattened, Sharing::kPerhaps},
    {"reshape", reshaped, Sharing::kPerhaps},
    {"reshape_as", as_other_shape, Sharing::kPerhaps},
    {"select.int", selected, Sharing::kMemory},
    {"select_copy.int", selected},
    {"slice.Tensor", sliced, Sharing::kMemory},
    {"slice_copy.Tensor", sliced},
    {"split.Tensor", split_by_size, Sharing::kMemory},
    {"split.sizes", split_by_sizes, Sharing::kMemory},
    {"split_with_sizes", split_by_sizes, Sharing::kMemory},
    {"split_with_sizes_copy", split_by_sizes},
    {"squeeze", squeezed, Sharing::kMemory},
    {"squeeze.dim", squeezed, Sharing::kMemory},
    {"squeeze.dims", squeezed, Sharing::kMemory},
    {"squeeze_copy.dim", squeezed},
    {"squeeze_copy.dims", squeezed},
    {"t", matrix_transposed, Sharing::kMemory},
    {"t_copy", matrix_transposed},
    {"tensor_split.indices", tensor_split_of, Sharing::kMemory},
    {"tensor_split.sections", tensor_split_of, Sharing::kMemory},
    {"transpose.int", transposed, Sharing::kMemory},
    {"transpose_copy.int", transposed},
    {"unbind.int", unbound, Sharing::kMemory},
    {"unflatten.int", unflattened, Sharing::kMemory},
    {"unfold", unfolded, Sharing::kMemory},
    {"unfold_copy", unfolded},
    {"_unsafe_view", reshaped},
    {"unsqueeze", unsqueezed, Sharing::kMemory},
    {"unsqueeze_copy", unsqueezed},
    {"view", reshaped, Sharing::kMemory},
    {"view.dtype", as_other_type, Sharing::kMemory},
    {"view_as", as_other_shape, Sharing::kMemory},
    {"view_copy", reshaped},
    {"alias_copy", itself},
    {"as_strided_copy", strided},
    {"as_strided_scatter", strided_set},
    {"broadcast_tensors", broadcast_together, Sharing::kMemory},
    {"broadcast_to", expanded, Sharing::kMemory},
    {"diag", diagonal_or_matrix},
    {"diagflat", diagonal_or_matrix},
    {"linalg_diagonal", diagonal_of, Sharing::kMemory},
    {"mH", matrix_transposed, Sharing::kMemory},
    {"meshgrid", mesh, Sharing::kMemory},
    {"meshgrid.indexing", mesh, Sharing::kMemory},
    {"moveaxis.int", moved, Sharing::kMemory},
    {"moveaxis.intlist", moved, Sharing::kMemory},
    {"narrow_copy", narrowed},
    {"real", itself, Sharing::kMemory},
    {"resolve_conj", itself, Sharing::kMemory},
    {"resolve_neg", itself, Sharing::kMemory},
    {"squeeze_copy", squeezed},
    {"sum_to_size", summed_to_size},
    {"swapaxes", transposed, Sharing::kMemory},
    {"swapdims", transposed, Sharing::kMemory},
    {"trace", trace_of},
    {"unbind_copy.int", unbound},
    {"unsafe_chunk", chunked},
    {"unsafe_split.Tensor", split_by_size},
    {"unsafe_split_with_sizes", split_by_sizes},
};

}  // namespace

std::span<const Function> view_functions() { return kViewFunctions; }

}  // namespace kiln::graph::aten
