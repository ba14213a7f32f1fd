// What a file of a graph may hold. A format more is a row in graph_formats.cpp.
#pragma once

#include <string>
#include <string_view>

#include "kiln/graph/ir.h"

namespace kiln::c {

// A verified graph. `name` stands for the file in errors.
Result<graph::Graph> read_graph(std::string_view bytes, const std::string& name);

}  // namespace kiln::c
