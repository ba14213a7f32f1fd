// Sums of products: dot, linear, attention, interaction.
#include "infer/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

Result<void> same_elements(const Application& app, std::initializer_list<size_t> operands) {
  for (const size_t i : operands) {
    if (app.has(i)) KILN_CHECK(app.element_is(i, app.in(0).element));
  }
  return {};
}

Result<Types> infer_dot(const Application& app) {
  const TensorType &a = app.in(0), &b = app.in(1);
  if (a.element != b.element)
    return app.fail("operands of " + app.text(a) + " and " + app.text(b) + ": element types differ");
  if (a.element == ElementType::kI1) return app.fail("i1 has no products; cast it");
  // Each axis has one part in the sum.
  std::vector<bool> used_a(a.shape.size(), false), used_b(b.shape.size(), false);
  const auto use = [&](size_t attr, std::vector<bool>& used, const TensorType& type) -> Result<void> {
    for (const int64_t axis : ints_attr(app.attrs, attr)) {
      const std::string& what = info(app.op).attrs[attr].name;
      if (axis < 0 || axis >= type.rank())
        return app.fail("axis " + std::to_string(axis) + " in " + what + " of " + app.text(type));
      if (used[static_cast<size_t>(axis)])
        return app.fail("axis " + std::to_string(axis) + " of " + app.text(type) + " is named twice, in " + what +
                        " at last");
      used[static_cast<size_t>(axis)] = true;
    }
    return {};
  };
  KILN_CHECK(use(0, used_a, a));
  KILN_CHECK(use(1, used_b, b));
  KILN_CHECK(use(2, used_a, a));
  KILN_CHECK(use(3, used_b, b));
  for (const size_t pair : {size_t{0}, size_t{2}}) {
    const auto &of_a = ints_attr(app.attrs, pair), &of_b = ints_attr(app.attrs, pair + 1);
    const std::string what = pair == 0 ? "batch" : "contracted";
    if (of_a.size() != of_b.size()) return app.fail("a and b have different numbers of " + what + " axes");
    for (size_t i = 0; i < of_a.size(); ++i) {
      KILN_CHECK(app.same_extent(a.shape[static_cast<size_t>(of_a[i])], b.shape[static_cast<size_t>(of_b[i])],
                                 "extents of the " + what + " axes of " + app.text(a) + " and " + app.text(b)));
    }
  }
  TensorType out{element_attr(app.attrs, 4), {}};
  if (out.element == ElementType::kI1) return app.fail("a sum is no i1");
  for (const int64_t axis : ints_attr(app.attrs, 0)) out.shape.push_back(a.shape[static_cast<size_t>(axis)]);
  for (size_t i = 0; i < a.shape.size(); ++i) {
    if (!used_a[i]) out.shape.push_back(a.shape[i]);
  }
  for (size_t i = 0; i < b.shape.size(); ++i) {
    if (!used_b[i]) out.shape.push_back(b.shape[i]);
  }
  KILN_CHECK(app.fits(out.shape));
  return Types{std::move(out)};
}

Result<Types> infer_linear(const Application& app) {
  const TensorType &x = app.in(0), &w = app.in(1);
  if (x.element == ElementType::kI1) return app.fail("i1 has no products; cast it");
  KILN_CHECK(same_elements(app, {1, 2}));
  KILN_CHECK(app.rank_is(1, 2));
  if (x.rank() < 1) return app.fail("x needs a last axis");
  KILN_CHECK(app.same_extent(x.shape.back(), w.shape[1],
                             "the last axes of x, " + app.text(x) + ", and w, " + app.text(w) + ","));
  if (app.has(2)) {
    KILN_CHECK(app.rank_is(2, 1));
    KILN_CHECK(app.same_extent(w.shape[0], app.in(2).shape[0], "the extents of w's first axis and bias"));
  }
  TensorType out = x;
  out.shape.back() = w.shape[0];
  return Types{std::move(out)};
}

Result<void> check_groups(const Application& app, const Expr& heads, const Expr& groups) {
  const auto h = heads.as_constant(), g = groups.as_constant();
  if (h && g && *g > 0 && *h % *g == 0) return {};
  if (app.equal(heads, groups) == Known::kYes) return {};
  if (exact_quotient(app.graph.dims, heads, groups)) return {};
  return app.fail("the heads of q, " + app.text(heads) + ", must be a multiple of those of k, " + app.text(groups));
}

