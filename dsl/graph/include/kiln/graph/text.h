// The `.kg` text of graphs: docs/reference/graph-text.md has its grammar. Reading what print() gives is the same graph.
#pragma once

#include <string>
#include <string_view>

#include "kiln/graph/ir.h"

namespace kiln::graph {

struct PrintOptions {
  bool locations = false;  // a comment with the source line behind each node
};
std::string print(const Graph& graph, PrintOptions options = {});
// A verified graph, or "FILE:LINE:COLUMN: …". Linear in the text, without recursion over nodes.
Result<Graph> parse(std::string_view text, std::string_view file_name);

}  // namespace kiln::graph
