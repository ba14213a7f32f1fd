// Kernels of a cat of many parts of one shape: the places of one part, of which each is stored for some parts, where it
// lies in the result. An element by itself would be looked for in all parts.
#include "kernel_writer.h"

namespace kiln::planner {

namespace {

// So many are read before the first is written. On CPUs they are done one by one, and are only code.
constexpr size_t kPartsAtOnce = 8, kPartsOnCpu = 32;

}  // namespace

Result<WrittenGroup> write_cat(const GroupContext& context) {
  const graph::Graph& graph = context.graph;
  const ValueId result = context.group().roots[0];
  const NodeId number = graph.main().values[result].node;
  const graph::Node& node = graph.main().nodes[number];
  const auto parts = graph.main().operands_of(node);
  const auto axis = static_cast<size_t>(graph::int_attr(graph.attrs(node), 0));
  const std::vector<Expr>&shape = context.type(result).shape, &domain = context.group().domain;
  const size_t at_once = context.on_cpu() ? kPartsOnCpu : kPartsAtOnce;
  WrittenGroup out;
  for (size_t first = 0; first < parts.size(); first += at_once) {
    GroupNest group = empty_nest(graph, domain, {});
    NestBuilder builder(
        graph, group.nest, [&](ValueId value) { return source_of(graph, context.grouping, context.number, value); },
        [](uint32_t) { return Coords(); });
    for (size_t i = first; i < std::min(parts.size(), first + at_once); ++i) {
      const auto step = builder.at(parts[i], group.domain);
      if (!step) return no_kernel(graph, number);
      Coords place = group.domain;
      place[axis] = place[axis] + Expr(static_cast<int64_t>(i)) * domain[axis];
      group.stores.push_back({result, *step, IndexSpace::ravel(place, shape)});
    }
    merge_axes(group);
    auto kernel = write_map(context, std::move(group));
    if (!kernel) return kernel.error();
    out.kernels.push_back(std::move(*kernel));
  }
  return out;
}

}  // namespace kiln::planner
