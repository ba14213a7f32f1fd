// Plans against the evaluator, by the interpreter of tiles: each op's example, written graphs, random ones.
#include <gtest/gtest.h>

#include <cstdlib>

#include "check_plan.h"
#include "graph/op_examples.h"
#include "graph/random_graph.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/text.h"
#include "kiln/planner/plan_graph.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using namespace graph;
using graph::TensorOp;

class OpPlan : public testing::TestWithParam<TensorOp> {};

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
      const std::string wrong = check_plan(made->graph, inputs, made->sizes, fuse, fuse ? "interp" : "cuda:sm_90a");
      if (wrong.starts_with("evaluator")) break;
      EXPECT_EQ(wrong, "") << "seed " << seed << (fuse ? "" : ", not fused") << "\n" << graph::print(made->graph);
      ++checked;
    }
    if (HasFailure()) return;
  }
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
  EXPECT_EQ(check_plan(made.graph, random_graph::inputs(made, 1), {}, true), "");
}

// A recurrence over n passes, within another over m: what is carried, read in slices, stacked, and seen of outside.
graph::GraphDef nested_loops(const graph::Dim& m, const graph::Dim& n, bool reverse) {
  using graph::Tensor;
  return graph::graph(
      "nested",
      {graph::input("xs", graph::f32, {m, n, 3}), graph::input("h", graph::f32, {3}),
       graph::input("w", graph::f32, {3, 3})},
      [&](Tensor xs, Tensor h0, Tensor w) {
        const auto outer = graph::loop(
            m, {h0}, {xs},
            [&](graph::Tensors carried, graph::Tensors rows) {
              const auto inner = graph::loop(n, {carried[0], w}, {rows[0]},
                                             [&](graph::Tensors state, graph::Tensors x) {
                                               const Tensor next = tanh(matmul(state[1], state[0]) + x[0] * h0);
                                               // The two change places, so that slots must not be mixed up.
                                               return graph::LoopStep{{next, state[1] * 0.5}, {next + state[0]}};
                                             },
                                             {.reverse = reverse});
              return graph::LoopStep{{inner.carried[0] - carried[0]}, {inner.stacked[0], inner.carried[1]}};
            },
            {.reverse = !reverse});
        return graph::Outputs{{"h", outer.carried[0]}, {"ys", outer.stacked[0] * 2.0}, {"ws", outer.stacked[1]}};
      });
}

TEST(LoopPlan, RunsAsOftenAsTheSizesSay) {
  for (const bool reverse : {false, true}) {
    const auto graph = nested_loops(graph::dim("m", 0, 100), graph::dim("n", 0, 1000), reverse);
    ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
    for (const auto& [m, n] : {std::pair(1, 1), std::pair(2, 3), std::pair(3, 70), std::pair(2, 0), std::pair(0, 2)}) {
      const random_graph::Case made{*graph.ir(), {{"m", m}, {"n", n}}};
      EXPECT_EQ(check_plan(made.graph, random_graph::inputs(made, 1), made.sizes, true), "") << m << ", " << n;
    }
  }
}

