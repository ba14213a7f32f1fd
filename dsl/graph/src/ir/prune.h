// What nothing depends on, left out.
#pragma once

#include "kiln/graph/ir.h"

namespace kiln::graph {

// The graph without nodes that no output needs, in all bodies, and without bodies, kernels, types and attribute lists
// that nothing names; loops without stacks that nothing reads. Inputs and outputs stay. Linear.
Graph prune(Graph graph);
// Which values of a body its outputs need; inputs among them.
std::vector<bool> live_values(const Body& body);
// Removes nodes that no output needs, and the inputs that `keep` does not name.
void prune_body(Body& body, const std::vector<bool>& keep);

}  // namespace kiln::graph
