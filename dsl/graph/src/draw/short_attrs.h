// What a box says of a node's attributes.
#pragma once

#include <string>

#include "kiln/graph/ir.h"
#include "text/print_names.h"

namespace kiln::graph {

// Of a node whose first operand has these extents: "sum, axes = [0]", without what the shape beside it says, and what
// changes nothing. Slices as [:, 64:128].
std::string short_attrs(const Graph& graph, const Node& node, const std::vector<Expr>& extents,
                        const PrintNames& names);

}  // namespace kiln::graph
