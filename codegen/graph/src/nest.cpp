// Elements of values by recursion through the graph: views change coordinates, elementwise ops pass them on.
#include "nest.h"

namespace kiln::planner {

using graph::Node;

Expr place_of(const AxisOrder& order, std::span<const Expr> coords, std::span<const Expr> shape) {
  if (order.empty()) return IndexSpace::ravel(coords, shape);
  Coords there;
  std::vector<Expr> extents;
  for (const size_t axis : order) {
    there.push_back(coords[axis]);
    extents.push_back(shape[axis]);
  }
  return IndexSpace::ravel(there, extents);
}

StepId NestBuilder::add(Step step) {
  nest_.steps.push_back(std::move(step));
  return static_cast<StepId>(nest_.steps.size() - 1);
}

std::optional<StepId> NestBuilder::at(ValueId value, const Coords& coords, const Predicate& when) {
  Key key{value, coords, when};
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  const auto out = computed(value, coords, when);
  known_.emplace(std::move(key), out);
  return out;
}

std::optional<StepId> NestBuilder::computed(ValueId value, const Coords& coords, const Predicate& when) {
  const Source source = source_(value);
  const ElementType element = type(value).element;
  if (source.way == Way::kLoad) {
    static const AxisOrder row_major;
    return add({.kind = Step::Kind::kLoad,
                .element = element,
                .tensor = source.tensor == graph::kNoValue ? value : source.tensor,
                .offset = place_of(source.order != nullptr ? *source.order : row_major, coords, shape(value)),
                .coords = coords,
                .when = when});
  }
  if (source.way == Way::kAnchor) {
    if (coords != anchor_place_(source.anchor)) return std::nullopt;
    return add({.kind = Step::Kind::kAnchor, .element = element, .anchor = source.anchor});
  }
  const graph::Body& body = graph_.main();
  const NodeId number = body.values[value].node;
  if (number == graph::kNone) return std::nullopt;
  const Node& node = body.nodes[number];
  switch (graph::info(node.op).family) {
    case graph::Family::kElementwise:
      return elementwise(node, coords, when);
    case graph::Family::kMake:
      return made(node, element, coords, when);
    case graph::Family::kView:
      return node.op == TensorOp::kPad ? padded(node, coords, when) : viewed(node, coords, when);
    case graph::Family::kCat:
      return joined(node, coords, when);
    case graph::Family::kIndex:
      if (node.op == TensorOp::kGather) return gathered(node, coords, when);
      if (node.op == TensorOp::kIndex) return indexed(node, coords, when);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

// Integer arithmetic on places is an index expression again: windows and strided looks stay affine. In i64, where
// nothing that is a place wraps.
std::optional<Expr> NestBuilder::index_of(TensorOp op, ElementType element, std::span<const StepId> operands) const {
  if (element != ElementType::kI64 && element != ElementType::kI32) return std::nullopt;
  std::vector<Expr> exprs;
  for (const StepId id : operands) {
    const Step& step = nest_.steps[id];
    if (step.kind == Step::Kind::kIndex) {
      exprs.push_back(step.offset);
    } else if (step.kind == Step::Kind::kLiteral && dsl::is_int(step.element)) {
      exprs.emplace_back(step.element == ElementType::kI32 ? int64_t{static_cast<int32_t>(step.bits)}
                                                           : static_cast<int64_t>(step.bits));
    } else {
      return std::nullopt;
    }
  }
  std::optional<Expr> out;
  if (op == TensorOp::kAdd) out = exprs[0] + exprs[1];
  if (op == TensorOp::kSub) out = exprs[0] - exprs[1];
  if (op == TensorOp::kMul) out = exprs[0] * exprs[1];
  if (op == TensorOp::kCast && dsl::is_int(nest_.steps[operands[0]].element)) out = exprs[0];
  if (!out) return std::nullopt;
  const graph::Interval bounds = nest_.space.interval(*out);
  const int64_t most = element == ElementType::kI32 ? INT32_MAX : int64_t{1} << 61;
  return bounds.low >= -most && bounds.high <= most ? out : std::nullopt;
}

std::optional<StepId> NestBuilder::elementwise(const Node& node, const Coords& coords, const Predicate& when) {
  std::vector<StepId> operands;
  for (const ValueId operand : graph_.main().operands_of(node)) {
    const auto each = at(operand, coords, when);
    if (!each) return std::nullopt;
    operands.push_back(*each);
  }
  if (node.op == TensorOp::kStopGradient) return operands[0];
  const ElementType element = type(node.first_result).element;
  if (const auto index = index_of(node.op, element, operands)) {
    return add({.kind = Step::Kind::kIndex, .element = element, .offset = *index});
  }
  return add({.kind = Step::Kind::kCompute,
              .element = element,
              .op = node.op,
              .attrs = node.attrs,
              .operands = std::move(operands)});
}

std::optional<StepId> NestBuilder::made(const Node& node, ElementType element, const Coords& coords,
                                        const Predicate& when) {
  const graph::AttrList& attrs = graph_.attrs(node);
  switch (node.op) {
    case TensorOp::kFull:
      return add({.kind = Step::Kind::kLiteral, .element = element, .bits = std::get<dsl::Literal>(attrs[2]).bits});
    case TensorOp::kConstant: {  // of one element: the others lie in memory
      const auto& data = std::get<std::vector<uint64_t>>(attrs[2]);
      if (data.size() != 1) return std::nullopt;
      return add({.kind = Step::Kind::kLiteral, .element = element, .bits = data[0]});
    }
    case TensorOp::kExtent:
      return add({.kind = Step::Kind::kIndex, .element = element, .offset = graph::expr_attr(attrs, 1)});
    case TensorOp::kIota:
      return add({.kind = Step::Kind::kIndex,
                  .element = element,
                  .offset = coords[static_cast<size_t>(graph::int_attr(attrs, 2))]});
    case TensorOp::kPhilox: {
      const auto operands = graph_.main().operands_of(node);
      const auto seed = at(operands[0], {}, when), counter = at(operands[1], {}, when);
      if (!seed || !counter) return std::nullopt;
      return add({.kind = Step::Kind::kPhilox,
                  .element = element,
                  .offset = IndexSpace::ravel(coords, shape(node.first_result)),
                  .operands = {*seed, *counter}});
    }
    default:
      return std::nullopt;
  }
}

std::optional<StepId> NestBuilder::viewed(const Node& node, const Coords& coords, const Predicate& when) {
  const ValueId x = graph_.main().operands_of(node)[0];
  const graph::AttrList& attrs = graph_.attrs(node);
  const std::vector<Expr>&from = shape(x), &to = shape(node.first_result);
  Coords out(from.size());
  switch (node.op) {
    case TensorOp::kReshape:
      out = nest_.space.unravel(IndexSpace::ravel(coords, to), from);
      break;
    case TensorOp::kPermute: {
      const auto& order = graph::ints_attr(attrs, 0);
      for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = coords[i];
      break;
    }
    case TensorOp::kBroadcast: {
      const size_t missing = to.size() - from.size();
      for (size_t i = 0; i < from.size(); ++i) out[i] = from[i] == Expr(1) ? Expr() : coords[missing + i];
      break;
    }
    case TensorOp::kSlice: {
      const auto& start = graph::shape_attr(attrs, 0);
      const auto& step = graph::ints_attr(attrs, 2);
      for (size_t i = 0; i < from.size(); ++i) out[i] = start[i] + Expr(step[i]) * coords[i];
      break;
    }
    case TensorOp::kReverse:
      out = coords;
      for (const int64_t axis : graph::ints_attr(attrs, 0)) {
        const auto i = static_cast<size_t>(axis);
        out[i] = from[i] - 1 - coords[i];
      }
      break;
    default:
      return std::nullopt;
  }
  return at(x, out, when);
}

std::optional<StepId> NestBuilder::padded(const Node& node, const Coords& coords, const Predicate& when) {
  const auto operands = graph_.main().operands_of(node);
  const graph::AttrList& attrs = graph_.attrs(node);
  const auto& low = graph::shape_attr(attrs, 0);
  const auto& high = graph::shape_attr(attrs, 1);
  const auto& inner = graph::ints_attr(attrs, 2);
  const std::vector<Expr>& from = shape(operands[0]);
  Predicate inside;
  Coords out(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const Expr moved = coords[i] - low[i];
    const Expr step(inner[i] + 1);
    if (low[i] != Expr()) inside.push_back({dsl::AtomKind::kLe, Expr(), moved});
    if (high[i] != Expr()) inside.push_back({dsl::AtomKind::kLt, moved, (from[i] - 1) * step + 1});
    if (inner[i] == 0) {
      out[i] = moved;
    } else {
      out[i] = Expr::apply(dsl::AtomKind::kDiv, moved, step);
      inside.push_back({dsl::AtomKind::kEq, Expr::apply(dsl::AtomKind::kRem, moved, step), Expr()});
    }
  }
  Predicate both = when;
  both.insert(both.end(), inside.begin(), inside.end());
  std::sort(both.begin(), both.end());
  both.erase(std::unique(both.begin(), both.end()), both.end());
  const auto x = at(operands[0], out, both), value = at(operands[1], {}, when);
  if (!x || !value) return std::nullopt;
  if (inside.empty()) return x;
  return add({.kind = Step::Kind::kChoose,
              .element = type(node.first_result).element,
              .when = std::move(inside),
              .operands = {*x, *value}});
}

std::optional<StepId> NestBuilder::joined(const Node& node, const Coords& coords, const Predicate& when) {
  const auto operands = graph_.main().operands_of(node);
  const auto axis = static_cast<size_t>(graph::int_attr(graph_.attrs(node), 0));
  const ElementType element = type(node.first_result).element;
  std::vector<Expr> starts(1);
  for (const ValueId part : operands) starts.push_back(starts.back() + shape(part)[axis]);
  std::optional<StepId> out;
  for (size_t i = operands.size(); i-- > 0;) {
    Coords there = coords;
    there[axis] = coords[axis] - starts[i];
    Predicate inside = when;
    if (i > 0) inside.push_back({dsl::AtomKind::kLe, starts[i], coords[axis]});
    if (i + 1 < operands.size()) inside.push_back({dsl::AtomKind::kLt, coords[axis], starts[i + 1]});
    std::sort(inside.begin(), inside.end());
    inside.erase(std::unique(inside.begin(), inside.end()), inside.end());
    const auto part = at(operands[i], there, inside);
    if (!part) return std::nullopt;
    out = !out ? part
               : add({.kind = Step::Kind::kChoose,
                      .element = element,
                      .when = {{dsl::AtomKind::kLt, coords[axis], starts[i + 1]}},
                      .operands = {*part, *out}});
  }
  return out;
}

// The place along an axis that an index tensor says.
std::optional<Expr> NestBuilder::place(ValueId index, const Coords& coords, const Predicate& when, const Expr& extent) {
  const auto step = at(index, coords, when);
  if (!step) return std::nullopt;
  const Step& looked_up = nest_.steps[*step];
  if (looked_up.kind == Step::Kind::kIndex && nest_.space.interval(looked_up.offset).low >= 0) return looked_up.offset;
  for (const BoundAxis& bound : nest_.bound) {
    const Step& wrapped = nest_.steps[bound.step];
    if (wrapped.operands[0] == *step && wrapped.offset == extent) return nest_.space.axis(bound.axis);
  }
  const StepId wrapped =
      add({.kind = Step::Kind::kPlace, .element = ElementType::kI64, .offset = extent, .operands = {*step}});
  const Expr axis = nest_.space.add_axis(extent);
  nest_.bound.push_back({nest_.space.axis_count() - 1, wrapped});
  return axis;
}

std::optional<StepId> NestBuilder::gathered(const Node& node, const Coords& coords, const Predicate& when) {
  const auto operands = graph_.main().operands_of(node);
  const auto axis = static_cast<size_t>(graph::int_attr(graph_.attrs(node), 0));
  const auto there = place(operands[1], coords, when, shape(operands[0])[axis]);
  if (!there) return std::nullopt;
  Coords out = coords;
  out[axis] = *there;
  return at(operands[0], out, when);
}

std::optional<StepId> NestBuilder::indexed(const Node& node, const Coords& coords, const Predicate& when) {
  const auto operands = graph_.main().operands_of(node);
  const auto& axes = graph::ints_attr(graph_.attrs(node), 0);
  const std::vector<Expr>& from = shape(operands[0]);
  const size_t points = shape(operands[1]).size();
  const Coords point(coords.begin(), coords.begin() + static_cast<ptrdiff_t>(points));
  Coords out(from.size());
  std::vector<bool> is_indexed(from.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    const auto there = place(operands[1 + i], point, when, from[axis]);
    if (!there) return std::nullopt;
    out[axis] = *there;
    is_indexed[axis] = true;
  }
  size_t next = points;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!is_indexed[i]) out[i] = coords[next++];
  }
  return at(operands[0], out, when);
}

}  // namespace kiln::planner
