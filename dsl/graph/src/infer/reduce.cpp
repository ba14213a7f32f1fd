// Reductions, scans, orders, and composites that reduce.
#include "infer/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

Extents without(const Extents& shape, const std::vector<bool>& axes, bool keep) {
  Extents out;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!axes[i]) out.push_back(shape[i]);
    if (axes[i] && keep) out.emplace_back(1);
  }
  return out;
}

Result<void> check_kind(const Application& app, ReduceKind kind) {
  const bool bits = kind == ReduceKind::kAnd || kind == ReduceKind::kOr || kind == ReduceKind::kXor;
  const ElementType element = app.in(0).element;
  if (bits && dsl::is_float(element))
    return app.fail(app.text(app.in(0)) + " has no bits to combine; ints and i1 have");
  if (!bits && element == ElementType::kI1) return app.fail("i1 has and, or, xor; cast it for the others");
  return {};
}

// The body combines so many scalars of the left and as many of the right side into as many.
Result<void> check_combine(const Application& app, size_t count) {
  const auto id = static_cast<uint64_t>(int_attr(app.attrs, 0));
  if (id == 0 || id >= app.graph.bodies.size())
    return app.fail("body " + std::to_string(int_attr(app.attrs, 0)) + " is none of the graph's");
  const Body& body = app.graph.bodies[id];
  if (body.inputs.size() != 2 * count || body.outputs.size() != count) {
    return app.fail("body @" + body.name + " must take " + std::to_string(2 * count) + " scalars and give " +
                    std::to_string(count));
  }
  const auto fits = [&](ValueId value, size_t i) {
    const TensorType& type = app.graph.type(body, value);
    return type.rank() == 0 && type.element == app.in(i).element;
  };
  for (size_t i = 0; i < count; ++i) {
    if (!fits(body.inputs[i].value, i) || !fits(body.inputs[count + i].value, i) || !fits(body.outputs[i].value, i)) {
      return app.fail("body @" + body.name + " must take and give scalars of the elements of " + app.text(app.in(i)));
    }
  }
  return {};
}

Result<Types> infer_custom(const Application& app) {
  const bool scans = app.op == kScanCustom;
  const size_t count = scans ? app.operands.size() : app.operands.size() / 2;
  if (count == 0 || (!scans && app.operands.size() % 2 != 0)) return app.fail("takes tensors, and as many inits");
  for (size_t i = 1; i < count; ++i) KILN_CHECK(app.same_shape(app.in(0).shape, app.in(i).shape, "the tensors"));
  KILN_CHECK(check_combine(app, count));
  Types out;
  if (scans) {
    auto axis = app.axis(1, app.in(0).rank());
    if (!axis) return axis.error();
    for (size_t i = 0; i < count; ++i) out.push_back(app.in(i));
    return out;
  }
  auto axes = app.axes(1, app.in(0).rank());
  if (!axes) return axes.error();
  for (size_t i = 0; i < count; ++i) {
    KILN_CHECK(app.rank_is(count + i, 0));
    KILN_CHECK(app.element_is(count + i, app.in(i).element));
    out.push_back({app.in(i).element, without(app.in(i).shape, *axes, flag_attr(app.attrs, 2))});
  }
  return out;
}

Result<Types> infer_cross_entropy(const Application& app) {
  const TensorType &logits = app.in(0), &targets = app.in(1);
  KILN_CHECK(app.is_float(0));
  KILN_CHECK(app.is_int(1));
  if (logits.rank() < 1) return app.fail("logits need a last axis of classes");
  const Extents rows(logits.shape.begin(), logits.shape.end() - 1);
  KILN_CHECK(app.same_shape(rows, targets.shape, "the rows of logits and targets"));
  const double smoothing = float_attr(app.attrs, 2);
  if (smoothing < 0 || smoothing > 1) return app.fail("smoothing is 0 to 1");
  const bool whole = enum_attr<LossReduction>(app.attrs, 0) != LossReduction::kNone;
  return Types{{logits.element, whole ? Extents{} : targets.shape}};
}

}  // namespace

Result<Types> infer_reduce(const Application& app) {
  if (app.op == kReduceCustom) return infer_custom(app);
  if (app.op == kCrossEntropy) return infer_cross_entropy(app);
  const TensorType& x = app.in(0);
  if (app.op == kArgReduce) {
    auto axis = app.axis(1, x.rank());
    if (!axis) return axis.error();
    if (x.element == ElementType::kI1) return app.fail("i1 has no order; cast it");
    KILN_CHECK(app.ordered(Expr(1), x.shape[static_cast<size_t>(*axis)], "the extent of the axis"));
    std::vector<bool> axes(x.shape.size(), false);
    axes[static_cast<size_t>(*axis)] = true;
    return Types{{ElementType::kI64, without(x.shape, axes, flag_attr(app.attrs, 2))}};
  }
  const bool primitive = app.op == kReduce;
  auto axes = app.axes(primitive ? 1 : 0, x.rank());
  if (!axes) return axes.error();
  if (primitive) {
    KILN_CHECK(check_kind(app, enum_attr<ReduceKind>(app.attrs, 0)));
  } else {
    KILN_CHECK(app.is_float(0));
    if (app.op == kVariance) KILN_CHECK(app.int_between(1, 0, DimInfo::kMost));
  }
  const size_t keep = primitive || app.op == kVariance ? 2 : 1;
  return Types{{x.element, without(x.shape, *axes, flag_attr(app.attrs, keep))}};
}

Result<Types> infer_scan(const Application& app) {
  if (app.op == kScanCustom) return infer_custom(app);
  auto axis = app.axis(1, app.in(0).rank());
  if (!axis) return axis.error();
  KILN_CHECK(check_kind(app, enum_attr<ReduceKind>(app.attrs, 0)));
  return Types{app.in(0)};
}

Result<Types> infer_order(const Application& app) {
  const TensorType& x = app.in(0);
  if (app.op == kHistogram) {
    KILN_CHECK(app.is_int(0));
    KILN_CHECK(app.fits({expr_attr(app.attrs, 0)}));
    return Types{{ElementType::kI64, {expr_attr(app.attrs, 0)}}};
  }
  auto axis = app.axis(app.op == kTopk ? 1 : 0, x.rank());
  if (!axis) return axis.error();
  if (x.element == ElementType::kI1) return app.fail("i1 has no order; cast it");
  Extents shape = x.shape;
  if (app.op == kTopk) {
    const Expr& k = expr_attr(app.attrs, 0);
    KILN_CHECK(app.not_negative(k, "k"));
    KILN_CHECK(app.ordered(k, shape[static_cast<size_t>(*axis)], "k and the extent of the axis"));
    shape[static_cast<size_t>(*axis)] = k;
  }
  return Types{{x.element, shape}, {ElementType::kI64, shape}};
}

}  // namespace kiln::graph
