// Kernels of sort and topk. A line that fits a tile is sorted in it, several at once; of longer ones the first k are
// found block by block where k is small, and others are merged from sorted blocks (write_merge_sort.cpp).
#include "kiln/dsl/library.h"
#include "order.h"

namespace kiln::planner {

using graph::Node;
using lang::Value;

namespace {

constexpr int64_t kFoundInBlocks = 1024;  // the most k
constexpr int64_t kBlock = 2048;

// The elements of a line in order, those that are stored: the first `count`.
struct Order {
  StepId x = 0;
  bool descending = false;
  Expr count;
  ElementType element = ElementType::kF32;
  // In the results, as a place along an axis of its own, which the kernel binds to where elements go.
  size_t place = 0;
};

class OrderWriter : LineWriter {
 public:
  OrderWriter(const GroupContext& context, const GroupNest& group, const Order& order, const LineLayout& layout,
              const Signature& signature, const dsl::TracedParams& params)
      : LineWriter(context, group, layout, signature, params), order_(order), signature_(signature), params_(params) {}

  void sort_in_tile();
  void find_in_blocks();

 private:
  ElementType key() const { return key_type(order_.element); }
  // The lanes of a block; those outside come last, since they stand behind those inside.
  Value keys() {
    const Value x = lang::cast(emitter_.value(order_.x), key());
    return on_tile(lang::where(along_mask(), x, last_key(key(), order_.descending)));
  }
  // The first so many of the block and where they stand in the line, i64.
  struct Found {
    Value keys, places;
  };
  Found first_of_block(const lang::Const& count, const Value& start);
  // At these places of the results, those that are among the first.
  void store(const Value& keys, const Value& indices, const Value& places);
  Value lanes(const lang::Const& count) const {
    const Value out = lang::arange(0, count);
    return layout_.has_lines() ? lang::expand_dims(out, 1 - axis()) : out;
  }
  lang::Const further(size_t i) const {
    return params_.constant(signature_.first_const + (layout_.has_lines() ? 2 : 1) + i);
  }

