// Kernels of a cat of many parts, one or more for each shape of them: the places of one part, of which each is stored
// for some parts, where it lies in the result. An element by itself would be looked for in all parts.
#include "kernel_writer.h"

namespace kiln::planner {

namespace {

// So many are read before the first is written. On CPUs they are done one by one, and are only code.
constexpr size_t kPartsAtOnce = 8, kPartsOnCpu = 32;

struct Part {
  ValueId value;
  Expr start;  // where it begins along the axis
};

// In the order in which shapes come first.
std::vector<std::pair<std::vector<Expr>, std::vector<Part>>> parts_by_shape(const GroupContext& context,
                                                                            const graph::Node& cat, size_t axis) {
  std::vector<std::pair<std::vector<Expr>, std::vector<Part>>> out;
  Expr start;
  for (const ValueId value : context.graph.main().operands_of(cat)) {
    const std::vector<Expr>& shape = context.type(value).shape;
    auto at = std::find_if(out.begin(), out.end(), [&](const auto& each) { return each.first == shape; });
    if (at == out.end()) at = out.insert(out.end(), {shape, {}});
    at->second.push_back({value, start});
    start = start + shape[axis];
  }
  return out;
}

}  // namespace

Result<WrittenGroup> write_cat(const GroupContext& context) {
  const graph::Graph& graph = context.graph;
  const ValueId result = context.group().roots[0];
  const NodeId number = graph.main().values[result].node;
  const graph::Node& node = graph.main().nodes[number];
  const auto axis = static_cast<size_t>(graph::int_attr(graph.attrs(node), 0));
  const size_t at_once = context.on_cpu() ? kPartsOnCpu : kPartsAtOnce;
  WrittenGroup out;
  for (const auto& [shape, parts] : parts_by_shape(context, node, axis)) {
    for (size_t first = 0; first < parts.size(); first += at_once) {
      GroupNest group = empty_nest(graph, shape, {});
      NestBuilder builder(
          graph, group.nest, [&](ValueId value) { return source_of(graph, context.grouping, context.number, value); },
          [](uint32_t) { return Coords(); });
      for (const Part& part : std::span(parts).subspan(first, std::min(at_once, parts.size() - first))) {
        const auto step = builder.at(part.value, group.domain);
        if (!step) return no_kernel(graph, number);
        Coords place = group.domain;
        place[axis] = place[axis] + part.start;
        group.stores.push_back({result, *step, context.place(result, place), group.domain});
      }
      order_axes(context, group);
      merge_axes(group);
      auto kernel = write_map(context, std::move(group));
      if (!kernel) return kernel.error();
      kernel->in_place.clear();  // a part is no whole
      out.kernels.push_back(std::move(*kernel));
    }
  }
  return out;
}

}  // namespace kiln::planner
