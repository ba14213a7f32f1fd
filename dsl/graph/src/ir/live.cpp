#include "ir/live.h"

#include "ir/rewrite.h"

namespace kiln::graph {

std::vector<bool> live_nodes(const Body& body) {
  std::vector<bool> live(body.nodes.size(), false);
  const auto need = [&](ValueId value) {
    if (value != kNoValue && body.values[value].node != kNone) live[body.values[value].node] = true;
  };
  for (const Output& output : body.outputs) need(output.value);
  for (size_t i = body.nodes.size(); i-- > 0;) {
    if (!live[i]) continue;
    for (const ValueId operand : body.operands_of(body.nodes[i])) need(operand);
  }
  return live;
}

Graph without_dead_nodes(const Graph& graph) {
  const Body* seen = nullptr;
  std::vector<bool> live;
  auto out = rewrite(graph,
                     [&](GraphBuilder&, const Body& body, const Node& node, std::span<const ValueId>,
                         const AttrList&) -> Result<std::optional<std::vector<ValueId>>> {
                       if (&body != seen) live = live_nodes(*(seen = &body));
                       if (live[static_cast<size_t>(&node - body.nodes.data())])
                         return std::optional<std::vector<ValueId>>();
                       return std::optional(std::vector<ValueId>(node.result_count, kNoValue));
                     });
  return out ? std::move(*out) : graph;
}

}  // namespace kiln::graph
