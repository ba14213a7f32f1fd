// Random graphs that verify: every op of the table, numbers and expressions over dims as extents, bodies, kernels.
// Small enough for the evaluator. The same seed and options give the same graph everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kiln/graph/evaluate.h"
#include "kiln/graph/ir.h"

namespace kiln::random_graph {

struct Options {
  int nodes = 12;         // that are chosen for the main body; operands that are missing add some
  bool symbolic = true;   // extents over dims; else numbers alone
  bool bodies = true;     // loop, cond, call, custom reductions and scans
  bool kernels = true;    // tile kernels
  bool donations = true;  // where types allow
  std::vector<graph::ElementType> elements = {};  // of tensors made anew, where an op leaves it open; empty: all
  std::function<bool(graph::TensorOp)> may = {};  // ops that are chosen; absent: all
  std::vector<graph::TensorOp> first = {};        // ops that are there, before others are chosen
};

struct Case {
  graph::Graph graph;
  std::map<std::string, int64_t> sizes;  // of each dim, for evaluate()
};
// An error is a fault of the generator, or of the rules that it follows.
Result<Case> make(uint64_t seed, const Options& options = {});
// Not of what a float that is rounded otherwise makes other values altogether: its bits, its order among others. Nor of
// signs, since nothing says which one a NaN has.
bool is_comparable(graph::TensorOp op);

// Other sizes that the dims may have, small ones.
std::map<std::string, int64_t> draw_sizes(const graph::Graph& graph, std::mt19937_64& random);
std::string sizes_text(const Case& made);  // ", n = 3", …

struct Content {
  double largest = 2;       // of floats and signed ints; floats are uniform between -largest and largest
  int percent_special = 0;  // NaN, infinities, zeros of both signs, subnormals, ends of types in place of such
};
// Elements for the inputs of a case, with memory of their own.
std::vector<graph::Array> inputs(const Case& made, uint64_t seed, const Content& content = {});

}  // namespace kiln::random_graph
