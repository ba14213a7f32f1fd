// gather, scatter, index, index_put; embedding, embedding_bag, one_hot.
#include "infer/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

// The shape of `index` but for one axis is that of x.
Result<void> check_along(const Application& app, size_t axis) {
  const TensorType &x = app.in(0), &index = app.in(1);
  KILN_CHECK(app.is_int(1));
  KILN_CHECK(app.rank_is(1, x.rank()));
  for (size_t i = 0; i < x.shape.size(); ++i) {
    if (i == axis) continue;
    KILN_CHECK(
        app.same_extent(x.shape[i], index.shape[i],
                        "extents of axis " + std::to_string(i) + " of " + app.text(x) + " and " + app.text(index)));
  }
  return {};
}

Result<Types> infer_gather(const Application& app) {
  auto axis = app.axis(0, app.in(0).rank());
  if (!axis) return axis.error();
  KILN_CHECK(check_along(app, static_cast<size_t>(*axis)));
  if (app.op == kGather) return Types{{app.in(0).element, app.in(1).shape}};
  KILN_CHECK(app.element_is(2, app.in(0).element));
  KILN_CHECK(app.same_shape(app.in(1).shape, app.in(2).shape, "index and values"));
  if (app.in(0).element == ElementType::kI1 && enum_attr<ScatterKind>(app.attrs, 1) != ScatterKind::kSet) {
    return app.fail("i1 can be set, and not combined");
  }
  return Types{app.in(0)};
}

// The shape at points: that of the indices, then the axes of x that they do not number.
Result<Extents> shape_at_points(const Application& app, size_t first_index) {
  const TensorType& x = app.in(0);
  auto numbered = app.axes(0, x.rank());
  if (!numbered) return numbered.error();
  const size_t count = app.operands.size() - first_index;
  if (count == 0 || ints_attr(app.attrs, 0).size() != count) {
    return app.fail(std::to_string(ints_attr(app.attrs, 0).size()) + " axes for " + std::to_string(count) +
                    " index tensors");
  }
  for (size_t i = first_index; i < app.operands.size(); ++i) {
    KILN_CHECK(app.is_int(i));
    KILN_CHECK(app.same_shape(app.in(first_index).shape, app.in(i).shape, "the index tensors"));
  }
  Extents out = app.in(first_index).shape;
  for (size_t i = 0; i < x.shape.size(); ++i) {
    if (!(*numbered)[i]) out.push_back(x.shape[i]);
  }
  KILN_CHECK(app.fits(out));
  return out;
}

Result<Types> infer_points(const Application& app) {
  const TensorType& x = app.in(0);
  auto shape = shape_at_points(app, app.op == kIndex ? 1 : 2);
  if (!shape) return shape.error();
  if (app.op == kIndex) return Types{{x.element, std::move(*shape)}};
  KILN_CHECK(app.element_is(1, x.element));
  KILN_CHECK(app.same_shape(*shape, app.in(1).shape, "the points and values"));
  if (x.element == ElementType::kI1 && enum_attr<ScatterKind>(app.attrs, 1) != ScatterKind::kSet) {
    return app.fail("i1 can be set, and not combined");
  }
  return Types{x};
}

Result<Types> infer_embedding(const Application& app) {
  KILN_CHECK(app.rank_is(0, 2));
  KILN_CHECK(app.is_int(1));
  const TensorType& table = app.in(0);
  if (app.op == kEmbedding) {
    Extents out = app.in(1).shape;
    out.push_back(table.shape[1]);
    KILN_CHECK(app.fits(out));
    return Types{{table.element, std::move(out)}};
  }
  KILN_CHECK(app.is_float(0));
  KILN_CHECK(app.rank_is(1, 1));
  KILN_CHECK(app.is_int(2));
  KILN_CHECK(app.rank_is(2, 1));
  if (app.has(3)) {
    KILN_CHECK(app.element_is(3, table.element));
    KILN_CHECK(app.same_shape(app.in(1).shape, app.in(3).shape, "ids and weights"));
    if (enum_attr<BagMode>(app.attrs, 0) != BagMode::kSum) return app.fail("weights are for sums");
  }
  return Types{{table.element, {app.in(2).shape[0], table.shape[1]}}};
}

}  // namespace

Result<Types> infer_index(const Application& app) {
  switch (app.op) {
    case kGather:
    case kScatter:
      return infer_gather(app);
    case kIndex:
    case kIndexPut:
      return infer_points(app);
    case kOneHot: {
      KILN_CHECK(app.is_int(0));
      Extents out = app.in(0).shape;
      out.push_back(expr_attr(app.attrs, 0));
      KILN_CHECK(app.fits(out));
      return Types{{element_attr(app.attrs, 1), std::move(out)}};
    }
    default:
      return infer_embedding(app);
  }
}

}  // namespace kiln::graph
