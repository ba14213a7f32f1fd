// Convolutions, windows, pools and resizes: how many places a window has along an axis.
#include "infer/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

struct Slide {
  Expr window;
  int64_t stride, low, high, dilation;
};

// The places of a window along an axis: (extent + low + high - span) / stride + 1, where it fits once at least. Of one
// element by one step it fits everywhere: so may axes be empty that a window does not reduce.
Result<Expr> places(const Application& app, const Expr& extent, const Slide& slide, size_t axis) {
  const Expr padded = extent + Expr(slide.low + slide.high);
  auto reach = app.times(slide.window - Expr(1), Expr(slide.dilation));
  if (!reach) return reach.error();
  const Expr span = *reach + Expr(1);
  // A window of one element beside another has a place for each, of which there may be none.
  if (slide.window.as_constant() == 1 && slide.stride == 1 && slide.low >= 0 && slide.high >= 0) return padded;
  const std::string what =
      "the window on axis " + std::to_string(axis) + " does not fit: its span and the padded extent";
  KILN_CHECK(app.ordered(Expr(1), slide.window, "the window's extent on axis " + std::to_string(axis)));
  KILN_CHECK(app.ordered(span, padded, what));
  // (padded - span) / stride + 1 as one quotient, so that an axis in halves is div(n, 2), as authors write it.
  const Expr steps = padded - span + Expr(slide.stride);
  if (slide.stride == 1) return steps;
  if (auto exact = exact_quotient(app.graph.dims, steps, Expr(slide.stride))) return *exact;
  return Expr::apply(dsl::AtomKind::kDiv, steps, Expr(slide.stride));
}

// Attributes strides, low, high, dilation from a place on, for the spatial axes.
constexpr int64_t kMostPadding = int64_t{1} << 31;
Result<void> check_slides(const Application& app, size_t first, size_t count) {
  KILN_CHECK(app.numbers(first, count, 1));
  KILN_CHECK(app.numbers(first + 1, count, -kMostPadding));
  KILN_CHECK(app.numbers(first + 2, count, -kMostPadding));
  KILN_CHECK(app.numbers(first + 3, count, 1));
  return {};
}
Slide slide_of(const Application& app, size_t first, size_t axis, const Expr& window) {
  const auto number = [&](size_t attr) { return ints_attr(app.attrs, attr)[axis]; };
  return {window, number(first), number(first + 1), number(first + 2), number(first + 3)};
}

struct ConvShapes {
  size_t x, w, g;  // operands; what is not there comes from attributes
};

Result<int64_t> groups_of(const Application& app, size_t attr, const Expr& channels, const Expr& filters) {
  const int64_t groups = int_attr(app.attrs, attr);
  KILN_CHECK(app.int_between(attr, 1, DimInfo::kMost));
  for (const Expr& extent : {channels, filters}) {
    if (!exact_quotient(app.graph.dims, extent, Expr(groups))) {
      return app.fail(app.text(extent) + " channels are no multiple of " + std::to_string(groups) + " groups");
    }
  }
  return groups;
}

Result<void> check_ranks(const Application& app, size_t a, size_t b) {
  const int rank = app.in(a).rank();
  if (rank < 3 || rank > 5)
    return app.fail(app.operand_name(a) + " is " + app.text(app.in(a)) +
                    ", and must have 1 to 3 axes behind batch and channels");
  KILN_CHECK(app.rank_is(b, rank));
  if (app.in(a).element == ElementType::kI1) return app.fail("i1 has no products; cast it");
  return app.element_is(b, app.in(a).element);
}

Result<Types> infer_forward(const Application& app) {
  KILN_CHECK(check_ranks(app, 0, 1));
  const Extents &x = app.in(0).shape, &w = app.in(1).shape;
  const size_t spatial = x.size() - 2;
  const size_t first = 0;
  KILN_CHECK(check_slides(app, first, spatial));
  auto groups = groups_of(app, 4, x[1], w[0]);
  if (!groups) return groups.error();
  auto channels = app.times(w[1], Expr(*groups));
  if (!channels) return channels.error();
  KILN_CHECK(app.same_extent(x[1], *channels, "the channels of x and groups of w"));
  if (app.op == kConvBias) {
    KILN_CHECK(app.element_is(2, app.in(0).element));
    KILN_CHECK(app.rank_is(2, 1));
    KILN_CHECK(app.same_extent(w[0], app.in(2).shape[0], "the filters of w and bias"));
  }
  TensorType out{app.in(0).element, {x[0], w[0]}};
  for (size_t i = 0; i < spatial; ++i) {
    auto count = places(app, x[2 + i], slide_of(app, first, i, w[2 + i]), 2 + i);
    if (!count) return count.error();
    out.shape.push_back(*count);
  }
  return Types{std::move(out)};
}

