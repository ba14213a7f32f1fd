#include "kernel_writer.h"

#include "combiner.h"
#include "kiln/dsl/library.h"

namespace kiln::planner {

using graph::Graph;
using graph::kNone;
using graph::Node;
using lang::Value;

Error no_kernel(const Graph& graph, NodeId number) {
  const Node& node = graph.main().nodes[number];
  const std::string place = graph.location_text(node.loc);
  return error(ErrorCode::kCompileFailed,
               (place.empty() ? "" : place + ": ") + "there is no kernel for `" + graph::info(node.op).name + "` yet");
}

namespace {

void add_dims(const IndexSpace& space, const Expr& expr, std::set<uint32_t>& out) {
  for (const dsl::Term& term : expr.terms()) {
    for (const dsl::Atom& atom : term.atoms) {
      if (atom.args) {
        add_dims(space, atom.args->first, out);
        add_dims(space, atom.args->second, out);
      } else if (const auto axis = space.axis_of(atom)) {
        continue;
      } else {
        out.insert(atom.index);
      }
    }
  }
}

}  // namespace

std::vector<bool> live_steps(const Nest& nest, std::span<const StepId> wanted) {
  std::vector<bool> live(nest.steps.size());
  for (const StepId step : wanted) live[step] = true;
  const auto mark = [&](const Expr& expr) {
    for (const BoundAxis& bound : nest.bound) {
      if (nest.space.mentions(expr, bound.axis)) live[bound.step] = true;
    }
  };
  // Operands come before who reads them; so do the steps of bound axes.
  for (size_t i = nest.steps.size(); i-- > 0;) {
    if (!live[i]) continue;
    const Step& step = nest.steps[i];
    for (const StepId operand : step.operands) live[operand] = true;
    mark(step.offset);
    for (const Condition& condition : step.when) {
      mark(condition.a);
      mark(condition.b);
    }
  }
  return live;
}

std::vector<std::pair<ValueId, ValueId>> in_place_pairs(const GroupNest& group, std::span<const StepId> wanted) {
  const std::vector<bool> live = live_steps(group.nest, wanted);
  std::map<ValueId, std::vector<const Step*>> loads;
  for (size_t i = 0; i < live.size(); ++i) {
    const Step& step = group.nest.steps[i];
    if (live[i] && step.kind == Step::Kind::kLoad) loads[step.tensor].push_back(&step);
  }
  std::vector<std::pair<ValueId, ValueId>> out;
  for (const auto& [tensor, steps] : loads) {
    for (const Stored& store : group.stores) {
      const bool is_here = std::all_of(steps.begin(), steps.end(), [&](const Step* step) {
        return step->when.empty() && step->offset == store.offset &&
               step->element == group.nest.steps[store.step].element;
      });
      if (is_here) out.emplace_back(tensor, store.value);
    }
  }
  return out;
}

KernelArguments Signature::bind(const dsl::TracedParams& traced) const {
  KernelArguments out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].is_tensor) {
      out.tensors[arguments[i].tensor] = traced.value(i);
    } else {
      out.dims[arguments[i].dim] = traced.value(i);
    }
  }
  return out;
}

