// Graphs as pictures.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kiln/graph/ir.h"
#include "kiln/graph/plan.h"

namespace kiln::graph {

struct DrawOptions {
  bool shapes = true;
  bool views = true;  // false: views are edges' labels
};
// Graphviz' DOT, a cluster a body.
std::string draw_dot(const Graph& graph, const DrawOptions& options = {});
// What a graph is compiled to.
struct PlanDrawing {
  const Plan& plan;
  std::map<std::string, int64_t> sizes = {};  // of dims by name; where all are given, bytes are numbers
  std::vector<double> us = {};                // that each launch takes, if that is known
};
// One self-contained HTML page: `svg` (Graphviz' drawing, may be empty) with the text beside it, and the launches of
// the plan, if there is one; a click on a node shows its type, attributes and source line, one on a launch its kernel.
std::string draw_html(const Graph& graph, std::string_view svg, const PlanDrawing* compiled = nullptr);

}  // namespace kiln::graph
