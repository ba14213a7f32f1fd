// Composites as primitives.
#pragma once

#include <functional>

#include "kiln/graph/ir.h"

namespace kiln::graph {

// Of a node of a body of the graph: whether it stays as it is.
using KeepComposite = std::function<bool(const Graph&, const Body&, const Node&)>;

// Replaces the composites that `keep` does not want, and those inside bodies, by their decompositions, which have the
// node's location. Error: of a graph that does not verify.
Result<Graph> decompose(const Graph& graph, const KeepComposite& keep = {});

}  // namespace kiln::graph
