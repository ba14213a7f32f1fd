// Kernels of histogram: zeros, then blocks of elements that are counted and added. Counts are ints: their order of
// adding changes nothing.
#include "kernel_writer.h"
#include "kiln/dsl/library.h"

namespace kiln::planner {

using graph::Node;
using lang::Value;

namespace {

constexpr int64_t kBinsInTile = 4096;  // above, each element is added by itself

struct Histogram {
  Nest nest;
  size_t axis = 0;  // all elements of x
  StepId x = 0;
  Expr bins;
  ValueId result = graph::kNoValue;
  bool in_tile = true;
};

void write(const Histogram& histogram, StepEmitter& emitter, const Value& result, const lang::Const& block,
           const lang::Const& bins) {
  const Value extent = emitter.number(histogram.nest.space.extent(histogram.axis));
  lang::grid(lang::cdiv(extent, block));
  const Value start = lang::cast(lang::program_id(0), ElementType::kI64) *
                      lang::cast(lang::full({}, block, ElementType::kI32), ElementType::kI64);
  const Value lanes = lang::arange(0, block), mask = lanes + start < extent;
  emitter.bind(histogram.axis, {.start = start, .lanes = lanes, .mask = mask});
  const Value count = emitter.number(histogram.bins), zero = lang::full({}, 0, ElementType::kI64);
  // u64 above the ends of i64 are negative then, and no bins either.
  const Value bin = lang::broadcast_to(lang::cast(emitter.value(histogram.x), ElementType::kI64), {block});
  const Value counts = mask & (bin >= zero) & (bin < count);
  if (!histogram.in_tile) {
    lang::atomic_add(result + lang::where(counts, bin, zero), lang::full({block}, 1, ElementType::kI64),
                     {.mask = counts, .order = lang::MemoryOrder::kRelaxed});
    return;
  }
  const Value none = lang::full({}, -1, ElementType::kI32);
  const Value found = lang::histogram(lang::where(counts, lang::cast(bin, ElementType::kI32), none), bins);
  const Value places = lang::cast(lang::arange(0, bins), ElementType::kI64);
  lang::atomic_add(result + places, lang::cast(found, ElementType::kI64),
                   {.mask = places < count, .order = lang::MemoryOrder::kRelaxed});
}

}  // namespace

Result<WrittenGroup> write_histogram(const GroupContext& context) {
  const graph::Graph& graph = context.graph;
  const NodeId number = context.group().anchors[0];
  const Node& node = graph.main().nodes[number];
  const ValueId x = graph.main().operands_of(node)[0];
  Histogram histogram{.nest = {IndexSpace(graph.dims), {}, {}},
                      .bins = graph::expr_attr(graph.attrs(node), 0),
                      .result = node.first_result};
  const std::vector<Expr>& shape = context.type(x).shape;
  const Expr elements = graph::element_count(shape);
  const Expr place = histogram.nest.space.add_axis(elements);
  NestBuilder builder(
      graph, histogram.nest, [&](ValueId value) { return source_of(graph, context.grouping, context.number, value); },
      [](uint32_t) { return Coords(); });
  const auto step = builder.at(x, histogram.nest.space.unravel(place, shape));
  if (!step) return no_kernel(graph, number);
  histogram.x = *step;
  const int64_t most = histogram.nest.space.interval(histogram.bins).high;
  histogram.in_tile = most <= kBinsInTile;

  WrittenGroup out;
  auto zeros = write_zeros(context, histogram.result, context.type(histogram.result));
  if (!zeros) return zeros.error();
  out.kernels.push_back(std::move(*zeros));
  if (elements == Expr()) return out;

  histogram.nest.steps.push_back({.kind = Step::Kind::kLiteral, .element = ElementType::kI64});
  const Stored stored[] = {{histogram.result, static_cast<StepId>(histogram.nest.steps.size() - 1), Expr()}};
  const StepId wanted[] = {histogram.x};
  const Expr numbers[] = {histogram.bins};
  std::vector<ConstParam> consts{{"BLOCK", block_for(elements, 4096)}};
  if (histogram.in_tile) consts.push_back({"BINS", block_for(Expr(std::max<int64_t>(1, most)), kBinsInTile)});
  const Signature signature = signature_of(histogram.nest, stored, wanted, consts, numbers);
  auto kernel = dsl::trace_kernel(
      group_name(graph, context.group(), context.grouping, context.number), signature.params,
      [&](const dsl::TracedParams& params) {
        const KernelArguments arguments = signature.bind(params);
        StepEmitter emitter(graph, histogram.nest, arguments);
        write(histogram, emitter, arguments.tensors.at(histogram.result), params.constant(signature.first_const),
              histogram.in_tile ? params.constant(signature.first_const + 1) : lang::Const(1));
      });
  if (!kernel) return kernel.error();
  out.kernels.push_back({{std::move(*kernel), {}}, signature.arguments});
  return out;
}

}  // namespace kiln::planner
