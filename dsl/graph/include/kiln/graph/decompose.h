// Composites as primitives.
#pragma once

#include <functional>

#include "kiln/graph/ir.h"

namespace kiln::graph {

// Replaces the composites that `keep` does not want, and those inside bodies, by their decompositions, which have the
// node's location. Error: of a graph that does not verify.
Result<Graph> decompose(const Graph& graph, const std::function<bool(TensorOp)>& keep = {});

}  // namespace kiln::graph
