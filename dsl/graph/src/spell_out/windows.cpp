// Windows as looks at places, and what goes back through them.
#include "kiln/graph/extents.h"
#include "spell_out/spellings.h"
#include "trace/trace.h"

namespace kiln::graph {
namespace {

// Of an axis of the windows' places or of the places inside, along one axis of a shape of all of them.
Tensor places(const Shape& shape, size_t axis) { return iota(i64, shape, static_cast<int>(axis)); }

Axes axes_in(const std::vector<WindowAxis>& windows) {
  Axes out;
  for (const WindowAxis& window : windows) out.push_back(window.axis);
  return out;
}

Shape both(const std::vector<WindowAxis>& windows, const Shape& outer) {
  Shape out = outer;
  for (const WindowAxis& window : windows) out.emplace_back(window.size);
  return out;
}

Shape outs_of(const std::vector<WindowAxis>& windows) {
  Shape out;
  for (const WindowAxis& window : windows) out.push_back(window.out);
  return out;
}

// The attributes of window ops, axis by axis; those that change nothing are left out.
std::vector<WindowAxis> window_axes(const Composite& c, const Shape& out) {
  const auto &size = ints_attr(c.attrs, 1), &strides = ints_attr(c.attrs, 2), &low = ints_attr(c.attrs, 3),
             &high = ints_attr(c.attrs, 4), &dilation = ints_attr(c.attrs, 5);
  std::vector<WindowAxis> axes;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] == 1 && strides[i] == 1 && low[i] == 0 && high[i] == 0) continue;
    axes.push_back({static_cast<int>(i), out[i], size[i], strides[i], low[i], high[i], dilation[i]});
  }
  return axes;
}

// [places…, (inside…), others] to the order of axes of x, with what is inside last.
Tensor in_order(const Tensor& y, const std::vector<WindowAxis>& axes, int rank, int inside) {
  Axes order(static_cast<size_t>(rank), -1);
  const int count = static_cast<int>(axes.size());
  for (int i = 0; i < count; ++i) order[static_cast<size_t>(axes[static_cast<size_t>(i)].axis)] = i;
  int next = count + inside;
  for (int& axis : order) {
    if (axis < 0) axis = next++;
  }
  for (int i = 0; i < inside; ++i) order.push_back(count + i);
  return permute(y, order);
}

Tensor end_of(ElementType type, bool lowest) {
  const uint64_t bits = lowest ? dsl::lowest_bits(type) : dsl::highest_bits(type);
  return Trace::current()->emit(TensorOp::kFull, {}, {type, std::vector<Expr>{}, Literal{bits}},
                                SourceLocation::current());
}

Tensor beyond_for(WindowKind kind, ElementType type) {
  if (kind == WindowKind::kSum) return full({}, 0, type);
  return end_of(type, kind == WindowKind::kMax);
}

ReduceKind reduce_kind(WindowKind kind) {
  return kind == WindowKind::kSum ? ReduceKind::kSum : kind == WindowKind::kMax ? ReduceKind::kMax : ReduceKind::kMin;
}

Axes last_axes(int rank, int count) {
  Axes out;
  for (int i = rank - count; i < rank; ++i) out.push_back(i);
  return out;
}

// Row-major numbers of the places inside, over the whole shape, whose axes for them begin at `first`.
Tensor number_inside(const Shape& shape, size_t first, const std::vector<WindowAxis>& axes) {
  Tensor out = zeros(i64, shape);
  for (size_t i = 0; i < axes.size(); ++i) out = out * axes[i].size + places(shape, first + i);
  return out;
}

// The number inside its window of the first element that is its extreme; a number beyond all of them where there is
// none. Over x's axes, with places of windows where x has places.
Tensor first_extreme(const Tensor& x, const std::vector<WindowAxis>& axes, bool is_min) {
  const int inside = static_cast<int>(axes.size());
  const Tensor beyond = end_of(x.element(), !is_min);
  const Tensor seen = in_order(windows_of(x, axes, beyond), axes, x.rank(), inside);
  const Tensor is_there =
      in_order(windows_of(broadcast_to(full({}, 1, i1), x.shape()), axes, full({}, 0, i1)), axes, x.rank(), inside);
  const Axes last = last_axes(seen.rank(), inside);
  const Tensor extreme = reduce(seen, is_min ? ReduceKind::kMin : ReduceKind::kMax, last, true);
  const Tensor all = broadcast_to(extreme, seen.shape());
  Tensor hit = seen == all;
  if (dsl::is_float(x.element())) hit = hit | isnan(seen);  // NaN is the extreme
  hit = hit & is_there;
  const Tensor number = number_inside(seen.shape(), static_cast<size_t>(x.rank()), axes);
  int64_t count = 1;
  for (const WindowAxis& axis : axes) count *= axis.size;
  return reduce_min(where(hit, number, full({}, count, i64)), last, false);
}

