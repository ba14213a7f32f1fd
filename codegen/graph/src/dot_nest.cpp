#include "dot_nest.h"

namespace kiln::planner {

using graph::Node;

namespace {

std::vector<Expr> extents_at(const std::vector<Expr>& shape, std::span<const int64_t> axes) {
  std::vector<Expr> out;
  for (const int64_t axis : axes) out.push_back(shape[static_cast<size_t>(axis)]);
  return out;
}

// Axes that are neither in a batch nor contracted, in order.
std::vector<int64_t> free_axes(size_t rank, const std::vector<int64_t>& batch, const std::vector<int64_t>& contract) {
  std::vector<int64_t> out;
  for (int64_t axis = 0; axis < static_cast<int64_t>(rank); ++axis) {
    const bool is_free = std::find(batch.begin(), batch.end(), axis) == batch.end() &&
                         std::find(contract.begin(), contract.end(), axis) == contract.end();
    if (is_free) out.push_back(axis);
  }
  return out;
}

FlatAxis flat_axis(IndexSpace& space, const std::vector<Expr>& extents) {
  FlatAxis out;
  out.extent = graph::element_count(extents);
  if (out.extent == Expr(1)) {
    out.coords.resize(extents.size());
    return out;
  }
  const Expr place = space.add_axis(out.extent);
  out.axis = space.axis_count() - 1;
  out.coords = space.unravel(place, extents);
  return out;
}

void put(Coords& coords, std::span<const int64_t> axes, const Coords& places) {
  for (size_t i = 0; i < axes.size(); ++i) coords[static_cast<size_t>(axes[i])] = places[i];
}

Error not_written(const graph::Graph& graph, const Node& node) {
  const std::string place = graph.location_text(node.loc);
  return internal_error((place.empty() ? "" : place + ": ") + "a `dot` whose operands have no kernel");
}

// The axes of a product, by operand.
struct DotAxes {
  std::vector<int64_t> batch_a, batch_b, contract_a, contract_b, free_a, free_b;
};

// Which of them are the tile's: [first, last) of the contracted ones, and the free ones from some on.
struct TileAxes {
  size_t first_k = 0, last_k = 0, first_m = 0, first_n = 0;
};

class DotNestBuilder {
 public:
  explicit DotNestBuilder(const GroupContext& context)
      : context_(context), node_(context.graph.main().nodes[context.group().anchors[0]]) {
    const graph::AttrList& attrs = context.graph.attrs(node_);
    const auto operands = context.graph.main().operands_of(node_);
    shape_a_ = context.type(operands[0]).shape;
    shape_b_ = context.type(operands[1]).shape;
    axes_ = {graph::ints_attr(attrs, 0),
             graph::ints_attr(attrs, 1),
             graph::ints_attr(attrs, 2),
             graph::ints_attr(attrs, 3),
             {},
             {}};
    axes_.free_a = free_axes(shape_a_.size(), axes_.batch_a, axes_.contract_a);
    axes_.free_b = free_axes(shape_b_.size(), axes_.batch_b, axes_.contract_b);
  }

  Result<DotNest> build(bool splits_free);
  Result<DotNest> unfolded();

 private:
  std::optional<DotNest> with(const TileAxes& tile) const;
  bool add_operands(DotNest& out, const Coords& at_a, const Coords& at_b, const Coords& result) const;
  bool may_block(const Expr& extent) const;
  TileAxes choose_k(DotNest& best) const;
  void choose_free(DotNest& best, TileAxes& tile, bool rows) const;

