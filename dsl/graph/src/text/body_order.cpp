#include "text/body_order.h"

namespace kiln::graph {

std::vector<BodyId> bodies_of(const Graph& graph, const Node& node) {
  std::vector<BodyId> out;
  const OpInfo& op = info(node.op);
  if (!op.has(kBody) || node.attrs >= graph.attr_lists.size()) return out;
  const AttrList& attrs = graph.attrs(node);
  for (size_t i = 0; i < op.attrs.size() && i < attrs.size(); ++i) {
    const int64_t* id = std::get_if<int64_t>(&attrs[i]);
    if (op.attrs[i].kind != AttrKind::kBody || id == nullptr) continue;
    if (*id >= 0 && static_cast<uint64_t>(*id) < graph.bodies.size()) out.push_back(static_cast<BodyId>(*id));
  }
  return out;
}

// Depth first with a stack of its own: bodies may be nested more deeply than the thread's stack allows.
std::vector<BodyId> dependency_order(const Graph& graph) {
  std::vector<std::vector<BodyId>> needs(graph.bodies.size());
  for (BodyId id = 1; id < graph.bodies.size(); ++id) {
    for (const Node& node : graph.bodies[id].nodes) {
      for (const BodyId need : bodies_of(graph, node)) needs[id].push_back(need);
    }
  }
  std::vector<bool> seen(graph.bodies.size(), false);
  if (!seen.empty()) seen[0] = true;
  std::vector<BodyId> out;
  std::vector<std::pair<BodyId, size_t>> stack;
  for (BodyId root = 1; root < graph.bodies.size(); ++root) {
    if (seen[root]) continue;
    seen[root] = true;
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [id, next] = stack.back();
      if (next == needs[id].size()) {
        out.push_back(id);
        stack.pop_back();
        continue;
      }
      const BodyId need = needs[id][next++];
      if (seen[need]) continue;
      seen[need] = true;
      stack.emplace_back(need, 0);
    }
  }
  return out;
}

}  // namespace kiln::graph