// As windows_of, of windows of one place: a view.
Tensor places_of(const Tensor& x, const std::vector<WindowAxis>& axes) {
  Tensor out = x;
  Axes order;
  Shape shape;
  for (const WindowAxis& axis : axes) {
    if (axis.stride > 1) out = slice(out, axis.axis, 0, (axis.out - 1) * axis.stride + 1, axis.stride);
    order.push_back(axis.axis);
    shape.push_back(axis.out);
  }
  shape.insert(shape.end(), axes.size(), Dim(1));
  const Axes windowed = order;
  for (int i = 0; i < x.rank(); ++i) {
    if (std::find(windowed.begin(), windowed.end(), i) != windowed.end()) continue;
    order.push_back(i);
    shape.push_back(x.extent(i));
  }
  return reshape(permute(out, order), shape);
}

}  // namespace

Tensor with_edges(const Tensor& x, const std::vector<WindowAxis>& axes, const Tensor& beyond) {
  Shape low(static_cast<size_t>(x.rank()), Dim(0)), high = low;
  Tensor wide = x;
  for (const WindowAxis& axis : axes) {  // negative ones crop
    const Dim start(std::max<int64_t>(0, -axis.low));
    const Dim end = x.extent(axis.axis) - std::max<int64_t>(0, -axis.high);
    if (axis.low < 0 || axis.high < 0) wide = slice(wide, axis.axis, start, end);
    low[static_cast<size_t>(axis.axis)] = Dim(std::max<int64_t>(0, axis.low));
    high[static_cast<size_t>(axis.axis)] = Dim(std::max<int64_t>(0, axis.high));
  }
  const bool has_edges =
      std::any_of(axes.begin(), axes.end(), [](const WindowAxis& axis) { return axis.low > 0 || axis.high > 0; });
  return has_edges ? pad(wide, low, high, beyond) : wide;
}

void for_each_place(const std::vector<WindowAxis>& axes,
                    const std::function<void(const std::vector<int64_t>&)>& visit) {
  std::vector<int64_t> place(axes.size());
  for (;;) {
    visit(place);
    size_t i = axes.size();
    while (i > 0 && ++place[i - 1] == axes[i - 1].size) place[--i] = 0;
    if (i == 0) return;
  }
}

Tensor seen_at(const Tensor& wide, const std::vector<WindowAxis>& axes, std::span<const int64_t> place) {
  Tensor out = wide;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim start(place[i] * axes[i].dilation);
    out = slice(out, axes[i].axis, start, start + (axes[i].out - 1) * axes[i].stride + 1, axes[i].stride);
  }
  return out;
}

Tensor windows_of(const Tensor& x, const std::vector<WindowAxis>& axes, const Tensor& beyond) {
  if (axes.empty()) return x;
  const Tensor wide = with_edges(x, axes, beyond);
  if (std::all_of(axes.begin(), axes.end(), [](const WindowAxis& axis) { return axis.size == 1; })) {
    return places_of(wide, axes);
  }
  const Shape shape = both(axes, outs_of(axes));
  std::vector<Tensor> indices;
  for (size_t i = 0; i < axes.size(); ++i) {
    indices.push_back(places(shape, i) * axes[i].stride + places(shape, axes.size() + i) * axes[i].dilation);
  }
  return index(wide, indices, axes_in(axes));
}

Tensor owners_of(const Tensor& g, const std::vector<WindowAxis>& axes, const Shape& extents) {
  if (axes.empty()) return g;
  const Shape shape = both(axes, extents);
  std::vector<Tensor> indices;
  Tensor has_owner = broadcast_to(full({}, 1, i1), shape);
  for (size_t i = 0; i < axes.size(); ++i) {
    const Tensor from = places(shape, i) + axes[i].low - places(shape, axes.size() + i) * axes[i].dilation;
    const Tensor owner = from / axes[i].stride;
    const Tensor last = extent(g.extent(axes[i].axis), i64);
    const Tensor is_there = (from >= 0) & (owner * axes[i].stride == from) & (owner < last);
    indices.push_back(where(is_there, owner, 0));
    has_owner = has_owner & is_there;
  }
  const Tensor looked = index(g, indices, axes_in(axes));
  Shape mask = shape;
  for (int i = static_cast<int>(shape.size()); i < looked.rank(); ++i) mask.emplace_back(1);
  return where(broadcast_to(reshape(has_owner, mask), looked.shape()), looked, zeros_like(looked));
}

Dim window_count(const Dim& extent, int64_t size, int64_t stride, int64_t low, int64_t high, int64_t dilation) {
  Dim steps = extent + low + high - dilation * (size - 1) - 1 + stride;
  if (stride == 1) return steps;
  Trace& trace = *Trace::current();
  const auto expr = trace.expr(steps, "window", SourceLocation());
  const auto exact = expr ? exact_quotient(trace.graph().dims, *expr, Expr(stride)) : std::nullopt;
  return exact ? trace.dim(*exact) : steps / stride;
}

