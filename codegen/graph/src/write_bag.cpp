// Kernels of embedding_bag: a program has a block of bags and of columns of one table, and goes over the rows of all
// its bags at once, the first of each, then the second. So each bag has its rows in their order, and a result does not
// depend on who computes it. Bags of several tables that begin at the same places are one kernel.
#include <limits>

#include "combiner.h"
#include "kernel_writer.h"
#include "kiln/dsl/library.h"

namespace kiln::planner {

using graph::BagMode;
using graph::Node;
using lang::Value;

namespace {

constexpr int64_t kLanes = 1024;

// One table's bags.
struct Bag {
  StepId row = 0;                     // an element of the table's row
  std::optional<StepId> weight = {};  // of an id
  size_t ids = 0;                     // the axis over them
  Expr count;                         // how many ids there are
  BagMode mode = BagMode::kSum;
  ElementType element = ElementType::kF32;
};

struct Bags {
  GroupNest group;
  StepId start = 0, next = 0;  // where a bag's ids begin, and where those of the next do
  Predicate has_next;
  Coords place;  // bag, column
  std::vector<Bag> bags;
  std::vector<Expr> numbers;
};

class BagWriter {
 public:
  BagWriter(const GroupContext& context, const Bags& all, const Signature& signature, const dsl::TracedParams& params)
      : all_(all),
        space_(all.group.nest.space),
        arguments_(signature.bind(params)),
        bags_(params.constant(signature.first_const)),
        columns_(params.constant(signature.first_const + 1)),
        one_by_one_(context.on_cpu() || all.place[0] == Expr()),
        emitter_(context.graph, all.group.nest, arguments_) {}

  void write();

 private:
  Value i64(int64_t number) const { return lang::full({}, number, ElementType::kI64); }
  // Of one bag and one column it is a scalar.
  Value on_tile(const Value& x) const {
    if (!one_by_one_) return lang::broadcast_to(x, {bags_, columns_});
    return all_.place[1] == Expr() ? x : lang::broadcast_to(x, {columns_});
  }
  // Lanes of the bags are a column, those of the table's columns a row.
  void bind(const Expr& place, const Value& program, const lang::Const& block, std::optional<int> beside);
  Value of_bags(const Value& number) const {
    return one_by_one_ ? number : lang::broadcast_to(number, {bags_, lang::Const(1)});
  }
  // Of the bags that the axis over them is bound to.
  void combine(size_t which);
  void combine_block(size_t which, const Value& program);

