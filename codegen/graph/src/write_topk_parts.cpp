// The first step of a topk of few long lines: each part of a line gives its own first elements, so that all of the
// device takes part. Of equal ones that of the earlier part stands in front. The last part may be shorter: what it
// gives beside its elements comes behind all others.
#include "kiln/dsl/library.h"
#include "order.h"

namespace kiln::planner {

using dsl::AtomKind;
using lang::Value;

namespace {

constexpr int64_t kPart = 2048, kPartOnCpu = 16384;
constexpr int64_t kLeastParts = 4;
// Lines that are programs enough.
constexpr int64_t kManyLines = 512, kManyLinesOnCpu = 4;

}  // namespace

std::optional<TopkParts> topk_parts(const GroupContext& context, std::span<const Expr> shape, size_t along,
                                    int64_t count) {
  const graph::Interval extent = graph::interval(context.graph.dims, shape[along]);
  TopkParts out{.length = context.on_cpu() ? kPartOnCpu : kPart, .count = count};
  if (extent.low < kLeastParts * out.length || count * 8 > out.length) return std::nullopt;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != along) out.lines = out.lines * shape[i];
  }
  const int64_t most = graph::interval(context.graph.dims, out.lines).high;
  if (context.on_cpu() ? most > kManyLinesOnCpu : out.lines.as_constant().value_or(1) > kManyLines) return std::nullopt;
  out.parts = Expr::apply(AtomKind::kDiv, shape[along] + (out.length - 1), Expr(out.length));
  return out;
}

Expr line_of(const Coords& coords, std::span<const Expr> shape, size_t along) {
  Expr line;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != along) line = line * shape[i] + coords[i];
  }
  return line;
}

Result<WrittenKernel> write_topk_parts(const GroupContext& context, const TopkParts& parts, SortedAxis along) {
  const graph::Graph& graph = context.graph;
  const NodeId number = context.group().anchors[0];
  const ValueId input = graph.main().operands_of(graph.main().nodes[number])[0];
  const auto& [element, shape] = context.type(input);
  const ElementType key = key_type(element);
  GroupNest group = empty_nest(graph, shape, {});
  NestBuilder builder(
      graph, group.nest, [&](ValueId value) { return source_of(graph, context.grouping, context.number, value); },
      [](uint32_t) { return Coords(); });
  const auto x = builder.at(input, group.domain);
  if (!x) return no_kernel(graph, number);
  size_t axis = 0;
  while (group.domain[along.axis] != group.nest.space.axis(axis)) ++axis;
  const Expr part = group.nest.space.add_axis(parts.parts), lane = group.nest.space.add_axis(Expr(parts.count));
  const size_t part_axis = group.nest.space.axis_count() - 2;
  const Expr place = (line_of(group.domain, shape, along.axis) * parts.parts + part) * Expr(parts.count) + lane;
  const auto first = static_cast<ValueId>(graph.main().values.size());
  group.nest.steps.push_back({.kind = Step::Kind::kAnchor, .element = key, .anchor = 0});
  group.nest.steps.push_back({.kind = Step::Kind::kAnchor, .element = ElementType::kI64, .anchor = 1});
  const auto last = static_cast<StepId>(group.nest.steps.size() - 1);
  group.stores = {{first, last - 1, place}, {first + 1, last, place}};
  const StepId wanted[] = {*x};
  const ConstParam consts[] = {{"PART", parts.length}, {"COUNT", parts.count}};
  const Signature signature = signature_of(group.nest, group.stores, wanted, consts);
  auto kernel = dsl::trace_kernel("topk_parts", signature.params, [&](const dsl::TracedParams& params) {
    const KernelArguments arguments = signature.bind(params);
    StepEmitter emitter(graph, group.nest, arguments);
    const lang::Const length = params.constant(signature.first_const);
    const lang::Const count = params.constant(signature.first_const + 1);
    ProgramAxes programs;
    for (size_t i = 0; i < part_axis; ++i) {
      const Expr& extent = group.nest.space.extent(i);
      programs.add(i == axis ? lang::cdiv(emitter.number(extent), length) : emitter.number(extent));
    }
    const std::vector<Value> places = programs.places();
    for (size_t i = 0; i < part_axis; ++i) {
      if (i != axis) emitter.bind(i, {.start = places[i]});
    }
    const Value start = places[axis] * lang::cast(lang::full({}, length, ElementType::kI32), ElementType::kI64);
    const Value lanes = lang::arange(0, length);
    const Value mask = lanes + start < emitter.number(group.nest.space.extent(axis));
    emitter.bind(axis, {.start = start, .lanes = lanes, .mask = mask});
    emitter.bind(part_axis, {.start = places[axis]});
    emitter.bind(part_axis + 1, {.lanes = lang::arange(0, count)});
    const Value keys = lang::where(mask, lang::cast(emitter.value(*x), key), last_key(key, along.descending));
    const auto [found, from] = lang::topk(lang::broadcast_to(keys, {length}), count, 0, {.largest = along.descending});
    emitter.set_anchor(0, found);
    emitter.set_anchor(1, lang::cast(from, ElementType::kI64) + start);
    for (const Stored& store : group.stores) emitter.store(store.value, store.offset, store.step);
  });
  if (!kernel) return kernel.error();
  kernel->options.fuse_precision = true;
  set_sort_warps(*kernel, parts.length);
  return WrittenKernel{{std::move(*kernel), {}}, signature.arguments};
}

}  // namespace kiln::planner
