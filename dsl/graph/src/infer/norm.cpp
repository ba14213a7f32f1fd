// Composites over rows or channels whose shape stays, and optimiser steps.
#include "infer/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

// Optional weight and bias: [C], of x's elements.
Result<void> by_channel(const Application& app, std::initializer_list<size_t> operands) {
  const TensorType& x = app.in(0);
  if (x.rank() < 2) return app.fail("x is " + app.text(x) + ", and must have channels on axis 1");
  for (const size_t i : operands) {
    if (!app.has(i)) continue;
    KILN_CHECK(app.is_float(i));
    KILN_CHECK(app.rank_is(i, 1));
    KILN_CHECK(app.same_extent(x.shape[1], app.in(i).shape[0], "the channels of x and " + app.operand_name(i)));
  }
  return {};
}

Result<Types> infer_row_norm(const Application& app) {
  const TensorType& x = app.in(0);
  const int64_t count = int_attr(app.attrs, 0);
  if (count < 1 || count > x.rank()) return app.fail(std::to_string(count) + " axes of " + app.text(x));
  const Extents row(x.shape.end() - static_cast<std::ptrdiff_t>(count), x.shape.end());
  for (size_t i = 1; i < app.operands.size(); ++i) {
    if (!app.has(i)) continue;
    KILN_CHECK(app.is_float(i));
    KILN_CHECK(app.same_shape(row, app.in(i).shape, "the normalised axes of x and " + app.operand_name(i)));
  }
  return Types{x};
}

Result<Types> infer_group_norm(const Application& app) {
  KILN_CHECK(by_channel(app, {1, 2}));
  const int64_t groups = int_attr(app.attrs, 0);
  if (groups < 1 || !exact_quotient(app.graph.dims, app.in(0).shape[1], Expr(groups))) {
    return app.fail(app.text(app.in(0).shape[1]) + " channels are no multiple of " + std::to_string(groups) +
                    " groups");
  }
  return Types{app.in(0)};
}

Result<Types> infer_rope(const Application& app) {
  const TensorType &x = app.in(0), &cos = app.in(1);
  if (x.rank() < 2) return app.fail("x is " + app.text(x) + ", and must have places and a last axis");
  KILN_CHECK(app.element_is(1, x.element));
  KILN_CHECK(app.element_is(2, x.element));
  KILN_CHECK(app.rank_is(1, 2));
  KILN_CHECK(app.same_shape(cos.shape, app.in(2).shape, "cos and sin"));
  KILN_CHECK(app.same_extent(x.shape[x.shape.size() - 2], cos.shape[0], "the places of x and cos"));
  KILN_CHECK(app.same_extent(x.shape.back(), cos.shape[1] * Expr(2), "the last axis of x and twice that of cos"));
  return Types{x};
}

// scale and zero are scalars, or have the extent of the axis.
Result<Types> infer_quantise(const Application& app) {
  const TensorType& x = app.in(0);
  const bool quantises = app.op == kQuantise;
  const ElementType to = element_attr(app.attrs, 0);
  const ElementType ints = quantises ? to : x.element;
  const ElementType floats = quantises ? x.element : to;
  if (!dsl::is_float(floats) || !dsl::is_int(ints) || ints == ElementType::kI1) {
    return app.fail("from " + std::string(dsl::info(x.element).name) + " to " + std::string(dsl::info(to).name) +
                    "; it is between floats and ints");
  }
  KILN_CHECK(app.element_is(1, floats));
  if (app.has(2)) KILN_CHECK(app.element_is(2, ints));
  const int64_t axis = int_attr(app.attrs, 1);
  if (axis != -1) {
    auto fine = app.axis(1, x.rank());
    if (!fine) return fine.error();
  }
  for (const size_t i : {1, 2}) {
    if (!app.has(i)) continue;
    KILN_CHECK(app.rank_is(i, axis == -1 ? 0 : 1));
    if (axis != -1)
      KILN_CHECK(app.same_extent(x.shape[static_cast<size_t>(axis)], app.in(i).shape[0],
                                 "extents of the axis and " + app.operand_name(i)));
  }
  return Types{{to, x.shape}};
}

}  // namespace

Result<Types> infer_norm(const Application& app) {
  const TensorType& x = app.in(0);
  if (app.op == kQuantise || app.op == kDequantise) return infer_quantise(app);
  if (app.op == kTriangle) {
    if (x.rank() < 2) return app.fail("x is " + app.text(x) + ", and must have two axes");
    KILN_CHECK(app.int_between(0, -DimInfo::kMost, DimInfo::kMost));
    return Types{x};
  }
  KILN_CHECK(app.is_float(0));
  switch (app.op) {
    case kSoftmax:
    case kLogSoftmax: {
      auto axis = app.axis(0, x.rank());
      if (!axis) return axis.error();
      return Types{x};
    }
    case kLayerNorm:
    case kRmsNorm:
      return infer_row_norm(app);
    case kGroupNorm:
      return infer_group_norm(app);
    case kBatchNorm:
      KILN_CHECK(by_channel(app, {1, 2, 3, 4}));
      return Types{x};
    case kBatchNormTraining:
      KILN_CHECK(by_channel(app, {1, 2, 3, 4}));
      return Types{x, app.in(1), app.in(2)};
    case kRope:
      return infer_rope(app);
    default: {  // dropout
      const double p = float_attr(app.attrs, 0);
      if (!(p >= 0 && p < 1)) return app.fail("p is 0 or more, and below 1");
      for (const size_t i : {1, 2}) {
        KILN_CHECK(app.element_is(i, ElementType::kU64));
        KILN_CHECK(app.rank_is(i, 0));
      }
      return Types{x};
    }
  }
}

Result<Types> infer_optimiser(const Application& app) {
  const std::vector<OperandInfo>& table = info(app.op).operands;
  KILN_CHECK(app.is_float(0));
  Types out{app.in(0)};
  for (size_t i = 1; i < app.operands.size(); ++i) {
    const std::string& name = table[i].name;
    KILN_CHECK(app.is_float(i));
    if (name == "lr" || name == "step") {
      KILN_CHECK(app.rank_is(i, 0));
      continue;
    }
    KILN_CHECK(app.same_shape(app.in(0).shape, app.in(i).shape, "param and " + name));
    if (name != "grad") out.push_back(app.in(i));
  }
  return out;
}

}  // namespace kiln::graph
