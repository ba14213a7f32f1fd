#include "kiln/graph/verify.h"

#include "verify/checks.h"

namespace kiln::graph {

Error failure_at(const Graph& graph, const Body& body, const Location& loc, const std::string& what) {
  const std::string place = graph.location_text(loc);
  return error(ErrorCode::kVerifyFailed, (place.empty() ? "@" + body.name : place) + ": " + what);
}

Error failure_at(const Graph& graph, const Body& body, const Node& node, const std::string& what) {
  return failure_at(graph, body, node.loc, what);
}

std::string op_name(const Node& node) { return info(node.op).name; }

Result<void> verify(const Graph& graph) {
  for (const auto part : {verify_tables, verify_structure, verify_acyclic, verify_kernels, verify_types}) {
    if (auto fine = part(graph); !fine) return fine;
  }
  return {};
}

}  // namespace kiln::graph
