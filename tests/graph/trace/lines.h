// What a trace made, as lines that tests compare: "add f32[n], f32[n] -> f32[n]", with attributes where there are any.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kiln/graph/graph.h"

namespace kiln::graph {

std::string attr_text(const Graph& graph, const AttrInfo& info, const Attr& attr);
std::string node_line(const Graph& graph, const Body& body, const Node& node);
std::vector<std::string> node_lines(const Graph& graph, const Body& body);
// Of the main body, or the error.
std::vector<std::string> node_lines(const GraphDef& def);
// "f32[n, 4]" of each output, or the error.
std::vector<std::string> output_types(const GraphDef& def);
// The error's message without directories: "file.cpp:12:5: add: …"; "" of a sound graph.
std::string error_text(const GraphDef& def);

}  // namespace kiln::graph