  const GroupContext& context_;
  const Node& node_;
  std::vector<Expr> shape_a_, shape_b_;
  DotAxes axes_;
};

// The steps that the loads of an operand are.
std::vector<const Step*> loads_of(const Nest& nest, StepId operand) {
  const StepId wanted[] = {operand};
  const std::vector<bool> live = live_steps(nest, wanted);
  std::vector<const Step*> out;
  for (size_t i = 0; i < live.size(); ++i) {
    if (live[i] && nest.steps[i].kind == Step::Kind::kLoad) out.push_back(&nest.steps[i]);
  }
  return out;
}

bool has_stride(const Nest& nest, StepId operand, const FlatAxis& axis, const std::optional<Expr>& stride) {
  if (axis.axis == kNoAxis) return true;
  for (const Step* load : loads_of(nest, operand)) {
    const auto part = linear_in(nest.space, load->offset, axis.axis);
    if (!part || (stride && part->coefficient != *stride)) return false;
  }
  return true;
}

// Whether an operand lies as rows and columns, or what is contracted lies side by side.
bool is_tile(const Nest& nest, StepId operand, const FlatAxis& free, const FlatAxis& k) {
  if (!is_linear(nest, operand, k)) return false;
  return is_linear(nest, operand, free) || has_stride(nest, operand, k, Expr(1));
}

// Whether an operand's edges go across the axis: a mask for each element costs more than one for each row.
bool is_masked(const DotNest& dot, const FlatAxis& axis) {
  if (axis.axis == kNoAxis) return false;
  for (const StepId operand : {dot.a, dot.b}) {
    for (const Step* load : loads_of(dot.nest, operand)) {
      for (const Condition& condition : load->when) {
        const IndexSpace& space = dot.nest.space;
        if (space.mentions(condition.a, axis.axis) || space.mentions(condition.b, axis.axis)) return true;
      }
    }
  }
  return false;
}

// A dim may be long.
int64_t usual_count(const Expr& extent) { return extent.as_constant().value_or(int64_t{1} << 20); }

}  // namespace

bool is_linear(const Nest& nest, StepId operand, const FlatAxis& axis) {
  return has_stride(nest, operand, axis, std::nullopt);
}

namespace {

bool DotNestBuilder::add_operands(DotNest& out, const Coords& at_a, const Coords& at_b, const Coords& result) const {
  const graph::Graph& graph = context_.graph;
  const Group& group = context_.group();
  const auto operands = graph.main().operands_of(node_);
  NestBuilder builder(
      graph, out.nest, [&](ValueId value) { return source_of(graph, context_.grouping, context_.number, value); },
      [&](uint32_t) { return result; });
  const auto a = builder.at(operands[0], at_a), b = builder.at(operands[1], at_b);
  if (!a || !b) return false;
  out.a = *a;
  out.b = *b;
  for (const ValueId root : group.roots) {
    const auto coords = value_place(graph, out.nest.space, context_.grouping, context_.number, root, result);
    const auto step = coords ? builder.at(root, *coords) : std::nullopt;
    if (!step) return false;
    out.stores.push_back({root, *step, context_.place(root, *coords), *coords});
  }
  return true;
}

// The axes as some are the tile's.
std::optional<DotNest> DotNestBuilder::with(const TileAxes& tile) const {
  DotNest out{.nest = {IndexSpace(context_.graph.dims), {}, {}},
              .programs = {},
              .loops = {},
              .m = {},
              .n = {},
              .k = {},
              .stores = {}};
  IndexSpace& space = out.nest.space;
  const auto each_alone = [&](const std::vector<Expr>& extents, size_t first, size_t last, std::vector<FlatAxis>& to,
                              Coords& coords) {
    for (size_t i = first; i < last; ++i) {
      to.push_back(flat_axis(space, {extents[i]}));
      coords.push_back(to.back().coords[0]);
    }
  };
  Coords batch, m, n, k;
  const std::vector<Expr> ms = extents_at(shape_a_, axes_.free_a), ns = extents_at(shape_b_, axes_.free_b),
                          ks = extents_at(shape_a_, axes_.contract_a);
  const std::vector<Expr> batches = extents_at(shape_a_, axes_.batch_a);
  each_alone(batches, 0, batches.size(), out.programs, batch);
  each_alone(ms, 0, tile.first_m, out.programs, m);
  each_alone(ns, 0, tile.first_n, out.programs, n);
  const auto flat = [&](const std::vector<Expr>& extents, size_t first, size_t last, Coords& coords) {
    const auto at = [&](size_t i) { return extents.begin() + static_cast<ptrdiff_t>(i); };
    FlatAxis axis = flat_axis(space, {at(first), at(last)});
    coords.insert(coords.end(), axis.coords.begin(), axis.coords.end());
    return axis;
  };
  out.m = flat(ms, tile.first_m, ms.size(), m);
  out.n = flat(ns, tile.first_n, ns.size(), n);
  each_alone(ks, 0, tile.first_k, out.loops, k);
  out.k = flat(ks, tile.first_k, tile.last_k, k);
  each_alone(ks, tile.last_k, ks.size(), out.loops, k);

  Coords at_a(shape_a_.size()), at_b(shape_b_.size()), result = batch;
  put(at_a, axes_.batch_a, batch);
  put(at_a, axes_.free_a, m);
  put(at_a, axes_.contract_a, k);
  put(at_b, axes_.batch_b, batch);
  put(at_b, axes_.free_b, n);
  put(at_b, axes_.contract_b, k);
  result.insert(result.end(), m.begin(), m.end());
  result.insert(result.end(), n.begin(), n.end());
  if (!add_operands(out, at_a, at_b, result)) return std::nullopt;
  return out;
}

// Fewer elements than that are no block.
bool DotNestBuilder::may_block(const Expr& extent) const { return extent.as_constant().value_or(16) >= 16; }

// All contracted axes as one, if both operands lie so; else the longest run of them that they lie along, without edges
// across it where there is one, and loops over the others.
TileAxes DotNestBuilder::choose_k(DotNest& best) const {
  const size_t count = axes_.contract_a.size();
  TileAxes out{.first_k = 0, .last_k = count};
  const auto lies = [](const DotNest& dot) {
    return is_linear(dot.nest, dot.a, dot.k) && is_linear(dot.nest, dot.b, dot.k);
  };
  if (count < 2 || lies(best)) return out;
  std::pair<bool, int64_t> best_so_far;  // has no mask along it, how long it is
  for (size_t first = 0; first < count; ++first) {
    Expr extent(1);
    for (size_t last = first + 1; last <= count; ++last) {
      extent = extent * shape_a_[static_cast<size_t>(axes_.contract_a[last - 1])];
      if (!may_block(extent) || std::pair(true, usual_count(extent)) < best_so_far) continue;
      auto split = with({.first_k = first, .last_k = last});
      if (!split || !lies(*split)) continue;
      const std::pair here(!is_masked(*split, split->k), usual_count(extent));
      if (here < best_so_far) continue;
      best_so_far = here;
      out = {.first_k = first, .last_k = last};
      best = std::move(*split);
    }
  }
  return out;
}

// All free axes of an operand as one, if it is a tile then; else as many of the last ones as make it one.
void DotNestBuilder::choose_free(DotNest& best, TileAxes& tile, bool rows) const {
  const auto lies = [&](const DotNest& dot) {
    return is_tile(dot.nest, rows ? dot.a : dot.b, rows ? dot.m : dot.n, dot.k);
  };
  const std::vector<int64_t>& axes = rows ? axes_.free_a : axes_.free_b;
  if (axes.size() < 2 || lies(best)) return;
  const std::vector<Expr> extents = extents_at(rows ? shape_a_ : shape_b_, axes);
  for (size_t first = 1; first < axes.size(); ++first) {
    if (!may_block(graph::element_count(std::span(extents).subspan(first)))) return;
    TileAxes tried = tile;
    (rows ? tried.first_m : tried.first_n) = first;
    auto split = with(tried);
    if (!split || !lies(*split)) continue;
    tile = tried;
    best = std::move(*split);
    return;
  }
}

Result<DotNest> DotNestBuilder::build(bool splits_free) {
  auto best = with({.first_k = 0, .last_k = axes_.contract_a.size()});
  if (!best) return not_written(context_.graph, node_);
  TileAxes tile = choose_k(*best);
  if (splits_free) {
    choose_free(*best, tile, true);
    choose_free(*best, tile, false);
  }
  return std::move(*best);
}

Result<DotNest> DotNestBuilder::unfolded() {
  const size_t count = axes_.contract_a.size();
  auto out = with({.first_k = count == 0 ? 0 : count - 1, .last_k = count});
  if (!out) return not_written(context_.graph, node_);
  return std::move(*out);
}

}  // namespace

std::vector<NodeId> masked_pads(const GroupContext& context) {
  auto dot = dot_nest(context);
  std::vector<NodeId> out;
  if (!dot || !is_masked(*dot, dot->k)) return out;
  const graph::Body& body = context.graph.main();
  for (ValueId value : body.operands_of(body.nodes[context.group().anchors[0]])) {
    // Down to what is in memory, as the operand is read.
    for (NodeId node = body.values[value].node; node != graph::kNone; node = body.values[value].node) {
      if (source_of(context.graph, context.grouping, context.number, value).way == Way::kLoad) break;
      if (body.nodes[node].op == TensorOp::kPad) out.push_back(node);
      if (body.nodes[node].operand_count == 0) break;
      value = body.operands_of(body.nodes[node])[0];
    }
  }
  return out;
}

Result<DotNest> unfolded_dot_nest(const GroupContext& context) { return DotNestBuilder(context).unfolded(); }
Result<DotNest> dot_nest(const GroupContext& context) { return DotNestBuilder(context).build(true); }
Result<DotNest> whole_dot_nest(const GroupContext& context) { return DotNestBuilder(context).build(false); }

}  // namespace kiln::planner
