// Plans against the evaluator, by the interpreter of tiles: each op's example, written graphs, random ones.
#include <gtest/gtest.h>

#include <cstdlib>

#include "graph/compare.h"
#include "graph/op_examples.h"
#include "graph/random_graph.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/text.h"
#include "kiln/planner/plan_graph.h"
#include "run_plan.h"

namespace kiln::test {
namespace {

using graph::TensorOp;

// "" where plan and evaluator agree, else what is wrong. A plan for a GPU is interpreted too: its blocks are other
// ones.
std::string check(const graph::Graph& graph, const std::vector<graph::Array>& inputs,
                  const std::map<std::string, int64_t>& sizes, bool fuse, const std::string& target = "interp") {
  auto plan = planner::plan_graph({graph, target, {.fuse = fuse}});
  if (!plan) return "plan: " + plan.error().message;
  auto expected = graph::evaluate(graph, inputs, sizes, {.check_indices = false});
  if (!expected) return "evaluator: " + expected.error().message;
  auto actual = run_plan(*plan, inputs, sizes);
  if (!actual) return "run: " + actual.error().message;
  auto wide = graph::evaluate(graph, inputs, sizes, {.check_indices = false, .wide = true});
  if (!wide) return "evaluator: " + wide.error().message;
  return difference(*actual, *expected, {.coarsest = coarsest_float(graph), .wide = *wide});
}

class OpPlan : public testing::TestWithParam<TensorOp> {};

// Of loops those whose length is no small number, which the planner cannot run yet.
bool is_missing(TensorOp op, const std::string& message) {
  return op == TensorOp::kLoop && message.find("there is no kernel for `loop`") != std::string::npos;
}

TEST_P(OpPlan, IsTheEvaluators) {
  int checked = 0;
  for (uint64_t seed = 0; seed < 40 && checked < 6; ++seed) {
    random_graph::Options options;
    options.nodes = 2;
    options.kernels = GetParam() == TensorOp::kKernel;
    options.first = {GetParam()};
    options.may = [&](TensorOp op) {
      return op == GetParam() || graph::info(op).family == graph::Family::kElementwise || op == TensorOp::kReshape;
    };
    auto made = random_graph::make(seed, options);
    ASSERT_TRUE(made.ok()) << made.error().message;
    const auto inputs = random_graph::inputs(*made, seed);
    for (const bool fuse : {true, false}) {
      const std::string wrong = check(made->graph, inputs, made->sizes, fuse, fuse ? "interp" : "cuda:sm_90a");
      if (is_missing(GetParam(), wrong) || wrong.starts_with("evaluator")) break;
      EXPECT_EQ(wrong, "") << "seed " << seed << (fuse ? "" : ", not fused") << "\n" << graph::print(made->graph);
      ++checked;
    }
    if (HasFailure()) return;
  }
  if (checked == 0 && GetParam() == TensorOp::kLoop) GTEST_SKIP() << "no loop of these seeds has a small length";
  EXPECT_GT(checked, 0);
}

std::vector<TensorOp> all_ops() {
  std::vector<TensorOp> out;
  for (const graph::OpInfo& op : graph::op_table()) out.push_back(op.op);
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, OpPlan, testing::ValuesIn(all_ops()),
                         [](const auto& info) { return graph::info(info.param).name; });

// What is picked by a window keeps its type: a sum of i1 is an int.
TEST(WindowPick, OfBoolsIsOfBools) {
  const auto graph =
      graph::graph("picked", {graph::input("x", graph::f32, {8}), graph::input("t", graph::i1, {8})},
                   [](graph::Tensor x, graph::Tensor t) {
                     return graph::window_pick(x, t, graph::PickKind::kMax,
                                               {.size = {2}, .strides = {2}, .low = {0}, .high = {0}, .dilation = {1}});
                   });
  ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  const random_graph::Case made{*graph.ir(), {}};
  EXPECT_EQ(check(made.graph, random_graph::inputs(made, 1), {}, true), "");
}

// Along an axis of extent 1, or none, a block has places that no element is behind. An operand that is computed has
// values there as well.
TEST(ProductBlocks, CountNothingBesideTheirElements) {
  for (const auto& [rows, depth, columns] : {std::tuple(1, 3, 2), std::tuple(2, 1, 1), std::tuple(1, 1, 1)}) {
    const auto graph = graph::graph("narrow", {graph::input("x", graph::f32, {depth, columns})},
                                    [&, rows = rows, depth = depth](graph::Tensor x) {
                                      return matmul(graph::full({rows, depth}, 1.5, graph::f32), x);
                                    });
    ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
    const random_graph::Case made{*graph.ir(), {}};
    EXPECT_EQ(check(made.graph, random_graph::inputs(made, 1), {}, true, "cuda:sm_90a"), "");
  }
}

// Graphs of many ops, whole.
class RandomPlan : public testing::TestWithParam<int> {};

TEST_P(RandomPlan, IsTheEvaluators) {
  const char* asked = std::getenv("KILN_RANDOM_GRAPHS");
  const int count = asked ? std::atoi(asked) / 16 : 25;
  int checked = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t seed = static_cast<uint64_t>(GetParam()) * 1'000'000 + static_cast<uint64_t>(i);
    random_graph::Options options;
    options.nodes = 4 + static_cast<int>(seed % 12);
    options.kernels = false;
    options.bodies = false;
    if (seed % 3 != 0) options.elements = {graph::f32, graph::i32, graph::i1};
    // Where a float is rounded otherwise, its bits and its order among others are other ones altogether; and nothing
    // says which sign a NaN has.
    options.may = [](TensorOp op) {
      return graph::info(op).family != graph::Family::kOrder && op != TensorOp::kBitcast && op != TensorOp::kQuantise &&
             op != TensorOp::kSignbit && op != TensorOp::kCopysign;
    };
    auto made = random_graph::make(seed, options);
    ASSERT_TRUE(made.ok()) << made.error().message;
    const auto inputs = random_graph::inputs(*made, seed);
    const std::string wrong =
        check(made->graph, inputs, made->sizes, seed % 7 != 0, seed % 2 == 0 ? "cuda:sm_90a" : "interp");
    if (wrong.starts_with("evaluator")) continue;  // an index that is nowhere, or too much memory
    ++checked;
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << graph::print(made->graph);
    if (HasFailure()) return;
  }
  EXPECT_GE(checked, count / 2);
}
INSTANTIATE_TEST_SUITE_P(Sixteen, RandomPlan, testing::Range(0, 16));

}  // namespace
}  // namespace kiln::test