// How many windows of an op there are along each axis of x.
static Shape window_counts(const Composite& c, const Tensor& x) {
  const auto &size = ints_attr(c.attrs, 1), &strides = ints_attr(c.attrs, 2), &low = ints_attr(c.attrs, 3),
             &high = ints_attr(c.attrs, 4), &dilation = ints_attr(c.attrs, 5);
  Shape out;
  for (size_t i = 0; i < size.size(); ++i) {
    out.push_back(window_count(x.extent(static_cast<int>(i)), size[i], strides[i], low[i], high[i], dilation[i]));
  }
  return out;
}

// Windows of so few places that they are written out: whole rows of results are combined, and nothing is looked up.
static bool is_short(const Tensor& x, const std::vector<WindowAxis>& axes) {
  constexpr int64_t kMost = 25;
  int64_t places = 1;
  for (const WindowAxis& axis : axes) places *= axis.size;
  return places <= kMost && dsl::is_float(x.element());
}

static Tensor combined(WindowKind kind, const Tensor& a, const Tensor& b) {
  return kind == WindowKind::kSum ? a + b : kind == WindowKind::kMax ? max(a, b) : min(a, b);
}

static Tensor written_out(WindowKind kind, const Tensor& x, const std::vector<WindowAxis>& axes) {
  const Tensor wide = with_edges(x, axes, beyond_for(kind, x.element()));
  const bool is_sum = kind == WindowKind::kSum && x.element() != f64;
  Tensor out;
  for_each_place(axes, [&](const std::vector<int64_t>& place) {
    const Tensor seen = seen_at(wide, axes, place);
    const Tensor part = is_sum ? cast(seen, f32) : seen;
    out = out.valid() ? combined(kind, out, part) : part;
  });
  return cast(out, x.element());
}

std::vector<Tensor> spell_window(const Composite& c) {
  const Tensor& x = c[0];
  const auto kind = enum_attr<WindowKind>(c.attrs, 0);
  const std::vector<WindowAxis> axes = window_axes(c, window_counts(c, x));
  if (axes.empty()) return {x};
  if (is_short(x, axes)) return {written_out(kind, x, axes)};
  const int inside = static_cast<int>(axes.size());
  const Tensor seen = in_order(windows_of(x, axes, beyond_for(kind, x.element())), axes, x.rank(), inside);
  return {reduce(seen, reduce_kind(kind), last_axes(seen.rank(), inside))};
}

std::vector<Tensor> spell_window_spread(const Composite& c) {
  const Tensor &x = c[0], &g = c[1];
  const auto kind = enum_attr<WindowKind>(c.attrs, 0);
  const std::vector<WindowAxis> axes = window_axes(c, g.shape());
  if (axes.empty()) return {g};
  const int inside = static_cast<int>(axes.size());
  Shape extents;
  for (const WindowAxis& axis : axes) extents.push_back(x.extent(axis.axis));
  Tensor parts = in_order(owners_of(g, axes, extents), axes, x.rank(), inside);
  const Axes last = last_axes(parts.rank(), inside);
  if (kind != WindowKind::kSum) {
    // Those windows count whose extreme is here.
    const Tensor chosen = first_extreme(x, axes, kind == WindowKind::kMin) + 1;  // 0 is none
    const Tensor theirs = in_order(owners_of(chosen, axes, extents), axes, x.rank(), inside);
    const Tensor mine = number_inside(theirs.shape(), static_cast<size_t>(x.rank()), axes) + 1;
    parts = where(theirs == mine, parts, zeros_like(parts));
  }
  return {sum(parts, last)};
}

std::vector<Tensor> spell_window_pick(const Composite& c) {
  const Tensor &x = c[0], &t = c[1];
  const std::vector<WindowAxis> axes = window_axes(c, window_counts(c, x));
  if (axes.empty()) return {t};
  const int inside = static_cast<int>(axes.size());
  const Tensor chosen = first_extreme(x, axes, enum_attr<PickKind>(c.attrs, 0) == PickKind::kMin);
  const Tensor seen = in_order(windows_of(t, axes, full({}, 0, t.element())), axes, x.rank(), inside);
  const Tensor number = number_inside(seen.shape(), static_cast<size_t>(x.rank()), axes);
  Shape mask = chosen.shape();
  for (int i = 0; i < inside; ++i) mask.emplace_back(1);
  const Tensor is_chosen = number == broadcast_to(reshape(chosen, mask), number.shape());
  // One of them at most; a sum of i1 is an int.
  return {cast(sum(where(is_chosen, seen, zeros_like(seen)), last_axes(seen.rank(), inside)), t.element())};
}

}  // namespace kiln::graph