  const Order& order_;
  const Signature& signature_;
  const dsl::TracedParams& params_;
};

void OrderWriter::store(const Value& keys, const Value& indices, const Value& places) {
  emitter_.bind(order_.place, {.lanes = places, .mask = places < emitter_.number(order_.count)});
  emitter_.set_anchor(0, element_of_key(keys, order_.element));
  emitter_.set_anchor(1, lang::cast(indices, ElementType::kI64));
  for (const Stored& each : group_.stores) emitter_.store(each.value, each.offset, each.step);
}

void OrderWriter::sort_in_tile() {
  bind_programs();
  const Value zero = lang::full({}, 0, ElementType::kI64);
  bind_along(zero);
  const auto [sorted, from] = lang::sort(keys(), on_tile(along_lanes()), axis(), {.descending = order_.descending});
  store(sorted, from, lang::cast(along_lanes(), ElementType::kI64));
}

OrderWriter::Found OrderWriter::first_of_block(const lang::Const& count, const Value& start) {
  const StepEmitter::Scope scope(emitter_);  // another block has other elements
  bind_along(start);
  const auto [found, lane] = lang::topk(keys(), count, axis(), {.largest = order_.descending});
  return {found, lang::cast(lane, ElementType::kI64) + start};
}

// The first of what was found so far and those of the next block; of equal ones what was found before is in front.
void OrderWriter::find_in_blocks() {
  bind_programs();
  const lang::Const count = further(0);
  const Value zero = lang::full({}, 0, ElementType::kI64);
  const Found begin = first_of_block(count, zero);
  const auto known = space_.extent(layout_.along).as_constant();
  if (known && *known <= layout_.along_block) {
    store(begin.keys, begin.places, lang::cast(lanes(count), ElementType::kI64));
    return;
  }
  lang::Var found = begin.keys, places = begin.places;
  for (const Value& block : lang::range(along_, along_extent(), along_)) {
    const Value start = lang::cast(block, ElementType::kI64);
    const Found next = first_of_block(count, start);
    const auto [first, lane] =
        lang::topk(lang::cat(found, next.keys, axis()), count, axis(), {.largest = order_.descending});
    places = lang::gather(lang::cat(places, next.places, axis()), lane, axis());
    found = first;
  }
  store(found, places, lang::cast(lanes(count), ElementType::kI64));
}

}  // namespace

void set_sort_warps(dsl::Kernel& kernel, int64_t elements) {
  constexpr int64_t kLanes = 32, kEach = 4, kUsual = 4, kMost = 16;
  const int64_t warps = std::min(elements / (kLanes * kEach), kMost);
  if (warps <= kUsual) return;
  for (const char* target : {"cuda", "amd"}) kernel.target_defaults[target]["num_warps"] = warps;
}

namespace {

enum class Method : uint8_t { kTile, kBlocks, kMerge };

struct OrderPlan {
  Method method = Method::kMerge;
  LineLayout layout;
  std::vector<ConstParam> consts;
};

OrderPlan plan_of(const GroupContext& context, const GroupNest& group, const Expr& count, bool is_topk) {
  OrderPlan out;
  out.layout = line_layout(group, 1);
  const Expr& extent = group.nest.space.extent(out.layout.along);
  const int64_t in_tile = most_in_tile(context, extent);
  const int64_t most = group.nest.space.interval(extent).high, most_found = group.nest.space.interval(count).high;
  if (is_topk && most_found <= kFoundInBlocks) {
    const int64_t found = block_for(Expr(most_found), kFoundInBlocks);
    out.method = Method::kBlocks;
    // Once the first block is full there are as many as are looked for.
    out.layout.along_block = std::max(found, block_for(Expr(most), context.on_cpu() ? in_tile : kBlock));
    out.consts = {{"COUNT", found}};
  } else if (most <= in_tile) {
    out.method = Method::kTile;
    out.layout.along_block = block_for(Expr(most), in_tile);
  } else {
    return out;
  }
  const int64_t most_lines = std::max<int64_t>(1, kBlock / out.layout.along_block);
  if (out.layout.has_lines()) {
    out.layout.across_block = block_for(group.nest.space.extent(out.layout.across), most_lines);
  }
  const std::vector<ConstParam> consts = line_consts(out.layout);
  out.consts.insert(out.consts.begin(), consts.begin(), consts.end());
  return out;
}

// A line of extent 1 is in order already.
Result<WrittenGroup> write_in_order(const GroupContext& context, const Node& node, size_t along) {
  const graph::Graph& graph = context.graph;
  const std::vector<Expr>& shape = context.type(node.first_result).shape;
  GroupNest group = empty_nest(graph, shape, {});
  NestBuilder builder(
      graph, group.nest, [&](ValueId value) { return source_of(graph, context.grouping, context.number, value); },
      [](uint32_t) { return Coords(); });
  Coords from = group.domain;
  from[along] = Expr();
  const auto x = builder.at(graph.main().operands_of(node)[0], from);
  if (!x) return no_kernel(graph, context.group().anchors[0]);
  group.nest.steps.push_back({.kind = Step::Kind::kLiteral, .element = ElementType::kI64});
  const Expr place = IndexSpace::ravel(group.domain, shape);
  group.stores.push_back({node.first_result, *x, place});
  group.stores.push_back({node.first_result + 1, static_cast<StepId>(group.nest.steps.size() - 1), place});
  merge_axes(group);
  auto kernel = write_map(context, std::move(group));
  if (!kernel) return kernel.error();
  WrittenGroup out;
  out.kernels.push_back(std::move(*kernel));
  return out;
}

// What is ordered: an op's operand, or candidates that the op's first kernel found.
struct Ordered {
  GroupNest group;
  Order order;
};

// The results' elements along the axis, and where they go.
void add_results(const GroupContext& context, Ordered& out, size_t along, const std::optional<TopkParts>& parts) {
  const graph::Graph& graph = context.graph;
  const Node& node = graph.main().nodes[context.group().anchors[0]];
  const std::vector<Expr>& result = context.type(node.first_result).shape;
  Nest& nest = out.group.nest;
  const Expr place = nest.space.add_axis(result[along]);
  out.order.place = nest.space.axis_count() - 1;
  Coords stored = out.group.domain;
  stored[along] = place;
  for (uint32_t i = 0; i < 2; ++i) {
    const ElementType element = context.type(node.first_result + i).element;
    // With the lanes of the place.
    nest.steps.push_back({.kind = Step::Kind::kAnchor, .element = element, .offset = place, .anchor = i});
    auto step = static_cast<StepId>(nest.steps.size() - 1);
    if (i == 1 && parts) {  // the place of a candidate among all is where its place in the line lies
      const Expr from = nest.space.add_axis(parts->candidates());
      nest.bound.push_back({nest.space.axis_count() - 1, step});
      nest.steps.push_back({.kind = Step::Kind::kLoad,
                            .element = element,
                            .tensor = static_cast<ValueId>(graph.main().values.size()) + 1,
                            .offset = line_of(out.group.domain, result, along) * parts->candidates() + from});
      step = static_cast<StepId>(nest.steps.size() - 1);
    }
    out.group.stores.push_back({node.first_result + i, step, IndexSpace::ravel(stored, result)});
  }
}

Result<WrittenKernel> write_ordered(const GroupContext& context, const Ordered& ordered, const OrderPlan& plan) {
  std::vector<StepId> wanted{ordered.order.x};
  for (const Stored& store : ordered.group.stores) wanted.push_back(store.step);
  const Expr numbers[] = {ordered.order.count};
  const Signature signature = signature_of(ordered.group.nest, ordered.group.stores, wanted, plan.consts, numbers);
  auto kernel =
      dsl::trace_kernel(group_name(context.graph, context.group(), context.grouping, context.number), signature.params,
                        [&](const dsl::TracedParams& params) {
                          OrderWriter writer(context, ordered.group, ordered.order, plan.layout, signature, params);
                          plan.method == Method::kBlocks ? writer.find_in_blocks() : writer.sort_in_tile();
                        });
  if (!kernel) return kernel.error();
  kernel->options.fuse_precision = true;
  set_sort_warps(*kernel, plan.layout.along_block * plan.layout.across_block);
  return WrittenKernel{{std::move(*kernel), {}}, signature.arguments};
}

// The first of each part, then the first of those.
Result<WrittenGroup> write_in_parts(const GroupContext& context, const TopkParts& parts, Order order,
                                    SortedAxis along) {
  const Node& node = context.graph.main().nodes[context.group().anchors[0]];
  WrittenGroup out;
  const ElementType key = key_type(order.element);
  const std::vector<Expr> found{parts.lines, parts.candidates()};
  out.temporaries = {{key, found}, {ElementType::kI64, found}};
  auto first = write_topk_parts(context, parts, along);
  if (!first) return first.error();
  out.kernels.push_back(std::move(*first));

  std::vector<Expr> shape = context.type(node.first_result).shape;
  shape[along.axis] = parts.candidates();
  const auto axis = static_cast<int64_t>(along.axis);
  Ordered candidates{empty_nest(context.graph, shape, {&axis, 1}), std::move(order)};
  const Coords& domain = candidates.group.domain;
  candidates.group.nest.steps.push_back(
      {.kind = Step::Kind::kLoad,
       .element = key,
       .tensor = static_cast<ValueId>(context.graph.main().values.size()),
       .offset = line_of(domain, shape, along.axis) * parts.candidates() + domain[along.axis]});
  candidates.order.x = 0;
  add_results(context, candidates, along.axis, parts);
  auto last = write_ordered(context, candidates, plan_of(context, candidates.group, candidates.order.count, true));
  if (!last) return last.error();
  out.kernels.push_back(std::move(*last));
  return out;
}

}  // namespace

Result<WrittenGroup> write_order(const GroupContext& context) {
  const graph::Graph& graph = context.graph;
  const NodeId number = context.group().anchors[0];
  const Node& node = graph.main().nodes[number];
  const graph::AttrList& attrs = graph.attrs(node);
  const bool is_topk = node.op == TensorOp::kTopk;
  const ValueId x = graph.main().operands_of(node)[0];
  const std::vector<Expr>& shape = context.type(x).shape;
  const int64_t axis = graph::int_attr(attrs, is_topk ? 1 : 0);
  const auto along = static_cast<size_t>(axis);
  if (shape[along] == Expr(1)) return write_in_order(context, node, along);

  Order order{.count = context.type(node.first_result).shape[along], .element = context.type(x).element};
  order.descending = graph::flag_attr(attrs, is_topk ? 2 : 1);
  Ordered whole{empty_nest(graph, shape, {&axis, 1}), order};
  NestBuilder builder(
      graph, whole.group.nest, [&](ValueId value) { return source_of(graph, context.grouping, context.number, value); },
      [](uint32_t) { return Coords(); });
  const auto step = builder.at(x, whole.group.domain);
  if (!step) return no_kernel(graph, number);
  whole.order.x = *step;
  const OrderPlan plan = plan_of(context, whole.group, order.count, is_topk);
  if (plan.method == Method::kMerge) return write_merge_sort(context, {along, order.descending});
  if (plan.method == Method::kBlocks) {
    const auto parts = topk_parts(context, shape, along, plan.consts.back().value);
    if (parts) return write_in_parts(context, *parts, order, {along, order.descending});
  }
  add_results(context, whole, along, std::nullopt);
  auto kernel = write_ordered(context, whole, plan);
  if (!kernel) return kernel.error();
  WrittenGroup out;
  out.kernels.push_back(std::move(*kernel));
  return out;
}

}  // namespace kiln::planner
