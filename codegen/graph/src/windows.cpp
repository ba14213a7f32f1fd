#include "windows.h"

namespace kiln::planner {

using graph::Body;
using graph::kNone;
using graph::Node;

std::vector<uint32_t> slices_of_values(const graph::Graph& graph) {
  const Body& body = graph.main();
  std::vector<uint32_t> out(body.values.size());
  for (const Node& node : body.nodes) {
    if (node.op != TensorOp::kSlice) continue;
    ValueId from = body.operands_of(node)[0];
    for (NodeId by = body.values[from].node; by != kNone; by = body.values[from].node) {
      if (!is_view(body.nodes[by].op) && body.nodes[by].op != TensorOp::kPad) break;
      from = body.operands_of(body.nodes[by])[0];
    }
    ++out[from];
  }
  return out;
}

std::vector<uint32_t> taps_of_nodes(const graph::Graph& graph, const Grouping& grouping) {
  constexpr uint32_t kMost = 1000;
  const Body& body = graph.main();
  std::vector<uint32_t> out(body.nodes.size());
  for (NodeId n = 0; n < body.nodes.size(); ++n) {
    const Node& node = body.nodes[n];
    if (grouping.group_of[n] != kNone) continue;
    const bool is_one_of_them = graph::info(node.op).family == graph::Family::kCat;
    for (const ValueId operand : body.operands_of(node)) {
      const NodeId from = operand == graph::kNoValue ? kNone : body.values[operand].node;
      if (from == kNone) continue;
      out[n] = is_one_of_them ? std::max(out[n], out[from]) : std::min(out[n] + out[from], kMost);
    }
    if (node.op == TensorOp::kSlice) out[n] = std::max(out[n], 1u);
  }
  return out;
}

}  // namespace kiln::planner
