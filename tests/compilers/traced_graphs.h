// Graphs whose C++ leaves the order of evaluation open, as traced_kernels.h has kernels.
#pragma once

#include <string>
#include <vector>

#include "kiln/graph/graph.h"

namespace kiln::compilers {

struct TracedGraph {
  std::string name;
  graph::GraphDef graph;
};
std::vector<TracedGraph> traced_graphs();

}  // namespace kiln::compilers
