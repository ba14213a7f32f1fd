// Kernels of scatter and index_put: the result begins as a copy of x; then programs, each of which has places of its
// own in the result, look at all indices and do their updates in order. So the last of several that are set at one
// place stays, and sums have one order. f16, bf16 and f8 are combined in f32 and rounded once, by way of a copy of x in
// f32.
#include "combiner.h"
#include "kernel_writer.h"
#include "kiln/dsl/library.h"

namespace kiln::planner {

using graph::Node;
using graph::ScatterKind;
using lang::Value;

namespace {

constexpr int64_t kLanes = 1024;

struct Updates {
  Nest nest;
  std::vector<size_t> in_order;  // axes over the updates, from the outermost
  std::vector<size_t> others;    // over what one place of them updates
  StepId value = 0;
  Expr offset;                      // in the result
  Predicate inside;                 // the result has such a place
  Expr owner;                       // a place along an axis of the result, by which programs share it
  Expr owners;                      // its extent
  bool is_owned_as_a_whole = true;  // all that one place updates
  ScatterKind kind = ScatterKind::kSet;
};

// The axes that a domain has in the nest.
std::vector<size_t> axes_of(const Coords& coords, const IndexSpace& space) {
  std::vector<size_t> out;
  for (const Expr& each : coords) {
    for (size_t axis = 0; axis < space.axis_count(); ++axis) {
      if (each == space.axis(axis)) out.push_back(axis);
    }
  }
  return out;
}

struct Operands {
  ValueId values;
  std::vector<ValueId> indices;
  std::vector<int64_t> axes;  // of x, one an index
};

Operands operands_of(const graph::Graph& graph, const Node& node) {
  const auto all = graph.main().operands_of(node);
  const graph::AttrList& attrs = graph.attrs(node);
  if (node.op == TensorOp::kScatter) return {all[2], {all[1]}, {graph::int_attr(attrs, 0)}};
  return {all[1], {all.begin() + 2, all.end()}, graph::ints_attr(attrs, 0)};
}

Result<Updates> updates_of(const GroupContext& context) {
  const graph::Graph& graph = context.graph;
  const NodeId number = context.group().anchors[0];
  const Node& node = graph.main().nodes[number];
  const Operands operands = operands_of(graph, node);
  const std::vector<Expr>& shape = context.type(node.first_result).shape;
  const std::vector<Expr>& updates = context.type(operands.values).shape;
  const bool is_scatter = node.op == TensorOp::kScatter;

  Updates out{.nest = {IndexSpace(graph.dims), {}, {}},
              .in_order = {},
              .others = {},
              .offset = {},
              .inside = {},
              .owner = {},
              .owners = {},
              .kind = graph::enum_attr<ScatterKind>(graph.attrs(node), 1)};
  IndexSpace& space = out.nest.space;
  Coords update, point, rest;
  if (is_scatter) {  // its indices are of all axes of x
    update = point = rest = add_axes(space, updates);
    const auto along = static_cast<ptrdiff_t>(operands.axes[0]);
    out.in_order = axes_of({update[static_cast<size_t>(along)]}, space);
    rest.erase(rest.begin() + along);
  } else {  // the first axes of its updates are those of its points
    const std::vector<Expr>& points = context.type(operands.indices[0]).shape;
    const Expr one_by_one[] = {graph::element_count(points)};
    const Coords number = add_axes(space, one_by_one);
    out.in_order = axes_of(number, space);
    point = space.unravel(number[0], points);
    rest = add_axes(space, std::span(updates).subspan(points.size()));
    update = point;
    update.insert(update.end(), rest.begin(), rest.end());
  }
  out.others = axes_of(rest, space);
  out.is_owned_as_a_whole = !is_scatter || out.others.empty();

  NestBuilder builder(
      graph, out.nest, [&](ValueId value) { return source_of(graph, context.grouping, context.number, value); },
      [](uint32_t) { return Coords(); });
  Coords target = is_scatter ? update : Coords(shape.size());
  std::vector<bool> is_indexed(shape.size());
  for (size_t i = 0; i < operands.axes.size(); ++i) {
    const auto axis = static_cast<size_t>(operands.axes[i]);
    const auto place = builder.place(operands.indices[i], point, {}, shape[axis]);
    if (!place) return no_kernel(graph, number);
    target[axis] = *place;
    is_indexed[axis] = true;
    out.inside.push_back({dsl::AtomKind::kLe, Expr(), *place});
    out.inside.push_back({dsl::AtomKind::kLt, *place, shape[axis]});
  }
  for (size_t i = 0, next = 0; !is_scatter && i < shape.size(); ++i) {
    if (!is_indexed[i]) target[i] = rest[next++];
  }
  const auto value = builder.at(operands.values, update);
  if (!value) return no_kernel(graph, number);
  out.value = *value;
  out.offset = IndexSpace::ravel(target, shape);
  out.owner = target[static_cast<size_t>(operands.axes[0])];
  out.owners = shape[static_cast<size_t>(operands.axes[0])];
  return out;
}

class ScatterWriter {
 public:
  ScatterWriter(const GroupContext& context, const Updates& updates, ValueId target, ElementType type,
                const Signature& signature, const dsl::TracedParams& params)
      : updates_(updates),
        space_(updates.nest.space),
        target_(target),
        type_(type),
        arguments_(signature.bind(params)),
        share_(params.constant(signature.first_const)),
        lanes_(params.constant(signature.first_const + 1)),
        seen_(params.constant(signature.first_const + 2)),
        sees_many_(updates.is_owned_as_a_whole && !context.on_cpu()),
        emitter_(context.graph, updates.nest, arguments_) {}

