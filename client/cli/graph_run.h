// `kiln graph run`: a graph on .npy files, by the evaluator.
#pragma once

#include <string>
#include <vector>

#include "kiln/graph/evaluate.h"

namespace kiln::cli {

struct GraphRunFlags {
  std::string file;                  // .kg
  std::vector<std::string> inputs;   // "x=@x.npy", or "lr=0.1" of a scalar
  std::vector<std::string> outputs;  // "y=@y.npy"; those not named are printed
  std::vector<std::string> sizes;    // "n=128"
  bool wide = false;
  bool check_indices = true;
  uint64_t memory_bytes = uint64_t{8} << 30;
};
Result<void> run_graph(const GraphRunFlags& flags);

// "f32[2, 3]\n[[1, 2, 3],\n [4, 5, 6]]", as NumPy prints; of more than 1000 elements the first and the last three of
// each axis.
std::string array_text(const graph::Array& array);

}  // namespace kiln::cli
