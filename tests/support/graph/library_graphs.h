// Functions that are made of others, images, sequences and what is selected by data, as graphs of f32 that compile.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kiln/graph/graph.h"

namespace kiln::test {

struct LibraryGraph {
  const char* name;
  graph::GraphDef graph;
  std::vector<std::map<std::string, int64_t>> sizes;  // of its dims, odd ones
};
std::vector<LibraryGraph> library_graphs();

}  // namespace kiln::test
