// Random graphs verify, have every op, and are the same each time.
#include <gtest/gtest.h>

#include <cstdlib>

#include "graph/random_graph.h"
#include "kiln/graph/text.h"
#include "kiln/graph/verify.h"
#include "sampled.h"

namespace kiln::random_graph {
namespace {

using graph::TensorOp;

TEST(RandomGraph, Verifies) {
  const uint64_t seeds = test::runs_all_cases() ? 20'000 : 5'000;
  std::vector<int> seen(graph::kTensorOpCount, 0);
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const auto made = make(seed);
    ASSERT_TRUE(made) << made.error().message;
    const auto fine = verify(made->graph);
    ASSERT_TRUE(fine) << "seed " << seed << ": " << fine.error().message << "\n" << print(made->graph);
    for (const graph::Body& body : made->graph.bodies) {
      for (const graph::Node& node : body.nodes) ++seen[static_cast<size_t>(node.op)];
    }
  }
  for (int op = 0; op < graph::kTensorOpCount; ++op) {
    EXPECT_GE(seen[static_cast<size_t>(op)], static_cast<int>(seeds / 40))
        << graph::info(static_cast<TensorOp>(op)).name;
  }
}

TEST(RandomGraph, IsTheSameEachTime) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto first = make(seed), second = make(seed);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(print(first->graph), print(second->graph));
    EXPECT_EQ(first->sizes, second->sizes);
  }
}

TEST(RandomGraph, HasWhatOptionsAskFor) {
  Options options;
  options.symbolic = options.bodies = options.kernels = options.donations = false;
  options.elements = {graph::ElementType::kF64};
  options.first = {TensorOp::kConv, TensorOp::kSoftmax};
  options.may = [](TensorOp op) { return graph::info(op).family == graph::Family::kElementwise; };
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto made = make(seed, options);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_TRUE(made->graph.dims.empty() && made->graph.kernels.empty() && made->graph.bodies.size() == 1);
    std::vector<int> seen(graph::kTensorOpCount, 0);
    for (const graph::Node& node : made->graph.main().nodes) ++seen[static_cast<size_t>(node.op)];
    EXPECT_GE(seen[static_cast<size_t>(TensorOp::kConv)], 1);
    EXPECT_GE(seen[static_cast<size_t>(TensorOp::kSoftmax)], 1);
    EXPECT_EQ(seen[static_cast<size_t>(TensorOp::kDot)], 0);
    for (const graph::Input& input : made->graph.main().inputs) EXPECT_EQ(input.donated_to, graph::kNone);
  }
}

TEST(RandomGraph, IsEvaluated) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const auto made = make(seed);
    ASSERT_TRUE(made) << made.error().message;
    const auto data = inputs(*made, seed, {2, seed % 3 == 0 ? 20 : 0});
    const auto out = evaluate(made->graph, data, made->sizes);
    ASSERT_TRUE(out) << "seed " << seed << ": " << out.error().message << "\n" << print(made->graph);
    ASSERT_EQ(out->size(), made->graph.main().outputs.size());
  }
}

}  // namespace
}  // namespace kiln::random_graph