  void write();

 private:
  Value as_i64(const lang::Const& number) const {
    return lang::cast(lang::full({}, number, ElementType::kI32), ElementType::kI64);
  }
  void bind_programs();
  Value is_mine();
  void for_each_update();
  void for_each_of_mine();
  void combine(const Value& mask);

  const Updates& updates_;
  const IndexSpace& space_;
  const ValueId target_;
  const ElementType type_;
  const KernelArguments arguments_;
  const lang::Const share_, lanes_, seen_;
  const bool sees_many_;
  StepEmitter emitter_;
  Value first_, last_;  // of the owner's places, that this program has: first ≤ place < last
};

void ScatterWriter::bind_programs() {
  ProgramAxes programs;
  programs.add(as_i64(share_));
  const std::vector<size_t>& others = updates_.others;
  for (size_t i = 0; i < others.size(); ++i) {
    const Value extent = emitter_.number(space_.extent(others[i]));
    programs.add(i + 1 == others.size() ? lang::cdiv(extent, lanes_) : extent);
  }
  const std::vector<Value> places = programs.places();
  const Value part = lang::cdiv(emitter_.number(updates_.owners), as_i64(share_));
  first_ = places[0] * part;
  last_ = first_ + part;
  for (size_t i = 0; i < others.size(); ++i) {
    if (i + 1 < others.size()) {
      emitter_.bind(others[i], {.start = places[i + 1]});
      continue;
    }
    const Value start = places[i + 1] * as_i64(lanes_), lanes = lang::arange(0, lanes_);
    emitter_.bind(others[i],
                  {.start = start, .lanes = lanes, .mask = lanes + start < emitter_.number(space_.extent(others[i]))});
  }
}

Value ScatterWriter::is_mine() {
  const Value owner = emitter_.number(updates_.owner);
  return emitter_.holds(updates_.inside) & (owner >= first_) & (owner < last_);
}

void ScatterWriter::combine(const Value& mask) {
  const lang::Operand on = mask.valid() ? lang::Operand(mask) : lang::Operand();
  const Value where = emitter_.pointer(target_, updates_.offset);
  const Value value = lang::cast(emitter_.value(updates_.value), type_);
  if (updates_.kind == ScatterKind::kSet) {
    lang::store(where, value, {.mask = on});
    return;
  }
  using enum graph::ReduceKind;
  static constexpr graph::ReduceKind kKinds[] = {kSum, kSum, kProd, kMin, kMax};
  const Combiner combiner{kKinds[static_cast<size_t>(updates_.kind)], type_};
  lang::store(where, combiner.combine(lang::load(where, {.mask = on}), value), {.mask = on});
}

// On a CPU the next index is known by the time the last update is done.
void ScatterWriter::for_each_update() {
  const size_t axis = updates_.in_order[0];
  for (const Value& place : lang::range(0, emitter_.number(space_.extent(axis)))) {
    const StepEmitter::Scope scope(emitter_);
    emitter_.bind(axis, {.start = lang::cast(place, ElementType::kI64)});
    const Value mine = is_mine(), mask = emitter_.mask_of(updates_.offset);
    if (mine.rank() > 0) {
      combine(mask.valid() ? mask & mine : mine);
      continue;
    }
    lang::if_(mine, [&] {
      const StepEmitter::Scope inside(emitter_);
      combine(mask);
    });
  }
}

// Whose many updates are is seen at once; this program's are then done, the first one first.
void ScatterWriter::for_each_of_mine() {
  const size_t axis = updates_.in_order[0];
  const Value count = emitter_.number(space_.extent(axis));
  for (const Value& block : lang::range(0, count, seen_)) {
    const Value start = lang::cast(block, ElementType::kI64), lanes = lang::arange(0, seen_);
    const Value none = lang::full({}, seen_, ElementType::kI32);
    Value own;
    {
      const StepEmitter::Scope scope(emitter_);
      const Value inside = lanes + start < count;
      emitter_.bind(axis, {.start = start, .lanes = lanes, .mask = inside});
      own = lang::where(lang::broadcast_to(is_mine() & inside, {seen_}), lanes, none);
    }
    lang::Var next = lang::reduce_min(own, 0);
    lang::while_([&] { return next < none; },
                 [&] {
                   const StepEmitter::Scope scope(emitter_);
                   const Value done = next;
                   emitter_.bind(axis, {.start = start + lang::cast(done, ElementType::kI64)});
                   combine(emitter_.mask_of(updates_.offset));
                   next = lang::reduce_min(lang::where(own > done, own, none), 0);
                 });
  }
}

void ScatterWriter::write() {
  bind_programs();
  if (updates_.in_order.empty()) {
    const Value mine = is_mine(), mask = emitter_.mask_of(updates_.offset);
    combine(mask.valid() ? mask & mine : mine);
    return;
  }
  sees_many_ ? for_each_of_mine() : for_each_update();
}

// Programs that share the places of the result. On a GPU one alone would wait for memory at each update.
constexpr int64_t kShares = 256, kSharesOfLanes = 64, kSharesOnCpu = 4, kSeen = 256;

Result<WrittenKernel> write_updates(const GroupContext& context, Updates updates, ValueId target, ElementType element) {
  const Expr lanes = updates.others.empty() ? Expr(1) : updates.nest.space.extent(updates.others.back());
  const ConstParam consts[] = {
      {"SHARES", updates.is_owned_as_a_whole ? kSharesOnCpu : 1}, {"LANES", block_for(lanes, kLanes)}, {"SEEN", kSeen}};
  std::vector<StepId> wanted{updates.value};
  for (const BoundAxis& bound : updates.nest.bound) wanted.push_back(bound.step);
  std::vector<Expr> numbers{updates.owners};
  for (const Condition& condition : updates.inside) {
    numbers.push_back(condition.a);
    numbers.push_back(condition.b);
  }
  // Its type is that of the parameter.
  updates.nest.steps.push_back({.kind = Step::Kind::kLiteral, .element = element});
  const Stored stored[] = {{target, static_cast<StepId>(updates.nest.steps.size() - 1), updates.offset}};
  const Signature signature = signature_of(updates.nest, stored, wanted, consts, numbers);
  auto kernel = dsl::trace_kernel(group_name(context.graph, context.group(), context.grouping, context.number),
                                  signature.params, [&](const dsl::TracedParams& params) {
                                    ScatterWriter(context, updates, target, element, signature, params).write();
                                  });
  if (!kernel) return kernel.error();
  kernel->options.fuse_precision = true;
  kernel->target_defaults["cuda"]["SHARES"] = kernel->target_defaults["amd"]["SHARES"] =
      updates.is_owned_as_a_whole ? kShares : kSharesOfLanes;
  return WrittenKernel{{std::move(*kernel), {}}, signature.arguments};
}

}  // namespace

Result<WrittenGroup> write_scatter(const GroupContext& context) {
  const graph::Graph& graph = context.graph;
  const Node& node = graph.main().nodes[context.group().anchors[0]];
  const ValueId x = graph.main().operands_of(node)[0], result = node.first_result;
  auto updates = updates_of(context);
  if (!updates) return updates.error();

  const graph::TensorType& type = context.type(result);
  const bool has_updates = graph::element_count(context.type(operands_of(graph, node).values).shape) != Expr();
  const bool is_wider = has_updates && dsl::is_small_float(type.element) && updates->kind != ScatterKind::kSet;
  const ElementType element = is_wider ? ElementType::kF32 : type.element;
  const auto wide = static_cast<ValueId>(graph.main().values.size());
  const ValueId target = is_wider ? wide : result;
  WrittenGroup out;
  if (is_wider) out.temporaries.push_back({element, type.shape});
  const auto add = [&](Result<WrittenKernel> kernel) -> Result<void> {
    if (!kernel) return kernel.error();
    out.kernels.push_back(std::move(*kernel));
    return {};
  };
  if (auto done = add(write_copy(context, x, type, target, element)); !done) return done.error();
  if (!has_updates) return out;
  if (auto done = add(write_updates(context, std::move(*updates), target, element)); !done) return done.error();
  if (!is_wider) return out;
  if (auto done = add(write_copy(context, wide, {element, type.shape}, result, type.element)); !done)
    return done.error();
  return out;
}

}  // namespace kiln::planner
