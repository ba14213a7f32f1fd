// The rules of a graph as a whole, for what comes from text, bytes or a pass.
#pragma once

#include "kiln/graph/ir.h"

namespace kiln::graph {

// Order, counts, kinds, types (inferred again), names, donations, bodies that form no cycle, interned types and
// attributes. An error is "FILE:LINE:COLUMN: op: …", the first of the graph; never an internal one, whatever the bytes.
// Linear in the graph.
Result<void> verify(const Graph& graph);

}  // namespace kiln::graph