Signature signature_of(const Nest& nest, std::span<const Stored> stores, std::span<const StepId> wanted,
                       std::span<const ConstParam> consts, std::span<const Expr> numbers) {
  Signature out;
  std::set<ValueId> seen;
  std::set<uint32_t> dims;
  const auto add_tensor = [&](ValueId tensor, ElementType element, bool readonly) {
    if (!seen.insert(tensor).second) return;
    out.arguments.push_back({.is_tensor = true, .tensor = tensor});
    out.params.push_back({.name = (readonly ? "in" : "out") + std::to_string(out.params.size()),
                          .type = {element, true, {}},
                          .readonly = readonly});
  };
  const std::vector<bool> live = live_steps(nest, wanted);
  for (size_t i = 0; i < nest.steps.size(); ++i) {
    const Step& step = nest.steps[i];
    if (!live[i]) continue;
    if (step.kind == Step::Kind::kLoad) add_tensor(step.tensor, step.element, true);
    add_dims(nest.space, step.offset, dims);
    for (const Condition& condition : step.when) {
      add_dims(nest.space, condition.a, dims);
      add_dims(nest.space, condition.b, dims);
    }
  }
  for (size_t axis = 0; axis < nest.space.axis_count(); ++axis) {
    // Extents of bound axes stand in the steps that wrap places.
    const bool is_bound =
        std::any_of(nest.bound.begin(), nest.bound.end(), [&](const BoundAxis& bound) { return bound.axis == axis; });
    if (!is_bound) add_dims(nest.space, nest.space.extent(axis), dims);
  }
  for (const Stored& store : stores) add_dims(nest.space, store.offset, dims);
  for (const Expr& number : numbers) add_dims(nest.space, number, dims);
  for (const Stored& store : stores) add_tensor(store.value, nest.steps[store.step].element, false);
  for (const uint32_t dim : dims) {
    out.arguments.push_back({.is_tensor = false, .dim = dim});
    out.params.push_back({.name = "n" + std::to_string(out.params.size()), .type = {ElementType::kI64, false, {}}});
  }
  out.first_const = out.params.size();
  for (const ConstParam& each : consts) {
    out.params.push_back({.name = each.name + "=" + std::to_string(each.value), .is_const = true});
  }
  return out;
}

std::string group_name(const Graph& graph, const Group& group, const Grouping& grouping, uint32_t number) {
  std::string out;
  const graph::Body& body = graph.main();
  std::vector<std::string> names;
  for (NodeId n = 0; n < body.nodes.size(); ++n) {
    if (grouping.group_of[n] != number) continue;
    const Node& node = body.nodes[n];
    if (is_view(node.op) && !(group.roots.size() == 1 && node.first_result == group.roots[0])) continue;
    std::string name = graph::info(node.op).name;
    if (node.op == TensorOp::kReduce) {
      name =
          "reduce_" + graph::info(node.op).attrs[0].values[static_cast<size_t>(graph::int_attr(graph.attrs(node), 0))];
    }
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  for (const std::string& name : names) {
    if (out.size() > 60) return out + "_etc";
    out += (out.empty() ? "" : "_") + name;
  }
  return out.empty() ? "copy" : out;
}

int64_t block_for(const Expr& extent, int64_t most) {
  const auto number = extent.as_constant();
  if (!number) return most;
  int64_t out = 1;
  while (out < *number && out < most) out *= 2;
  return out;
}

std::vector<Value> ProgramAxes::places() {
  Value all;
  for (const Value& count : counts_) all = all.valid() ? all * count : count;
  if (!all.valid()) return {};
  lang::grid(all);
  std::vector<Value> out(counts_.size());
  Value rest = lang::cast(lang::program_id(0), ElementType::kI64);
  for (size_t i = counts_.size(); i-- > 0;) {
    out[i] = i == 0 ? rest : rest % counts_[i];
    if (i > 0) rest = rest / counts_[i];
  }
  return out;
}

GroupNest empty_nest(const Graph& graph, std::vector<Expr> domain, std::span<const int64_t> reduced) {
  GroupNest out{.nest = {IndexSpace(graph.dims), {}, {}},
                .domain = {},
                .axes = {},
                .is_reduced = {},
                .anchors = {},
                .inits = {},
                .numbers = {},
                .stores = {}};
  out.domain = add_axes(out.nest.space, domain);
  for (size_t i = 0, axis = 0; i < domain.size(); ++i) {
    if (domain[i] == Expr(1)) continue;
    out.axes.push_back(axis++);
    out.is_reduced.push_back(std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(i)) != reduced.end());
  }
  return out;
}

