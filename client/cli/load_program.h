// Graph files of the command line: `.kg` text, or a model of PyTorch's in a `.pt2`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kiln/client/array.h"
#include "kiln/dsl/result.h"
#include "kiln/graph/evaluate.h"

namespace kiln::cli {

struct Program {
  graph::Graph graph;
  // Inputs that the file has values for, which live as long as this: weights, and the first values of states.
  std::map<std::string, client::ArrayView> values;
  std::vector<std::string> weights;  // those that stay as they are
};

bool is_program_file(const std::string& file);  // by its name: .kg or .pt2
Result<Program> load_program(const std::string& file);
// Of a `.pt2`, whatever its name.
Result<Program> load_model(const std::string& file);
// The graph alone.
Result<graph::Graph> load_graph(const std::string& file);

// A view as the evaluator takes it; borrowed.
graph::Array borrowed(const client::ArrayView& view);

}  // namespace kiln::cli
