// Gradients against central differences in f64, by the evaluator.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kiln/graph/evaluate.h"
#include "kiln/graph/graph.h"

namespace kiln::graph::test {

// A function whose gradients are checked at random points. Inputs called i0, i1, … are ints, below the number behind
// an underscore: "i0_3".
struct GradientCase {
  std::string name;
  std::vector<InputSpec> inputs;
  std::function<Tensors(Tensors)> function;
  double low = -2, high = 2;  // of random floats
  double apart = 0;           // random floats of one input differ by this at least: no ties where there is a kink
  bool second = true;         // gradients of gradients too
  double tolerance = 1e-6;
};

// Extents of the dims n and m that cases use.
Dim case_n();
Dim case_m();
using Sizes = std::map<std::string, int64_t>;

struct Worst {
  double error = 0;
  int checks = 0;  // gradients of one graph by one input
  std::string where;
};

Graph case_graph(const GradientCase& each);
std::vector<Array> random_inputs(const GradientCase& each, const Graph& graph, const Sizes& sizes,
                                 std::mt19937& random);
Array random_array(const Graph& graph, const TensorType& type, const Sizes& sizes, std::mt19937& random, double low,
                   double high);

// Reverse mode of first and second order and forward mode at one point. Failures go to GoogleTest.
void check_gradients(const GradientCase& each, const Sizes& sizes, uint32_t seed, Worst& worst);
// vjp of a graph at a point, by the inputs named.
void check_vjp(const std::string& what, const Graph& graph, const std::vector<Array>& inputs,
               const std::vector<std::string>& wanted, double tolerance, std::mt19937& random, Worst& worst);
void check_jvp(const std::string& what, const Graph& graph, const std::vector<Array>& inputs,
               const std::vector<std::string>& wanted, double tolerance, std::mt19937& random, Worst& worst);
std::vector<std::string> float_inputs(const Graph& graph);

// The cases, by family.
std::vector<GradientCase> elementwise_cases();
std::vector<GradientCase> view_cases();
std::vector<GradientCase> index_cases();
std::vector<GradientCase> reduce_cases();
std::vector<GradientCase> contract_cases();
std::vector<GradientCase> window_cases();
std::vector<GradientCase> control_cases();
std::vector<GradientCase> custom_cases();
std::vector<GradientCase> kernel_cases();
std::vector<GradientCase> composite_cases();
std::vector<GradientCase> library_cases();
std::vector<GradientCase> all_cases();

}  // namespace kiln::graph::test