namespace {

// What the anchors combine, and begin with.
Result<void> add_anchors(const GroupContext& context, NestBuilder& builder, GroupNest& out) {
  const Graph& graph = context.graph;
  const std::vector<NodeId>& anchors = context.group().anchors;
  for (size_t i = 0, result = 0; i < anchors.size(); ++i) {
    result = i > 0 && anchors[i] == anchors[i - 1] ? result + 1 : 0;
    const Node& node = graph.main().nodes[anchors[i]];
    const auto operands = graph.main().operands_of(node);
    const size_t tensors = reduced_tensors(node);
    const auto step = builder.at(operands[result], out.domain);
    if (!step) return no_kernel(graph, anchors[i]);
    out.anchors.push_back(*step);
    out.inits.emplace_back();
    if (node.op != TensorOp::kReduceCustom) continue;
    const auto body = static_cast<graph::BodyId>(graph::int_attr(graph.attrs(node), 0));
    out.inits.back() = builder.at(operands[tensors + result], {});
    if (!out.inits.back() || !is_scalar_body(graph, body)) return no_kernel(graph, anchors[i]);
    const std::vector<Expr> numbers = body_numbers(graph, body);
    out.numbers.insert(out.numbers.end(), numbers.begin(), numbers.end());
  }
  return {};
}

}  // namespace

Result<GroupNest> nest_of(const GroupContext& context) {
  const Graph& graph = context.graph;
  const Group& group = context.group();
  GroupNest out = empty_nest(graph, group.domain, group.reduced);
  NestBuilder builder(
      graph, out.nest, [&](ValueId value) { return source_of(graph, context.grouping, context.number, value); },
      [&](uint32_t anchor) { return anchor_place(graph, group, anchor, out.domain); });
  if (group.form == Group::Form::kReduce) {
    if (auto added = add_anchors(context, builder, out); !added) return added.error();
  }
  for (const ValueId root : group.roots) {
    const auto coords = value_place(graph, out.nest.space, context.grouping, context.number, root, out.domain);
    const auto step = coords ? builder.at(root, *coords) : std::nullopt;
    if (!step) return no_kernel(graph, graph.main().values[root].node);
    out.stores.push_back({root, *step, context.place(root, *coords), *coords});
  }
  order_axes(context, out);
  return out;
}

std::optional<Expr> fastest_of(const Grouping& grouping, const Step& load) {
  const auto known = grouping.orders.find(load.tensor);
  for (size_t i = load.coords.size(); i-- > 0;) {
    const Expr& coordinate = load.coords[known == grouping.orders.end() ? i : known->second[i]];
    if (coordinate != Expr()) return coordinate;
  }
  return std::nullopt;
}

void order_axes(const GroupContext& context, GroupNest& group) {
  const Grouping& grouping = context.grouping;
  const IndexSpace& space = group.nest.space;
  // The axis that the coordinate counts one by one. On CPUs that of a channel within its group is one too: short rows
  // are fast there, and on GPUs too few programs.
  const auto counts = [&](const Expr& fastest, size_t axis) {
    if (!context.on_cpu() || !space.mentions(fastest, axis)) return fastest == space.axis(axis);
    const auto part = linear_in(space, fastest, axis);
    return part && part->coefficient == Expr(1);
  };
  const auto move_last = [&](const Expr& fastest) {
    for (size_t i = 0; i < group.axes.size(); ++i) {
      if (!counts(fastest, group.axes[i])) continue;
      const auto from = static_cast<ptrdiff_t>(i) + 1;
      std::rotate(group.axes.begin() + from - 1, group.axes.begin() + from, group.axes.end());
      std::rotate(group.is_reduced.begin() + from - 1, group.is_reduced.begin() + from, group.is_reduced.end());
      return true;
    }
    return false;
  };
  for (const Stored& store : group.stores) {
    const auto order = grouping.orders.find(store.value);
    if (order != grouping.orders.end() && move_last(store.coords[order->second.back()])) return;
  }
  // Who stores row by row goes along its rows, whatever it reads.
  if (std::find(group.is_reduced.begin(), group.is_reduced.end(), true) == group.is_reduced.end()) return;
  for (const Step& step : group.nest.steps) {
    if (step.kind != Step::Kind::kLoad || step.coords.size() < group.domain.size()) continue;
    const auto fastest = fastest_of(grouping, step);
    if (fastest && move_last(*fastest)) return;
  }
}