Result<Types> infer_attention(const Application& app) {
  KILN_CHECK(app.is_float(0));
  KILN_CHECK(same_elements(app, {1, 2}));
  for (const size_t i : {0, 1, 2}) KILN_CHECK(app.rank_is(i, 4));
  const Extents &q = app.in(0).shape, &k = app.in(1).shape, &v = app.in(2).shape;
  KILN_CHECK(app.same_extent(q[0], k[0], "the batches of q and k"));
  KILN_CHECK(app.same_extent(q[0], v[0], "the batches of q and v"));
  KILN_CHECK(app.same_extent(k[1], v[1], "the heads of k and v"));
  KILN_CHECK(app.same_extent(q[3], k[3], "the last axes of q and k"));
  KILN_CHECK(app.same_extent(k[2], v[2], "the places of k and v"));
  KILN_CHECK(check_groups(app, q[1], k[1]));
  KILN_CHECK(app.int_between(1, 0, DimInfo::kMost));
  if (app.has(3)) {
    const TensorType& mask = app.in(3);
    if (mask.element != ElementType::kI1) KILN_CHECK(app.element_is(3, app.in(0).element));
    const Extents scores = {q[0], q[1], q[2], k[2]};
    if (mask.rank() > 4) return app.fail("mask " + app.text(mask) + " has more axes than " + app.text(scores));
    for (size_t i = 0; i < mask.shape.size(); ++i) {
      if (mask.shape[i].as_constant() == 1) continue;
      KILN_CHECK(app.same_extent(mask.shape[i], scores[4 - mask.shape.size() + i],
                                 "extents of mask " + app.text(mask) + " and the scores " + app.text(scores)));
    }
  }
  return Types{{app.in(0).element, {q[0], q[1], q[2], v[3]}}};
}

Result<Types> infer_paged_attention(const Application& app) {
  KILN_CHECK(app.is_float(0));
  KILN_CHECK(same_elements(app, {1, 2}));
  KILN_CHECK(app.rank_is(0, 3));
  for (const size_t i : {1, 2}) KILN_CHECK(app.rank_is(i, 4));
  KILN_CHECK(app.is_int(3));
  KILN_CHECK(app.rank_is(3, 2));
  KILN_CHECK(app.is_int(4));
  KILN_CHECK(app.rank_is(4, 1));
  const Extents &q = app.in(0).shape, &k = app.in(1).shape, &v = app.in(2).shape;
  for (const size_t i : {0, 1, 2}) KILN_CHECK(app.same_extent(k[i], v[i], "extents of the pages of k and v"));
  KILN_CHECK(app.same_extent(q[2], k[3], "the last axes of q and k_pages"));
  KILN_CHECK(app.same_extent(q[0], app.in(3).shape[0], "the sequences of q and table"));
  KILN_CHECK(app.same_extent(q[0], app.in(4).shape[0], "the sequences of q and lengths"));
  KILN_CHECK(check_groups(app, q[1], k[1]));
  return Types{{app.in(0).element, {q[0], q[1], v[3]}}};
}

Result<Types> infer_interaction(const Application& app) {
  KILN_CHECK(app.is_float(0));
  KILN_CHECK(same_elements(app, {1}));
  KILN_CHECK(app.rank_is(0, 2));
  KILN_CHECK(app.rank_is(1, 3));
  const Extents &dense = app.in(0).shape, &features = app.in(1).shape;
  KILN_CHECK(app.same_extent(dense[0], features[0], "the batches of dense and features"));
  KILN_CHECK(app.same_extent(dense[1], features[2], "the last axes of dense and features"));
  const auto count = features[1].as_constant();
  if (!count) return app.fail("the number of features, " + app.text(features[1]) + ", must be known");
  if (*count > (int64_t{1} << 20)) return app.fail(std::to_string(*count) + " features are too many");
  const int64_t rows = *count + 1;
  const int64_t pairs = flag_attr(app.attrs, 0) ? rows * (rows + 1) / 2 : rows * (rows - 1) / 2;
  return Types{{app.in(0).element, {dense[0], dense[1] + Expr(pairs)}}};
}

}  // namespace

Result<Types> infer_contract(const Application& app) {
  switch (app.op) {
    case kDot:
      return infer_dot(app);
    case kLinear:
      return infer_linear(app);
    case kAttention:
      return infer_attention(app);
    case kPagedAttention:
      return infer_paged_attention(app);
    default:
      return infer_interaction(app);
  }
}

}  // namespace kiln::graph