  const Bags& all_;
  const IndexSpace& space_;
  const KernelArguments arguments_;
  const lang::Const bags_, columns_;
  const bool one_by_one_;  // an axis of bags is bound to one, or there is but one
  StepEmitter emitter_;
};

std::optional<size_t> axis_at(const IndexSpace& space, const Expr& place) {
  for (size_t axis = 0; axis < space.axis_count(); ++axis) {
    if (place == space.axis(axis)) return axis;
  }
  return std::nullopt;  // of extent 1
}

void BagWriter::bind(const Expr& place, const Value& program, const lang::Const& block, std::optional<int> beside) {
  const auto axis = axis_at(space_, place);
  if (!axis) return;
  const Value start = program * lang::cast(lang::full({}, block, ElementType::kI32), ElementType::kI64);
  Value lanes = lang::arange(0, block);
  if (beside) lanes = lang::expand_dims(lanes, *beside);
  emitter_.bind(*axis, {.start = start, .lanes = lanes, .mask = lanes + start < emitter_.number(space_.extent(*axis))});
}

void BagWriter::combine(size_t which) {
  const StepEmitter::Scope scope(emitter_);
  const Bag& bag = all_.bags[which];
  const bool takes_max = bag.mode == BagMode::kMax;
  const Combiner combiner = Combiner::of(takes_max ? graph::ReduceKind::kMax : graph::ReduceKind::kSum, bag.element);
  const Value count = emitter_.number(bag.count);
  const Value from = lang::max(of_bags(lang::cast(emitter_.value(all_.start), ElementType::kI64)), i64(0));
  const Value next = lang::cast(emitter_.value(all_.next), ElementType::kI64);
  const Value behind = lang::min(lang::where(emitter_.holds(all_.has_next), next, count), count);
  const auto axis = axis_at(space_, all_.place[0]);
  Value size = lang::max(of_bags(behind) - from, i64(0));
  if (axis && !one_by_one_) size = lang::where(emitter_.bound_to(*axis).mask, size, i64(0));
  const Value longest = one_by_one_ ? size : lang::reduce_max(lang::reshape(size, {bags_}), 0);

  lang::Var sum = on_tile(combiner.neutral());
  for (const Value& number : lang::range(0, longest)) {
    const StepEmitter::Scope inside(emitter_);
    const Value step = lang::cast(number, ElementType::kI64);
    const Value is_on = step < size;
    emitter_.bind(bag.ids,
                  one_by_one_ ? BoundTo{.start = from + step} : BoundTo{.start = step, .lanes = from, .mask = is_on});
    Value row = lang::cast(emitter_.value(bag.row), combiner.type);
    if (bag.weight) row = row * lang::cast(emitter_.value(*bag.weight), combiner.type);
    const Value next = on_tile(combiner.combine(sum, row));
    sum = one_by_one_ ? next : lang::where(is_on, next, sum);
  }
  emitter_.bind(bag.ids, {});
  Value result = sum;
  if (bag.mode == BagMode::kMean) result = result / lang::cast(lang::max(size, i64(1)), combiner.type);
  if (takes_max) result = lang::where(size > i64(0), result, lang::full({}, 0.0, combiner.type));
  emitter_.set_anchor(static_cast<uint32_t>(which), combiner.result(result, bag.element));
  const Stored& store = all_.group.stores[which];
  emitter_.store(store.value, store.offset, store.step);
}

void BagWriter::combine_block(size_t which, const Value& program) {
  const auto axis = axis_at(space_, all_.place[0]);
  if (!one_by_one_ || !axis) return combine(which);
  const Value block = lang::cast(lang::full({}, bags_, ElementType::kI32), ElementType::kI64);
  const Value first = program * block;
  const Value count = lang::min(block, emitter_.number(space_.extent(*axis)) - first);
  for (const Value& number : lang::range(0, count)) {
    const StepEmitter::Scope scope(emitter_);
    emitter_.bind(*axis, {.start = first + lang::cast(number, ElementType::kI64)});
    combine(which);
  }
}

void BagWriter::write() {
  ProgramAxes programs;
  const auto blocks = [&](const Expr& place, const lang::Const& block) {
    const auto axis = axis_at(space_, place);
    return axis ? lang::cdiv(emitter_.number(space_.extent(*axis)), block) : i64(1);
  };
  programs.add(blocks(all_.place[0], bags_));
  programs.add(i64(static_cast<int64_t>(all_.bags.size())));
  programs.add(blocks(all_.place[1], columns_));
  const std::vector<Value> places = programs.places();
  if (!one_by_one_) bind(all_.place[0], places[0], bags_, 1);
  bind(all_.place[1], places[2], columns_, one_by_one_ ? std::nullopt : std::optional(0));
  if (all_.bags.size() == 1) return combine_block(0, places[0]);
  for (size_t i = 0; i < all_.bags.size(); ++i) {
    lang::if_(places[1] == i64(static_cast<int64_t>(i)), [&] { combine_block(i, places[0]); });
  }
}

Result<Bags> bags_of(const GroupContext& context) {
  const graph::Graph& graph = context.graph;
  const std::vector<NodeId>& anchors = context.group().anchors;
  const Node& first = graph.main().nodes[anchors[0]];
  const std::vector<Expr>& shape = context.type(first.first_result).shape;
  Bags out{.group = empty_nest(graph, shape, {}), .has_next = {}, .place = {}, .bags = {}, .numbers = {}};
  Nest& nest = out.group.nest;
  out.place = out.group.domain;
  NestBuilder builder(
      graph, nest, [&](ValueId value) { return source_of(graph, context.grouping, context.number, value); },
      [](uint32_t) { return Coords(); });
  const Expr next = out.place[0] + 1;
  out.has_next = {{dsl::AtomKind::kLt, next, shape[0]}};
  const ValueId offsets = graph.main().operands_of(first)[2];
  const auto start = builder.at(offsets, {out.place[0]}), behind = builder.at(offsets, {next}, out.has_next);
  if (!start || !behind) return no_kernel(graph, anchors[0]);
  out.start = *start;
  out.next = *behind;
  out.numbers = {next, shape[0]};
  for (const NodeId anchor : anchors) {
    const Node& node = graph.main().nodes[anchor];
    const auto operands = graph.main().operands_of(node);
    Bag bag;
    bag.count = context.type(operands[1]).shape[0];
    bag.mode = graph::enum_attr<BagMode>(graph.attrs(node), 0);
    bag.element = context.type(node.first_result).element;
    const Expr id = nest.space.add_axis(bag.count);
    bag.ids = nest.space.axis_count() - 1;
    const auto place = builder.place(operands[1], {id}, {}, context.type(operands[0]).shape[0]);
    const auto row = place ? builder.at(operands[0], {*place, out.place[1]}) : std::nullopt;
    if (!row) return no_kernel(graph, anchor);
    bag.row = *row;
    if (operands.size() > 3 && operands[3] != graph::kNoValue) {
      bag.weight = builder.at(operands[3], {id});
      if (!bag.weight) return no_kernel(graph, anchor);
    }
    out.numbers.push_back(bag.count);
    nest.steps.push_back(
        {.kind = Step::Kind::kAnchor, .element = bag.element, .anchor = static_cast<uint32_t>(out.bags.size())});
    out.group.stores.push_back(
        {node.first_result, static_cast<StepId>(nest.steps.size() - 1), IndexSpace::ravel(out.place, shape)});
    out.bags.push_back(bag);
  }
  return out;
}

}  // namespace

Result<WrittenGroup> write_bag(const GroupContext& context) {
  auto all = bags_of(context);
  if (!all) return all.error();
  const std::vector<Expr>& shape = context.type(all->group.stores[0].value).shape;
  const int64_t columns = block_for(shape[1], kLanes);
  const ConstParam consts[] = {{"BAGS", block_for(shape[0], std::max<int64_t>(1, kLanes / columns))},
                               {"COLS", columns}};
  std::vector<StepId> wanted{all->start, all->next};
  for (const Bag& bag : all->bags) {
    wanted.push_back(bag.row);
    if (bag.weight) wanted.push_back(*bag.weight);
  }
  const Signature signature = signature_of(all->group.nest, all->group.stores, wanted, consts, all->numbers);
  auto kernel =
      dsl::trace_kernel(group_name(context.graph, context.group(), context.grouping, context.number), signature.params,
                        [&](const dsl::TracedParams& params) { BagWriter(context, *all, signature, params).write(); });
  if (!kernel) return kernel.error();
  kernel->options.fuse_precision = true;
  WrittenGroup out;
  out.kernels.push_back({{std::move(*kernel), {}}, signature.arguments});
  return out;
}

}  // namespace kiln::planner