Result<Types> infer_conv_input(const Application& app) {
  KILN_CHECK(check_ranks(app, 0, 1));
  const Extents &g = app.in(0).shape, &w = app.in(1).shape, &extents = shape_attr(app.attrs, 0);
  const size_t spatial = g.size() - 2;
  if (extents.size() != spatial)
    return app.fail("shape has " + std::to_string(extents.size()) + " extents, for " + std::to_string(spatial) +
                    " axes");
  KILN_CHECK(check_slides(app, 1, spatial));
  auto groups = groups_of(app, 5, g[1], w[0]);
  if (!groups) return groups.error();
  KILN_CHECK(app.same_extent(g[1], w[0], "the filters of g and w"));
  auto channels = app.times(w[1], Expr(*groups));
  if (!channels) return channels.error();
  TensorType out{app.in(0).element, {g[0], *channels}};
  for (size_t i = 0; i < spatial; ++i) {
    auto count = places(app, extents[i], slide_of(app, 1, i, w[2 + i]), 2 + i);
    if (!count) return count.error();
    KILN_CHECK(app.same_extent(*count, g[2 + i], "the places on axis " + std::to_string(2 + i) + " and g's extent"));
    out.shape.push_back(extents[i]);
  }
  KILN_CHECK(app.fits(out.shape));
  return Types{std::move(out)};
}

Result<Types> infer_conv_weight(const Application& app) {
  KILN_CHECK(check_ranks(app, 0, 1));
  const Extents &x = app.in(0).shape, &g = app.in(1).shape, &window = shape_attr(app.attrs, 0);
  const size_t spatial = x.size() - 2;
  if (window.size() != spatial)
    return app.fail("window has " + std::to_string(window.size()) + " extents, for " + std::to_string(spatial) +
                    " axes");
  KILN_CHECK(check_slides(app, 1, spatial));
  auto groups = groups_of(app, 5, x[1], g[1]);
  if (!groups) return groups.error();
  KILN_CHECK(app.same_extent(x[0], g[0], "the batches of x and g"));
  TensorType out{app.in(0).element, {g[1], *exact_quotient(app.graph.dims, x[1], Expr(*groups))}};
  for (size_t i = 0; i < spatial; ++i) {
    auto count = places(app, x[2 + i], slide_of(app, 1, i, window[i]), 2 + i);
    if (!count) return count.error();
    KILN_CHECK(app.same_extent(*count, g[2 + i], "the places on axis " + std::to_string(2 + i) + " and g's extent"));
    out.shape.push_back(window[i]);
  }
  KILN_CHECK(app.fits(out.shape));
  return Types{std::move(out)};
}

// `skipped` axes in front have no windows.
Result<Types> infer_windows(const Application& app, size_t size_attr, size_t skipped, bool dilates) {
  const TensorType& x = app.in(0);
  if (x.element == ElementType::kI1) return app.fail("i1 has no order and no sums; cast it");
  if (x.shape.size() < skipped)
    return app.fail("x is " + app.text(x) + ", and must have axes behind batch and channels");
  const size_t count = x.shape.size() - skipped;
  KILN_CHECK(app.numbers(size_attr, count, 1));
  KILN_CHECK(app.numbers(size_attr + 1, count, 1));
  KILN_CHECK(app.numbers(size_attr + 2, count, 0));
  KILN_CHECK(app.numbers(size_attr + 3, count, 0));
  if (dilates) KILN_CHECK(app.numbers(size_attr + 4, count, 1));
  TensorType out{x.element, {x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(skipped)}};
  for (size_t i = 0; i < count; ++i) {
    const auto number = [&](size_t attr) { return ints_attr(app.attrs, attr)[i]; };
    const Slide slide{Expr(number(size_attr)), number(size_attr + 1), number(size_attr + 2), number(size_attr + 3),
                      dilates ? number(size_attr + 4) : 1};
    auto places_here = places(app, x.shape[skipped + i], slide, skipped + i);
    if (!places_here) return places_here.error();
    out.shape.push_back(*places_here);
  }
  return Types{std::move(out)};
}

}  // namespace

Result<Types> infer_conv(const Application& app) {
  if (app.op == kConvInput) return infer_conv_input(app);
  if (app.op == kConvWeight) return infer_conv_weight(app);
  return infer_forward(app);
}

Result<Types> infer_window(const Application& app) {
  if (app.op == kMaxPool || app.op == kAvgPool) {
    if (app.op == kAvgPool) KILN_CHECK(app.is_float(0));
    return infer_windows(app, 0, 2, app.op == kMaxPool);
  }
  auto out = infer_windows(app, 1, 0, true);
  if (!out || app.op == kWindow) return out;
  const bool spreads = app.op == kWindowSpread;
  if (spreads) KILN_CHECK(app.element_is(1, app.in(0).element));
  KILN_CHECK(app.same_shape(spreads ? (*out)[0].shape : app.in(0).shape, app.in(1).shape,
                            spreads ? "the windows and g" : "x and t"));
  (*out)[0].element = app.in(1).element;
  return spreads ? Types{app.in(0)} : std::move(out);
}

Result<Types> infer_resize(const Application& app) {
  const TensorType& x = app.in(0);
  const Extents& to = shape_attr(app.attrs, 0);
  KILN_CHECK(app.is_float(0));
  KILN_CHECK(app.fits(to));
  if (to.empty() || to.size() > x.shape.size()) {
    return app.fail("shape has " + std::to_string(to.size()) + " extents, for axes of " + app.text(x));
  }
  TensorType out = x;
  for (size_t i = 0; i < to.size(); ++i) {
    Expr& extent = out.shape[x.shape.size() - to.size() + i];
    KILN_CHECK(app.ordered(Expr(1), extent, "the extent of a resized axis"));
    KILN_CHECK(app.ordered(Expr(1), to[i], "the extent of a resized axis"));
    extent = to[i];
  }
  return Types{std::move(out)};
}

}  // namespace kiln::graph
