// Reductions of few results: parts by programs of their own, then the parts.
#include <gtest/gtest.h>

#include "check_plan.h"
#include "graph/random_graph.h"
#include "kiln/planner/plan_graph.h"

namespace kiln::test {
namespace {

using graph::f32;
using graph::GraphDef;
using graph::input;
using graph::Outputs;
using graph::Tensor;

constexpr const char* kGpu = "cuda:sm_90a";

size_t launches(const GraphDef& graph, const std::string& target) {
  EXPECT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  auto plan = planner::plan_graph({*graph.ir(), target, {}});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan->launches.size();
}

void expect_right(const GraphDef& graph, const std::map<std::string, int64_t>& sizes = {}) {
  const random_graph::Case made{*graph.ir(), sizes};
  EXPECT_EQ(check_plan(made.graph, random_graph::inputs(made, 11), sizes, true, kGpu), "");
}

TEST(ReduceInParts, OfAllElements) {
  const GraphDef graph =
      graph::graph("loss", {input("x", f32, {77, 1003})}, [](Tensor x) { return mean(square(x)) * 2.0; });
  EXPECT_EQ(launches(graph, kGpu), 2u);
  expect_right(graph);
}

TEST(ReduceInParts, OfColumns) {
  const GraphDef graph = graph::graph("columns", {input("x", f32, {8197, 9})}, [](Tensor x) {
    return Outputs{{"sum", sum(x, {0})}, {"most", reduce_max(abs(x), {0}, true) * 3.0}};
  });
  EXPECT_EQ(launches(graph, kGpu), 2u);
  expect_right(graph);
}

TEST(ReduceInParts, OfFewLongRows) {
  const GraphDef graph =
      graph::graph("rows", {input("x", f32, {3, 30'011})}, [](Tensor x) { return sum(exp(x), {1}, true); });
  EXPECT_EQ(launches(graph, kGpu), 2u);
  expect_right(graph);
}

TEST(ReduceInParts, OfAxesThatAreNotOne) {
  const GraphDef graph =
      graph::graph("channels", {input("x", f32, {70, 3, 331})}, [](Tensor x) { return reduce_min(x, {0, 2}) - 1.0; });
  EXPECT_EQ(launches(graph, kGpu), 2u);
  expect_right(graph);
}

// Of any number of rows, none too: a part without elements changes nothing.
TEST(ReduceInParts, IsOneForAllSizes) {
  const graph::Dim n = graph::dim("n", 0, 1 << 20);
  const GraphDef graph =
      graph::graph("bias", {input("x", f32, {n, 48})}, [](Tensor x) { return sum(x * 0.5, {0}) + 1.0; });
  EXPECT_EQ(launches(graph, kGpu), 2u);
  for (const int64_t rows : {0, 1, 17, 1025}) expect_right(graph, {{"n", rows}});
}

// What is as large as the operand would be computed by few programs again: it is a launch of its own, and what it needs
// of the results is read.
TEST(ReduceInParts, LeavesLargeResultsToOthers) {
  const GraphDef graph = graph::graph("centred", {input("x", f32, {4099, 20})}, [](Tensor x) {
    const Tensor centred = x - mean(x, {0}, true);
    return Outputs{{"y", centred * rsqrt(mean(square(centred), {0}, true) + 1e-5)}};
  });
  EXPECT_EQ(launches(graph, kGpu), 5u);
  expect_right(graph);
}

TEST(ReduceInParts, IsNotWorthItForFewElements) {
  const GraphDef graph = graph::graph("few", {input("x", f32, {30, 1000})}, [](Tensor x) { return sum(x); });
  EXPECT_EQ(launches(graph, kGpu), 1u);
  const GraphDef softmaxes =
      graph::graph("rows", {input("x", f32, {512, 50'000})}, [](Tensor x) { return softmax(x); });
  EXPECT_EQ(launches(softmaxes, kGpu), 1u);
}

}  // namespace
}  // namespace kiln::test
