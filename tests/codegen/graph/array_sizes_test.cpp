// What the tuner must know: how large the arrays of a plan's kernels are, what indices may be, and which configs give
// the same bits.
#include <gtest/gtest.h>

#include "kiln/graph/graph.h"
#include "kiln/planner/plan_graph.h"

namespace kiln::test {
namespace {

using graph::f32;
using graph::GraphDef;
using graph::i64;
using graph::input;
using graph::Tensor;

graph::Plan plan_of(const GraphDef& graph) {
  EXPECT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  auto plan = planner::plan_graph({*graph.ir(), "cpu:x86-64-v3", {}});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return *plan;
}

// "in0 = 24*n2; in1 = 5 in [0, n2)", by parameter.
std::string arrays_of(const dsl::Kernel& kernel) {
  std::string out;
  for (const dsl::ArrayInfo& array : kernel.arrays) {
    const auto text = [&](const dsl::Expr& expr) { return to_string(expr, kernel.expr_names()); };
    out += (out.empty() ? "" : "; ") + array.param + " = " + text(array.elements);
    if (array.range) out += " in [" + text(array.range->first) + ", " + text(array.range->second) + ")";
  }
  return out;
}

std::string values_of(const dsl::Kernel& kernel, const std::string& name) {
  std::string out;
  for (const dsl::SpaceAxis& axis : kernel.space) {
    if (axis.name != name || (!axis.target.empty() && axis.target != "cpu")) continue;
    out = axis.target;
    for (const int64_t value : axis.values) out += " " + std::to_string(value);
  }
  return out;
}

TEST(ArraySizes, AreOverTheKernelsParameters) {
  const graph::Dim n = graph::dim("n", 1, 4096);
  const auto plan = plan_of(graph::graph("g", {input("x", f32, {n, 24}), input("b", f32, {24})},
                                         [](Tensor x, Tensor b) { return exp(x) + b; }));
  ASSERT_EQ(plan.kernels.size(), 1u);
  EXPECT_EQ(arrays_of(plan.kernels[0].kernel), "in0 = 24*n3; in1 = 24; out2 = 24*n3");
}

TEST(ArraySizes, OfIndicesSayWhatTheyAreBelow) {
  const graph::Dim n = graph::dim("n", 1, 4096);
  const auto plan = plan_of(graph::graph("g", {input("table", f32, {50, 8}), input("ids", i64, {n})},
                                         [](Tensor table, Tensor ids) { return take(table, ids, 0) * 2.0; }));
  ASSERT_EQ(plan.kernels.size(), 1u);
  EXPECT_EQ(arrays_of(plan.kernels[0].kernel), "in0 = n3 in [0, 50); in1 = 400; out2 = 8*n3");
}

// Numbers of the tuner's for these could lie anywhere, and what they are read for with them.
TEST(ArraySizes, AreLeftOutWherePlacesAreComputed) {
  const auto plan = plan_of(graph::graph("g", {input("table", f32, {50, 8}), input("ids", i64, {30})},
                                         [](Tensor table, Tensor ids) { return take(table, ids * 3 + 1, 0); }));
  ASSERT_EQ(plan.kernels.size(), 1u);
  EXPECT_EQ(arrays_of(plan.kernels[0].kernel), "in1 = 400; out2 = 240");
}

// Blocks along what is summed up stay, and products of a row or a column keep theirs.
TEST(ArraySizes, SpacesKeepTheOrderOfSums) {
  const auto kernels = plan_of(graph::graph("g",
                                            {input("x", f32, {640, 900}), input("w", f32, {300, 900}),
                                             input("row", f32, {1, 900}), input("v", f32, {900})},
                                            [](graph::Tensors in) {
                                              return graph::Tensors{softmax(exp(in[0])), linear(in[0], in[1]),
                                                                    linear(in[2], in[1]), matmul(in[0], in[3])};
                                            }))
                           .kernels;
  ASSERT_EQ(kernels.size(), 4u);
  EXPECT_EQ(values_of(kernels[0].kernel, "COLS"), "");
  EXPECT_NE(values_of(kernels[0].kernel, "ROWS"), "");
  EXPECT_EQ(values_of(kernels[1].kernel, "BM"), "cpu 8 32 64 128 256 512");
  EXPECT_EQ(values_of(kernels[1].kernel, "BK"), "cpu 16 64 128 256 512");
  EXPECT_EQ(values_of(kernels[2].kernel, "BM"), "cpu 1");
  EXPECT_EQ(values_of(kernels[2].kernel, "BK"), "cpu 240");
  EXPECT_EQ(values_of(kernels[2].kernel, "BN"), "cpu 32 64 128 256 512 1024 4096");
  EXPECT_EQ(values_of(kernels[3].kernel, "BN"), "cpu 1");
  for (const auto& each : kernels) EXPECT_EQ(values_of(each.kernel, "split_k"), "");
}

}  // namespace
}  // namespace kiln::test
