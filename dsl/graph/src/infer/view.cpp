// reshape, permute, broadcast, slice, reverse, pad; cat.
#include "infer/rules.h"
#include "ir/expr_limits.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

Result<Types> infer_reshape(const Application& app) {
  const Extents& shape = shape_attr(app.attrs, 0);
  KILN_CHECK(app.fits(shape));
  const Expr before = element_count(app.in(0).shape), after = element_count(shape);
  if (app.equal(before, after) != Known::kYes) {
    return app.fail(app.text(app.in(0)) + " has " + app.text(before) + " elements, " + app.text(shape) + " has " +
                    app.text(after) + (app.equal(before, after) == Known::kNo ? "" : ": not known to be equal"));
  }
  return Types{{app.in(0).element, shape}};
}

Result<Types> infer_permute(const Application& app) {
  const int rank = app.in(0).rank();
  auto seen = app.axes(0, rank);
  if (!seen) return seen.error();
  const auto& order = ints_attr(app.attrs, 0);
  if (order.size() != static_cast<size_t>(rank)) {
    return app.fail("an order of " + std::to_string(order.size()) + " axes for " + app.text(app.in(0)));
  }
  TensorType out{app.in(0).element, {}};
  for (const int64_t axis : order) out.shape.push_back(app.in(0).shape[static_cast<size_t>(axis)]);
  return Types{std::move(out)};
}

Result<Types> infer_broadcast(const Application& app) {
  const Extents& from = app.in(0).shape;
  const Extents& to = shape_attr(app.attrs, 0);
  KILN_CHECK(app.fits(to));
  if (from.size() > to.size()) {
    return app.fail(app.text(app.in(0)) + " has more axes than " + app.text(to));
  }
  for (size_t i = 0; i < from.size(); ++i) {
    const Expr& wanted = to[to.size() - from.size() + i];
    if (from[i].as_constant() == 1) continue;
    const Known known = app.equal(from[i], wanted);
    if (known == Known::kYes) continue;
    return app.fail(app.text(app.in(0)) + " does not broadcast to " + app.text(to) + ": axis " + std::to_string(i) +
                    " of " + app.text(from[i]) + (known == Known::kNo ? " is neither 1 nor " : " is not known to be ") +
                    app.text(wanted));
  }
  return Types{{app.in(0).element, to}};
}

Result<Types> infer_slice(const Application& app) {
  const TensorType& x = app.in(0);
  const Extents &start = shape_attr(app.attrs, 0), &end = shape_attr(app.attrs, 1);
  const size_t rank = x.shape.size();
  if (start.size() != rank || end.size() != rank)
    return app.fail("start and end must have an entry for each axis of " + app.text(x));
  KILN_CHECK(app.numbers(2, rank, 1));
  TensorType out{x.element, {}};
  for (size_t i = 0; i < rank; ++i) {
    const std::string axis = "axis " + std::to_string(i) + " of " + app.text(x);
    KILN_CHECK(app.not_negative(start[i], "start of " + axis));
    KILN_CHECK(app.ordered(start[i], end[i], "start and end of " + axis));
    KILN_CHECK(app.ordered(end[i], x.shape[i], "end of " + axis));
    out.shape.push_back(ceil_div(end[i] - start[i], ints_attr(app.attrs, 2)[i]));
  }
  return Types{std::move(out)};
}

Result<Types> infer_pad(const Application& app) {
  const TensorType& x = app.in(0);
  const size_t rank = x.shape.size();
  KILN_CHECK(app.rank_is(1, 0));
  KILN_CHECK(app.element_is(1, x.element));
  const Extents &low = shape_attr(app.attrs, 0), &high = shape_attr(app.attrs, 1);
  if (low.size() != rank || high.size() != rank)
    return app.fail("low and high must have an entry for each axis of " + app.text(x));
  KILN_CHECK(app.numbers(2, rank, 0));
  TensorType out{x.element, {}};
  for (size_t i = 0; i < rank; ++i) {
    const std::string axis = " of axis " + std::to_string(i);
    KILN_CHECK(app.not_negative(low[i], "low" + axis));
    KILN_CHECK(app.not_negative(high[i], "high" + axis));
    const int64_t inner = ints_attr(app.attrs, 2)[i];
    Expr between;
    if (inner > 0) {  // of an empty axis there are no neighbours
      const Expr gaps = interval(app.graph.dims, x.shape[i]).low >= 1
                            ? x.shape[i] - Expr(1)
                            : Expr::apply(dsl::AtomKind::kMax, x.shape[i] - Expr(1), Expr(0));
      auto all = app.times(gaps, Expr(inner));
      if (!all) return all.error();
      between = *all;
    }
    out.shape.push_back(low[i] + x.shape[i] + between + high[i]);
  }
  KILN_CHECK(app.fits(out.shape));
  return Types{std::move(out)};
}

}  // namespace

Result<Types> infer_view(const Application& app) {
  switch (app.op) {
    case kReshape:
      return infer_reshape(app);
    case kPermute:
      return infer_permute(app);
    case kBroadcast:
      return infer_broadcast(app);
    case kSlice:
      return infer_slice(app);
    case kPad:
      return infer_pad(app);
    default: {  // reverse
      auto axes = app.axes(0, app.in(0).rank());
      if (!axes) return axes.error();
      return Types{app.in(0)};
    }
  }
}

Result<Types> infer_cat(const Application& app) {
  if (app.operands.empty()) return app.fail("takes one tensor or more");
  auto axis = app.axis(0, app.in(0).rank());
  if (!axis) return axis.error();
  const auto at = static_cast<size_t>(*axis);
  TensorType out = app.in(0);
  for (size_t i = 1; i < app.operands.size(); ++i) {
    const TensorType& other = app.in(i);
    if (other.element != out.element || other.rank() != out.rank()) {
      return app.fail(app.text(app.in(0)) + " and " + app.text(other) + " do not go behind each other");
    }
    for (size_t k = 0; k < out.shape.size(); ++k) {
      if (k == at) continue;
      KILN_CHECK(app.same_extent(
          out.shape[k], other.shape[k],
          "extents of axis " + std::to_string(k) + " of " + app.text(app.in(0)) + " and " + app.text(other)));
    }
    out.shape[at] = out.shape[at] + other.shape[at];
    if (const char* problem = expr_problem(out.shape[at], app.graph.dims.size()))
      return app.fail("the sum of the extents " + std::string(problem));
  }
  KILN_CHECK(app.fits(out.shape));
  return Types{std::move(out)};
}

}  // namespace kiln::graph
