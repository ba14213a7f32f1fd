// `kiln graph run`: a graph on .npy files, by the evaluator or compiled.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph_compiled.h"
#include "kiln/graph/evaluate.h"

namespace kiln::cli {

struct GraphRunFlags {
  std::string file;                    // .kg or .pt2
  std::vector<std::string> arguments;  // inputs, outputs and sizes, as those have them
  std::vector<std::string> inputs;     // "x=@x.npy", or "lr=0.1" of a scalar
  std::vector<std::string> outputs;    // "y=@y.npy"; those not named are printed
  std::vector<std::string> sizes;      // "n=128"
  bool wide = false;
  bool check_indices = true;
  uint64_t memory_bytes = uint64_t{8} << 30;
  GraphTargetFlags compiled;  // with a target
};
Result<void> run_graph(GraphRunFlags flags);
// The same of a program that is read, by a handle that is compiled of its graph, or null.
struct Program;
Result<void> run_program(const Program& program, GraphRunFlags flags, const client::CompiledGraph* compiled);
// `kiln run` of a graph: of kernels' options those that graphs have.
struct RunFlags;
Result<GraphRunFlags> graph_run_flags(const RunFlags& flags);

// Texts of --size.
Result<std::map<std::string, int64_t>> read_sizes(const std::vector<std::string>& texts);

// "f32[2, 3]\n[[1, 2, 3],\n [4, 5, 6]]", as NumPy prints; of more than 1000 elements the first and the last three of
// each axis.
std::string array_text(const graph::Array& array);

}  // namespace kiln::cli
