// Graphs as pictures.
#pragma once

#include <string>

#include "kiln/graph/ir.h"

namespace kiln::graph {

struct DrawOptions {
  bool shapes = true;
  bool views = true;  // false: views are edges' labels
};
// Graphviz' DOT, a cluster a body.
std::string draw_dot(const Graph& graph, const DrawOptions& options = {});
// One self-contained HTML page: `svg` (Graphviz' drawing, may be empty) with the text beside it; a click on a node
// shows its type, attributes and source line.
std::string draw_html(const Graph& graph, std::string_view svg);

}  // namespace kiln::graph
