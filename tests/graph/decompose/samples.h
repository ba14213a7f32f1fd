// A graph of each composite, of symbolic sizes and of several element types.
#pragma once

#include <string>
#include <vector>

#include "kiln/graph/graph.h"

namespace kiln::graph::decomposing {

struct Sample {
  std::string name;
  GraphDef graph;
};
std::vector<Sample> samples();

}  // namespace kiln::graph::decomposing
