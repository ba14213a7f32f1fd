// Bodies brought into another graph: kernels of one name are one kernel, or an error.
#include <gtest/gtest.h>

#include <stdexcept>

#include "graph/random_graph.h"
#include "kiln/graph/builder.h"
#include "kiln/graph/verify.h"

namespace kiln::graph {
namespace {

// A graph whose first node is a tile kernel, with or without a gradient.
Graph with_kernel(bool has_gradient) {
  random_graph::Options options;
  options.nodes = 0;
  options.first = {TensorOp::kKernel};
  options.symbolic = options.donations = false;
  for (uint64_t seed = 0;; ++seed) {
    auto made = random_graph::make(seed, options);
    if (!made) throw std::runtime_error(made.error().message);
    if ((made->graph.kernels.at(0).gradient != kNone) == has_gradient) return std::move(made->graph);
  }
}

Result<BodyId> import_twice(const Graph& first, const Graph& second) {
  GraphBuilder builder("both");
  auto here = builder.import_body(first, 0);
  if (here) here = builder.import_body(second, 0);
  if (!here) return here;
  EXPECT_EQ(builder.graph().kernels.size(), 1u);
  const Body& body = builder.graph().bodies[*here];
  std::vector<ValueId> inputs;
  for (const Input& input : body.inputs) {
    inputs.push_back(*builder.add_input(input.name, builder.graph().type(body, input.value)));
  }
  EXPECT_TRUE(builder.add_output("y", *builder.add_one(TensorOp::kCall, inputs, {int64_t{*here}})));
  const auto fine = verify(builder.take());
  EXPECT_TRUE(fine) << fine.error().message;
  return here;
}

TEST(ImportBody, TakesEqualKernelsOfOneNameForOne) {
  for (const bool has_gradient : {false, true}) {
    const Graph graph = with_kernel(has_gradient);
    const auto here = import_twice(graph, graph);
    EXPECT_TRUE(here) << here.error().message;
  }
}

TEST(ImportBody, RefusesKernelsOfOneNameThatDiffer) {
  const auto refused = [](const Graph& first, const Graph& second) {
    const auto here = import_twice(first, second);
    EXPECT_EQ(here ? "taken" : here.error().message, "the kernel twice0 is there twice, and they differ");
  };
  const Graph graph = with_kernel(true), without = with_kernel(false);
  Graph other = without;
  other.kernels[0].kernel.name = "thrice";
  refused(without, other);
  other = without;
  other.kernels[0].arguments[3].scalar = Expr(1'000'000);
  refused(without, other);
  other = graph;
  other.kernels[0].gradient = kNone;
  refused(graph, other);
  other = graph;
  Body& gradient = other.bodies[other.kernels[0].gradient];
  gradient.nodes[0].op = TensorOp::kSub;
  refused(graph, other);
}

// One name is one body: the second gets a suffix.
TEST(GraphBuilder, BodiesHaveNamesOfTheirOwn) {
  GraphBuilder builder("g");
  for (int i = 0; i < 3; ++i) {
    builder.open_body(i == 2 ? "g" : "part");
    builder.close_body();
  }
  EXPECT_EQ(builder.graph().bodies[1].name, "part");
  EXPECT_EQ(builder.graph().bodies[2].name, "part_2");
  EXPECT_EQ(builder.graph().bodies[3].name, "g_2");
}

// In the canonical form of a graph they do.
TEST(GraphBuilder, OperandsOfACommutingOpStandInEitherOrder) {
  GraphBuilder builder("g");
  const ValueId a = *builder.add_input("a", {ElementType::kF32, {Expr(4)}}),
                b = *builder.add_input("b", {ElementType::kF32, {Expr(4)}});
  const auto add = [&](TensorOp op, ValueId left, ValueId right) {
    const ValueId operands[] = {left, right};
    return *builder.add_one(op, operands, {}, {});
  };
  const ValueId sum = add(TensorOp::kAdd, a, b);
  EXPECT_EQ(add(TensorOp::kAdd, b, a), sum);
  EXPECT_EQ(add(TensorOp::kAdd, a, b), sum);
  EXPECT_NE(add(TensorOp::kSub, a, b), add(TensorOp::kSub, b, a));
  EXPECT_NE(add(TensorOp::kAdd, a, a), sum);
}

TEST(GraphBuilder, RefusesTypesThatNoTensorHas) {
  GraphBuilder builder("g");
  const auto message = [&](TensorType type) { return builder.add_input("x", std::move(type)).error().message; };
  EXPECT_EQ(message({ElementType::kF32, {Expr(-1)}}),
            "input x: f32[-1] has an extent that may be negative; give the dims bounds");
  EXPECT_EQ(message({ElementType::kF32, {Expr(int64_t{1} << 41)}}),
            "input x: f32[2199023255552] has an extent above 2^40");
  EXPECT_EQ(message({ElementType::kF32, {Expr::constexpr_ref(0)}}),
            "input x: the type has an extent that is too large, or of what is no dim");
  EXPECT_EQ(builder.add_dim({"n", 3, 5, 8}).error().message, "the dim n has no multiple between its bounds");
}

}  // namespace
}  // namespace kiln::graph
