#pragma once

#include "kiln/graph/ir.h"

namespace kiln::graph {

// Step 3 of the canonical form (canonical.cpp): bodies, kernels, types, attribute lists and dims numbered in the order
// in which main, then the others mention them. Main must be live; what is not mentioned is dropped.
Graph number_by_mention(Graph graph);

}  // namespace kiln::graph
