// Where values are in a group's domain, and how they come to be there.
#include "groups.h"

namespace kiln::planner {

using graph::Body;
using graph::Family;
using graph::Graph;
using graph::kNone;
using graph::Node;

Coords add_axes(IndexSpace& space, std::span<const Expr> domain) {
  Coords out;
  for (const Expr& extent : domain) out.push_back(extent == Expr(1) ? Expr() : space.add_axis(extent));
  return out;
}

bool is_view(TensorOp op) {
  return (graph::info(op).family == Family::kView && op != TensorOp::kPad) || op == TensorOp::kStopGradient;
}

bool is_inlineable(TensorOp op) {
  const Family family = graph::info(op).family;
  return family == Family::kElementwise || family == Family::kMake || family == Family::kView ||
         family == Family::kCat || op == TensorOp::kGather || op == TensorOp::kIndex;
}

bool is_cat_of_many(const Graph& graph, const Node& node) {
  if (node.op != TensorOp::kCat || node.operand_count <= kMostParts) return false;
  std::set<std::vector<Expr>> shapes;
  for (const ValueId part : graph.main().operands_of(node)) shapes.insert(graph.type(graph.main(), part).shape);
  return shapes.size() <= kMostShapes;
}

bool is_reduced(const Group& group, size_t axis) {
  return std::find(group.reduced.begin(), group.reduced.end(), static_cast<int64_t>(axis)) != group.reduced.end();
}

namespace {

// Coordinates and extents of the domain without its reduced axes.
void keep_outer(const Group& group, const Coords& domain, Coords& coords, std::vector<Expr>& shape) {
  for (size_t i = 0; i < domain.size(); ++i) {
    if (is_reduced(group, i)) continue;
    coords.push_back(domain[i]);
    shape.push_back(group.domain[i]);
  }
}

// The coordinates in another shape with the same extents but for those of 1; none where the others differ.
std::optional<Coords> spread(const Coords& coords, std::span<const Expr> from, std::span<const Expr> to) {
  Coords out;
  size_t next = 0;
  const auto skip = [&] {
    while (next < from.size() && from[next] == Expr(1)) ++next;
  };
  for (const Expr& extent : to) {
    if (extent == Expr(1)) {
      out.emplace_back();
      continue;
    }
    skip();
    if (next == from.size() || from[next] != extent) return std::nullopt;
    out.push_back(coords[next++]);
  }
  skip();
  return next == from.size() ? std::optional(out) : std::nullopt;
}

}  // namespace

std::vector<int64_t> reduced_axes(const Graph& graph, const Node& node) {
  const graph::AttrList& attrs = graph.attrs(node);
  if (node.op == TensorOp::kArgReduce) return {graph::int_attr(attrs, graph::attr_index(node.op, "axis"))};
  return graph::ints_attr(attrs, graph::attr_index(node.op, "axes"));
}

size_t reduced_tensors(const Node& node) { return node.op == TensorOp::kReduceCustom ? node.operand_count / 2 : 1; }

Coords anchor_place(const Graph& graph, const Group& group, uint32_t anchor, const Coords& domain) {
  if (group.form != Group::Form::kReduce) return domain;
  const Node& node = graph.main().nodes[group.anchors[anchor]];
  const bool keep = graph::flag_attr(graph.attrs(node), graph::attr_index(node.op, "keep"));
  Coords out;
  for (size_t i = 0; i < domain.size(); ++i) {
    if (!is_reduced(group, i)) {
      out.push_back(domain[i]);
    } else if (keep) {
      out.emplace_back();
    }
  }
  return out;
}

namespace {

// Where a view's elements are, by where those of its operand are; none where they are not as many.
std::optional<Coords> moved(const Graph& graph, const IndexSpace& space, const Node& node, const Coords& from) {
  const graph::Body& body = graph.main();
  const auto& to = graph.type(body, node.first_result).shape;
  switch (node.op) {
    case TensorOp::kReshape:
      return space.unravel(IndexSpace::ravel(from, graph.type(body, body.operands_of(node)[0]).shape), to);
    case TensorOp::kPermute: {
      Coords out;
      for (const int64_t axis : graph::ints_attr(graph.attrs(node), 0)) {
        out.push_back(from[static_cast<size_t>(axis)]);
      }
      return out;
    }
    case TensorOp::kStopGradient:
      return from;
    default:
      return std::nullopt;
  }
}

// Places of what is computed of a product or an attention, from its result on.
class PlacesBehind {
 public:
  PlacesBehind(const Graph& graph, const IndexSpace& space, const Grouping& grouping, uint32_t number,
               const Coords& domain)
      : graph_(graph), space_(space), grouping_(grouping), number_(number), domain_(domain) {}

