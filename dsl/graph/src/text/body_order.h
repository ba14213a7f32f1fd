// Bodies in an order in which each comes behind those that its nodes name.
#pragma once

#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

// All but the main body; where the numbers allow, in their order. Bodies on a cycle, which no verified graph has, come
// in some order.
std::vector<BodyId> dependency_order(const Graph& graph);
// The bodies that the attributes of a node name, each as often as it is named.
std::vector<BodyId> bodies_of(const Graph& graph, const Node& node);

}  // namespace kiln::graph
