// Gradients: graphs in, graphs out. Reverse mode by a rule for each primitive; a composite has its own or that of its
// decomposition.
#pragma once

#include <string>
#include <vector>

#include "kiln/graph/graph.h"

namespace kiln::graph {

// The gradient of the only output, a float scalar, by float inputs: outputs "d_NAME" in the order of `inputs`. Errors
// name the output that is no scalar, the input that is none or an int, or the node that has no gradient, with its
// source line.
Result<Graph> gradient(const Graph& graph, const std::vector<std::string>& inputs);
// The graph's outputs (of which the first is the scalar), then the gradients.
Result<Graph> value_and_gradient(const Graph& graph, const std::vector<std::string>& inputs);
// The graph's outputs, then gradients of what inputs "g_OUTPUT" weigh: inputs are the graph's, then a g_ for each float
// output. A name that is taken gets a suffix: vjp of vjp has "g_y_2" (so do "d_x" of value_and_gradient twice).
Result<Graph> vjp(const Graph& graph, const std::vector<std::string>& inputs);
// The graph's outputs, then how each float output ("t_OUTPUT") moves as inputs move by "t_NAME".
Result<Graph> jvp(const Graph& graph, const std::vector<std::string>& inputs);

GraphDef grad(const GraphDef& graph, const std::vector<std::string>& inputs);
GraphDef value_and_grad(const GraphDef& graph, const std::vector<std::string>& inputs);

// A joint graph cut in two: what the forward pass gives besides its outputs is what the backward one takes besides the
// gradients.
struct CutOptions {
  // Bytes to save at most beside inputs and outputs, with dims at `sizes`. More is computed again the less it is: first
  // elementwise ops, then reductions and norms, then all but what is never. An error where that is too little still.
  // Negative: elementwise ops alone, by what is cheapest to move.
  int64_t memory_budget = -1;
  std::map<std::string, int64_t> sizes;  // of dims, for costs; absent: the geometric middle of the range, at most 1024
};
struct Cut {
  Graph forward;   // the outputs of the graph, then what is saved
  Graph backward;  // what is saved and the g_ inputs in, gradients out
  struct Saved {
    std::string name;
    TensorType type;
    int64_t bytes;
    std::string location;
  };
  std::vector<Saved> saved;
  std::vector<std::string>
      recomputed;              // "exp at FILE:LINE:COLUMN", each node of the forward pass that the backward one repeats
  int64_t saved_bytes = 0;     // beside inputs and outputs, which are there anyway
  std::string report() const;  // both lists, for people
};
// Min-cut between forward and backward of vjp(graph, inputs). Random ops, products, convolutions, loops and kernels are
// never computed again.
Result<Cut> cut_vjp(const Graph& graph, const std::vector<std::string>& inputs, const CutOptions& options = {});

}  // namespace kiln::graph
