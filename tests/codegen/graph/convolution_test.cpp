// Convolutions that are wide enough for blocks of products, forward and backward, in the order of axes that the planner
// gives them.
#include <gtest/gtest.h>

#include "check_plan.h"
#include "graph/random_graph.h"
#include "kiln/graph/differentiate.h"
#include "kiln/planner/plan_graph.h"

namespace kiln::test {
namespace {

using graph::ConvOptions;
using graph::Dim;
using graph::f32;
using graph::GraphDef;
using graph::input;
using graph::Shape;
using graph::Tensor;

struct Convolution {
  const char* name;
  Shape x, w;
  ConvOptions options = {};
};

const Convolution kConvolutions[] = {
    {"Plain", {2, 18, 5, 6}, {17, 18, 3, 3}},
    {"Padded", {2, 18, 5, 6}, {17, 18, 3, 3}, {.low = {1, 1}, .high = {1, 1}}},
    {"PaddedUnevenly", {1, 17, 4, 5}, {16, 17, 2, 3}, {.low = {0, 2}, .high = {1, 0}}},
    {"Strided", {2, 16, 7, 9}, {18, 16, 3, 3}, {.strides = {2, 2}, .low = {1, 1}, .high = {1, 1}}},
    {"Dilated", {1, 16, 8, 7}, {16, 16, 3, 2}, {.low = {2, 1}, .high = {2, 0}, .dilation = {2, 3}}},
    {"WithoutWindows", {3, 20, 5, 4}, {24, 20, 1, 1}},
    {"WithoutWindowsStrided", {2, 20, 5, 6}, {24, 20, 1, 1}, {.strides = {2, 3}}},
    {"OfFewChannels", {2, 3, 9, 8}, {20, 3, 5, 5}, {.strides = {2, 2}, .low = {2, 2}, .high = {2, 2}}},
    {"OfFewChannelsWrittenOut", {2, 3, 6, 5}, {18, 3, 3, 3}, {.low = {1, 1}, .high = {1, 1}}},
    {"ByChannel", {2, 19, 6, 5}, {19, 1, 3, 3}, {.low = {1, 1}, .high = {1, 1}, .groups = 19}},
    {"ByChannelStrided",
     {2, 19, 7, 8},
     {19, 1, 3, 2},
     {.strides = {2, 3}, .low = {1, 0}, .high = {1, 1}, .groups = 19}},
    {"InGroups", {2, 34, 5, 4}, {36, 17, 3, 3}, {.low = {1, 1}, .high = {1, 1}, .groups = 2}},
    {"OfLines", {2, 16, 11}, {18, 16, 4}, {.strides = {3}, .low = {2}, .high = {1}}},
    {"OfVolumes", {1, 16, 3, 4, 3}, {16, 16, 2, 3, 2}, {.low = {1, 1, 0}, .high = {0, 1, 1}}},
    {"Cropped", {1, 16, 7, 8}, {16, 16, 2, 2}, {.low = {-1, 0}, .high = {0, -2}}},
};

// A layer before it and one behind it: what lies between them may lie in any order.
GraphDef network(const Convolution& of, Dim batch, dsl::ElementType type) {
  Shape x = of.x;
  x[0] = std::move(batch);
  return graph::graph(
      "network",
      {input("x", type, x), input("w", type, of.w), input("scale", type, {of.x[1]}), input("bias", type, {of.w[0]})},
      [&](Tensor x, Tensor w, Tensor scale, Tensor bias) {
        Shape channels(of.x.size(), Dim(1));
        channels[1] = of.x[1];
        const Tensor before = x * reshape(scale, channels) + tanh(x);
        const Tensor y = conv(before, w, bias, of.options);
        return mean(square(y * 0.25)) + sum(y) * 0.01;
      });
}

class Convolutions : public testing::TestWithParam<Convolution> {};

TEST_P(Convolutions, AreTheEvaluators) {
  for (const dsl::ElementType type : {f32, graph::bf16}) {
    const GraphDef forward = network(GetParam(), GetParam().x[0], type);
    ASSERT_TRUE(forward.ir().ok()) << forward.ir().error().message;
    for (const bool backward : {false, true}) {
      if (backward && type != f32) continue;
      const GraphDef graph = backward ? value_and_grad(forward, {"x", "w", "scale", "bias"}) : forward;
      ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
      const random_graph::Case made{*graph.ir(), {}};
      const auto inputs = random_graph::inputs(made, 7);
      for (const std::string target : {"interp", "cuda:sm_90a"}) {
        EXPECT_EQ(check_plan(made.graph, inputs, {}, true, target), "") << target << (backward ? ", backward" : "");
      }
    }
  }
}

TEST_P(Convolutions, AreOneForAllBatches) {
  const GraphDef graph = network(GetParam(), graph::dim("n", 1, 64), f32);
  ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  for (const int64_t n : {1, 3}) {
    const random_graph::Case made{*graph.ir(), {{"n", n}}};
    EXPECT_EQ(check_plan(made.graph, random_graph::inputs(made, 3), made.sizes, true), "") << n;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Convolutions, testing::ValuesIn(kConvolutions),
                         [](const auto& info) { return info.param.name; });

graph::Plan plan_of(const GraphDef& graph) {
  EXPECT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  auto plan = planner::plan_graph({*graph.ir(), "cpu", {}});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return *plan;
}

std::string log_of(const graph::Plan& plan) {
  std::string out;
  for (const std::string& line : plan.log) out += line + "\n";
  return out;
}

// Bias, activation and residual behind two convolutions: a copy of each one's filters, and nothing else beside them.
TEST(ConvolutionPlan, HasChannelsSideBySide) {
  const graph::Plan plan = plan_of(graph::graph(
      "block", {input("x", f32, {2, 32, 8, 8}), input("v", f32, {32, 32, 3, 3}), input("w", f32, {32, 32, 3, 3})},
      [](Tensor x, Tensor v, Tensor w) {
        const ConvOptions same{.low = {1, 1}, .high = {1, 1}};
        const Tensor y = relu(conv(tanh(x), v, same));
        return relu(conv(y, w, same) + tanh(x));
      }));
  const std::string log = log_of(plan);
  EXPECT_EQ(plan.launches.size(), 5u) << log;
  EXPECT_NE(log.find("tanh gives f32[2, 32, 8, 8] with axes 0, 2, 3, 1"), std::string::npos) << log;
  EXPECT_NE(log.find("reorder gives f32[32, 32, 3, 3] with axes 2, 3, 1, 0"), std::string::npos) << log;
  // The two convolutions differ in what follows them; their filters' copies do not.
  EXPECT_EQ(plan.kernels.size(), 4u) << log;
}

// As rows of a product with nothing to look up: neither a copy nor an order.
TEST(ConvolutionPlan, WithoutWindowsIsAProduct) {
  const graph::Plan plan =
      plan_of(graph::graph("pixels", {input("x", f32, {2, 32, 8, 8}), input("w", f32, {48, 32, 1, 1})},
                           [](Tensor x, Tensor w) { return relu(conv(x, w)); }));
  EXPECT_EQ(plan.launches.size(), 1u) << log_of(plan);
}

// Without an image, reads are as before.
TEST(ConvolutionPlan, LeavesOthersAsTheyAre) {
  const graph::Plan plan =
      plan_of(graph::graph("heads", {input("x", f32, {2, 8, 64}), input("w", f32, {64, 64})}, [](Tensor x, Tensor w) {
        return permute(reshape(linear(x, w), {2, 8, 4, 16}), {0, 2, 1, 3}) * 2.0;
      }));
  EXPECT_EQ(log_of(plan).find("with axes"), std::string::npos) << log_of(plan);
}

}  // namespace
}  // namespace kiln::test
