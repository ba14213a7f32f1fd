// Which nodes a body's outputs need.
#pragma once

#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

// By node. All inputs stay: they are what callers give.
std::vector<bool> live_nodes(const Body& body);
// The graph without nodes that no output needs, and without bodies that nothing runs. The graph must verify.
Graph without_dead_nodes(const Graph& graph);

}  // namespace kiln::graph
