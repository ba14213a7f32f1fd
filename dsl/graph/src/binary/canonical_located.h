#pragma once

#include "kiln/graph/ir.h"

namespace kiln::graph {

// The canonical form (canonical.cpp), but for the locations of inputs and nodes, which it keeps: where equal nodes
// become one, those of the first. Without them and the files it is canonical().
Graph located_canonical(const Graph& graph);

}  // namespace kiln::graph