namespace {

// Every index expression of a group.
void for_each_expr(GroupNest& group, const std::function<void(Expr&)>& visit) {
  for (Step& step : group.nest.steps) {
    visit(step.offset);
    for (Condition& condition : step.when) {
      visit(condition.a);
      visit(condition.b);
    }
  }
  for (Stored& store : group.stores) visit(store.offset);
}

bool reads_as_one(GroupNest& group, size_t outer, size_t inner) {
  bool out = true;
  const IndexSpace& space = group.nest.space;
  for_each_expr(group, [&](const Expr& expr) {
    if (!out || (!space.mentions(expr, outer) && !space.mentions(expr, inner))) return;
    const auto a = linear_in(space, expr, outer), b = linear_in(space, expr, inner);
    out = a && b && a->coefficient == b->coefficient * space.extent(inner);
  });
  return out;
}

}  // namespace

void merge_axes(GroupNest& group) {
  IndexSpace& space = group.nest.space;
  for (size_t i = group.axes.size(); i-- > 1;) {
    const size_t outer = group.axes[i - 1], inner = group.axes[i];
    if (group.is_reduced[i - 1] != group.is_reduced[i] || !reads_as_one(group, outer, inner)) continue;
    for_each_expr(group, [&](Expr& expr) {
      if (const auto part = linear_in(space, expr, outer)) expr = part->rest;
    });
    space.merge(outer, inner);
    group.axes.erase(group.axes.begin() + static_cast<ptrdiff_t>(i) - 1);
    group.is_reduced.erase(group.is_reduced.begin() + static_cast<ptrdiff_t>(i) - 1);
    // The merged one is at place i-1 now, beside the next outer one.
  }
}

namespace {

WrittenGroup only(WrittenKernel kernel) {
  WrittenGroup out;
  out.kernels.push_back(std::move(kernel));
  return out;
}

Result<WrittenGroup> write_nest(const GroupContext& context) {
  auto nest = nest_of(context);
  if (!nest) return nest.error();
  merge_axes(*nest);
  if (context.group().in_parts) return write_reduce_in_parts(context, std::move(*nest));
  const bool is_map = context.group().form == Group::Form::kMap;
  auto kernel = is_map ? write_map(context, std::move(*nest)) : write_reduce(context, std::move(*nest));
  if (!kernel) return kernel.error();
  return only(std::move(*kernel));
}

Result<WrittenGroup> write_alone(const GroupContext& context) {
  const NodeId number = context.group().anchors[0];
  switch (context.graph.main().nodes[number].op) {
    case TensorOp::kScan:
    case TensorOp::kScanCustom:
      return write_scan(context);
    case TensorOp::kScatter:
    case TensorOp::kIndexPut:
      return write_scatter(context);
    case TensorOp::kSort:
    case TensorOp::kTopk:
      return write_order(context);
    case TensorOp::kEmbeddingBag:
      return write_bag(context);
    case TensorOp::kHistogram:
      return write_histogram(context);
    case TensorOp::kKernel:
      return write_tile_kernel(context);
    default:
      return no_kernel(context.graph, number);
  }
}

}  // namespace

Result<WrittenGroup> write_group(const GroupContext& context) {
  const Group::Form form = context.group().form;
  if (form == Group::Form::kAlone) return write_alone(context);
  const graph::Body& body = context.graph.main();
  if (form == Group::Form::kMap &&
      is_cat_of_many(context.graph, body.nodes[body.values[context.group().roots[0]].node])) {
    return write_cat(context);
  }
  if (form == Group::Form::kMap || form == Group::Form::kReduce) return write_nest(context);
  auto kernel = form == Group::Form::kDot ? write_dot(context) : write_attention(context);
  if (!kernel) return kernel.error();
  return only(std::move(*kernel));
}

}  // namespace kiln::planner