// Launches do not grow with the length.
TEST(LoopPlan, IsOneForAllLengths) {
  const auto graph = nested_loops(graph::dim("m", 0, 100), 100'000, false);
  ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  const auto plan = planner::plan_graph({*graph.ir(), "interp", {}});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_LT(plan->launches.size(), 20u);
  ASSERT_EQ(plan->loops.size(), 2u);
  EXPECT_NE(plan->loops[0].counter, plan->loops[1].counter);
  const auto again = graph::decode_plan(graph::encode_plan(*plan));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(graph::encode_plan(*again), graph::encode_plan(*plan));
  const auto is_refused = [&](uint32_t first, uint32_t count, uint32_t counter) {
    graph::Plan wrong = *plan;
    wrong.loops[1].first = first;
    wrong.loops[1].count = count;
    wrong.loops[1].counter = counter;
    return !graph::decode_plan(graph::encode_plan(wrong)).ok();
  };
  const graph::PlannedLoop &outer = plan->loops[0], &inner = plan->loops[1];
  EXPECT_FALSE(is_refused(inner.first, inner.count, inner.counter));
  EXPECT_TRUE(is_refused(inner.first, inner.count, outer.counter));
  EXPECT_TRUE(is_refused(inner.first, outer.count, inner.counter));
  EXPECT_TRUE(is_refused(inner.first, 0, inner.counter));
  EXPECT_TRUE(is_refused(outer.first - 1, 2, inner.counter));
  EXPECT_TRUE(is_refused(inner.first, 1000, inner.counter));
}

// A view that a product could compute beside its result, but that another product reads: of what the view is of.
TEST(Views, AreReadThroughByWhoReadsThem) {
  const auto graph = graph::graph("turned",
                                  {graph::input("x", graph::f32, {25, 8}), graph::input("z", graph::f32, {25, 8}),
                                   graph::input("w", graph::f32, {8, 8})},
                                  [](graph::Tensor x, graph::Tensor z, graph::Tensor w) {
                                    const graph::Tensor turned =
                                        permute(matmul(x, w), {1, 0}) + permute(matmul(z, w), {1, 0});
                                    return graph::Outputs{{"product", matmul(permute(turned, {1, 0}), w)},
                                                          {"sums", sum(permute(turned, {1, 0}), {1})}};
                                  });
  ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  const random_graph::Case made{*graph.ir(), {}};
  EXPECT_EQ(check_plan(made.graph, random_graph::inputs(made, 1), {}, true), "");
}

// What a product's group leaves to its readers is made of other groups' results too, which the readers need then: here
// the statistics of a norm.
TEST(CheapOps, AreComputedByWhoHasWhatTheyAreMadeOf) {
  const auto graph =
      graph::graph("step", {graph::input("x", graph::f32, {24, 16}), graph::input("w", graph::f32, {16, 16})},
                   [](graph::Tensor x, graph::Tensor w) {
                     const graph::Tensor slope = matmul(x, w) + 1.0;
                     const graph::Tensor unit = x * rsqrt(mean(square(x), {1}, true) + 1e-3);
                     return graph::Outputs{{"y", matmul(slope, w)}, {"scale", sum(slope * unit, {0})}};
                   });
  ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  const random_graph::Case made{*graph.ir(), {}};
  EXPECT_EQ(check_plan(made.graph, random_graph::inputs(made, 1), {}, true), "");
}

// What is behind such an op is looked at once, by whatever many ways it is reached.
TEST(CheapOps, AreFollowedOnce) {
  const auto graph =
      graph::graph("ways", {graph::input("x", graph::f32, {8, 8}), graph::input("w", graph::f32, {8, 8})},
                   [](graph::Tensor x, graph::Tensor w) {
                     const graph::Tensor y = matmul(x, w);
                     graph::Tensor z = slice(pad(y + 1.0, {0, 0}, {1, 0}), 0, 1, 9);
                     for (int i = 0; i < 60; ++i) z = z * 0.5 + z;
                     return graph::Outputs{{"y", y}, {"z", z}};
                   });
  ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  const random_graph::Case made{*graph.ir(), {}};
  EXPECT_EQ(check_plan(made.graph, random_graph::inputs(made, 1), {}, true), "");
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
    EXPECT_EQ(check_plan(made.graph, random_graph::inputs(made, 1), {}, true, "cuda:sm_90a"), "");
  }
}

// Graphs of many ops, whole.
class RandomPlan : public testing::TestWithParam<int> {};

TEST_P(RandomPlan, IsTheEvaluators) {
  const char* asked = std::getenv("KILN_RANDOM_GRAPHS");
  const int count = asked ? std::atoi(asked) / 16 : runs_all_cases() ? 25 : 12;
  int checked = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t seed = static_cast<uint64_t>(GetParam()) * 1'000'000 + static_cast<uint64_t>(i);
    random_graph::Options options;
    options.nodes = 4 + static_cast<int>(seed % 12);
    options.kernels = false;
    options.bodies = seed % 4 == 0;
    if (seed % 3 != 0) options.elements = {graph::f32, graph::i32, graph::i1};
    options.may = random_graph::is_comparable;
    auto made = random_graph::make(seed, options);
    ASSERT_TRUE(made.ok()) << made.error().message;
    const auto inputs = random_graph::inputs(*made, seed);
    const std::string wrong =
        check_plan(made->graph, inputs, made->sizes, seed % 7 != 0, seed % 2 == 0 ? "cuda:sm_90a" : "interp");
    if (wrong.starts_with("evaluator")) continue;  // an index that is nowhere, or too much memory
    ++checked;
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << graph::print(made->graph);
    if (HasFailure()) return;
  }
  EXPECT_GE(checked, count / 2);
}