  std::optional<Coords> at(ValueId value) {
    if (const auto known = known_.find(value); known != known_.end()) return known->second;
    const auto out = found(value);
    known_.emplace(value, out);
    return out;
  }

 private:
  std::optional<Coords> found(ValueId value) {
    const graph::Body& body = graph_.main();
    const NodeId number = body.values[value].node;
    if (number == kNone || grouping_.group_of[number] != number_) return std::nullopt;
    if (number == grouping_.groups[number_].anchors[0]) return domain_;
    const Node& node = body.nodes[number];
    for (const ValueId operand : body.operands_of(node)) {
      const auto from = at(operand);
      if (!from) continue;
      if (is_view(node.op)) return moved(graph_, space_, node, *from);
      if (graph_.type(body, operand).shape == graph_.type(body, value).shape) return from;
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const IndexSpace& space_;
  const Grouping& grouping_;
  const uint32_t number_;
  const Coords& domain_;
  std::map<ValueId, std::optional<Coords>> known_;
};

}  // namespace

std::optional<Coords> value_place(const Graph& graph, const IndexSpace& space, const Grouping& grouping,
                                  uint32_t number, ValueId value, const Coords& domain) {
  const Group& group = grouping.groups[number];
  const auto found = std::find(group.anchors.begin(), group.anchors.end(), graph.main().values[value].node);
  if (found != group.anchors.end()) {
    return anchor_place(graph, group, static_cast<uint32_t>(found - group.anchors.begin()), domain);
  }
  if (group.form == Group::Form::kAttention) return PlacesBehind(graph, space, grouping, number, domain).at(value);
  if (group.form == Group::Form::kDot) {
    if (auto out = PlacesBehind(graph, space, grouping, number, domain).at(value)) return out;
  }
  const std::vector<Expr>& shape = graph.type(graph.main(), value).shape;
  const auto placed = [&](const Coords& coords, const std::vector<Expr>& extents) -> std::optional<Coords> {
    if (const auto same = spread(coords, extents, shape)) return same;
    if (graph::element_count(shape) != graph::element_count(extents)) return std::nullopt;
    return space.unravel(IndexSpace::ravel(coords, extents), shape);
  };
  if (const auto whole = placed(domain, group.domain); whole || group.form != Group::Form::kReduce) return whole;
  Coords coords;
  std::vector<Expr> outer;
  keep_outer(group, domain, coords, outer);
  return placed(coords, outer);
}

namespace {

// A value in memory, as a group reads it.
Source loaded(const Grouping& grouping, uint32_t group, ValueId value) {
  if (const auto copy = grouping.read_from.find({group, value}); copy != grouping.read_from.end()) {
    return {Way::kLoad, 0, kFirstCopy + copy->second, &grouping.copies[copy->second].order};
  }
  const auto order = grouping.orders.find(value);
  return {Way::kLoad, 0, graph::kNoValue, order == grouping.orders.end() ? nullptr : &order->second};
}

}  // namespace

Source source_of(const Graph& graph, const Grouping& grouping, uint32_t group, ValueId value) {
  const Body& body = graph.main();
  const NodeId number = body.values[value].node;
  if (number == kNone) return loaded(grouping, group, value);
  const Node& node = body.nodes[number];
  if (grouping.group_of[number] == group) {
    const auto& anchors = grouping.groups[group].anchors;
    const auto found = std::find(anchors.begin(), anchors.end(), number);
    if (found != anchors.end()) {
      return {Way::kAnchor, static_cast<uint32_t>(found - anchors.begin()) + (value - node.first_result)};
    }
    return {Way::kInline};
  }
  const uint32_t home = grouping.group_of[number];
  // A group that comes behind this one is made of it: what both need is computed in both.
  if (grouping.in_memory[value] && home != kNone && grouping.groups[group].needs.contains(home)) {
    return loaded(grouping, group, value);
  }
  if (node.op == TensorOp::kConstant && std::get<std::vector<uint64_t>>(graph.attrs(node)[2]).size() != 1)
    return loaded(grouping, group, value);
  return {Way::kInline};
}

}  // namespace kiln::planner
