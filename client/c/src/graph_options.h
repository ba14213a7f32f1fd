// How a graph is compiled, as kiln.h says it.
#pragma once

#include "kiln.h"
#include "kiln/client/graph.h"

namespace kiln::c {

// Null: all defaults.
Result<GraphOptions> graph_options(const kiln_graph_options* given);

}  // namespace kiln::c
