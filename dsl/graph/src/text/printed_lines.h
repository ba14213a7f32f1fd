// Text whose lines are known to be those of nodes.
#pragma once

#include <string>
#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

struct PrintedLine {
  size_t start = 0;  // of the line, in the text
  BodyId body = 0;
  NodeId node = 0;
};
// As print(), with the line of each node in the order of the text.
std::string print(const Graph& graph, std::vector<PrintedLine>& lines);

}  // namespace kiln::graph