// Any launch may turn out to have a kernel that cannot be compiled: its ops go apart then.
TEST_P(RandomPlan, IsTheEvaluatorsWhenALaunchGoesApart) {
  const char* asked = std::getenv("KILN_RANDOM_GRAPHS");
  const int count = asked ? std::atoi(asked) / 16 : runs_all_cases() ? 6 : 3;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const uint64_t seed = static_cast<uint64_t>(GetParam()) * 1'000'000 + 500'000 + static_cast<uint64_t>(i);
    random_graph::Options options;
    options.nodes = 8 + static_cast<int>(seed % 16);
    options.kernels = false;
    options.elements = {graph::f32, graph::i32, graph::i1};
    options.may = [](TensorOp op) {  // norms, of constants above all, show each rounding
      return random_graph::is_comparable(op) && graph::info(op).family != graph::Family::kNorm;
    };
    auto made = random_graph::make(seed, options);
    ASSERT_TRUE(made.ok()) << made.error().message;
    graph::PlanRequest request{made->graph, "cuda:sm_90a", {}};
    const auto plan = planner::plan_graph(request);
    ASSERT_TRUE(plan) << plan.error().message;
    for (const graph::PlannedLaunch& launch : plan->launches) {
      if (launch.ops.size() < 2) continue;
      request.options.apart = launch.ops;
      const std::string wrong = check_plan(request, random_graph::inputs(*made, seed), made->sizes);
      if (wrong.starts_with("evaluator")) break;  // as above
      EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << graph::print(made->graph);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Sixteen, RandomPlan, testing::Range(0, 16));

// A conversion to f8 gives no infinity; the greatest of nothing is one.
TEST(Windows, OfPaddingAloneAreTheEndsOfTheType) {
  for (const char* type : {"f8e5m2", "f8e4m3", "f16", "f64", "i8", "u16"}) {
    for (const char* kind : {"min", "max"}) {
      const auto graph =
          graph::parse("graph w(%x: " + std::string(type) + "[3]) {\n  %w = window %x {kind = " + kind +
                           ", size = [2], strides = [1], low = [2], high = [0], dilation = [1]} : " + type +
                           "[4]\n  output w = %w\n}",
                       "w.kg");
      ASSERT_TRUE(graph) << graph.error().message;
      EXPECT_EQ(check_plan(*graph, random_graph::inputs({*graph, {}}, 1), {}, true), "") << type << ", " << kind;
    }
  }
}

// A view that had joined a reduction is read through by others: they need what it is a view of.
TEST(Apart, EachLaunchOfANormWhoseResultIsCutUp) {
  const auto def = graph::graph("cut", {input("x", f32, {12, 6}), input("w", f32, {8, 6})}, [](Tensor x, Tensor w) {
    const Tensor y = linear(x, w);
    const Tensor middle = y - mean(y, {0}, true);
    const Tensor spread = mean(middle * middle, {0});
    const Tensor normal = cast(middle * rsqrt(spread + 1e-5), graph::bf16);
    const Tensor heads = reshape(normal, {3, 4, 2, 4});
    const auto part = [&](int64_t from, int64_t to) {
      return reshape(permute(graph::slice(heads, 3, from, to), {0, 2, 1, 3}), {6, 4, to - from});
    };
    return graph::Outputs{{"spread", spread}, {"q", permute(part(0, 2), {0, 2, 1})}, {"k", part(2, 4)}};
  });
  ASSERT_TRUE(def.ir()) << def.ir().error().message;
  const random_graph::Case made{*def.ir(), {}};
  graph::PlanRequest request{made.graph, "cuda:sm_90a", {}};
  const auto plan = planner::plan_graph(request);
  ASSERT_TRUE(plan) << plan.error().message;
  for (const graph::PlannedLaunch& launch : plan->launches) {
    request.options.apart = launch.ops;
    EXPECT_EQ(check_plan(request, random_graph::inputs(made, 1), {}), "") << launch.ops.size() << " ops";
  }
}

}  // namespace
}  // namespace kiln::test
