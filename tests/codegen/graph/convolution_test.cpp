// Convolutions that are wide enough for blocks of products, forward and backward, in the order of axes that the planner
// gives them.
#include <gtest/gtest.h>

#include "check_plan.h"
#include "graph/convolutions.h"
#include "graph/random_graph.h"
#include "kiln/dsl/text.h"
#include "kiln/graph/differentiate.h"
#include "kiln/planner/plan_graph.h"

namespace kiln::test {
namespace {

using graph::ConvOptions;
using graph::f32;
using graph::GraphDef;
using graph::input;
using graph::Outputs;
using graph::Tensor;

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

INSTANTIATE_TEST_SUITE_P(All, Convolutions, testing::ValuesIn(convolutions()),
                         [](const auto& info) { return info.param.name; });

graph::Plan plan_of(const GraphDef& graph) {
  EXPECT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  auto plan = planner::plan_graph({*graph.ir(), "cpu", {}});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return *plan;
}

// What the plan computes is what the evaluator does.
void expect_evaluators(const GraphDef& graph) {
  ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  const random_graph::Case made{*graph.ir(), {}};
  EXPECT_EQ(check_plan(made.graph, random_graph::inputs(made, 1), {}, true), "");
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

// Images that are joined of more parts than are looked through.
TEST(ConvolutionPlan, OfManyPartsIsTheEvaluators) {
  const auto graph = graph::graph(
      "joined", {input("x", f32, {1, 16, 4, 5}), input("v", f32, {16, 16, 3, 3}), input("w", f32, {16, 160, 3, 3})},
      [](Tensor x, Tensor v, Tensor w) {
        const ConvOptions same{.low = {1, 1}, .high = {1, 1}};
        std::vector<Tensor> parts;
        for (int i = 0; i < 10; ++i) parts.push_back(conv(x * (0.1 * (i + 1)), v, same));
        return conv(graph::cat(parts, 1), w, same);
      });
  ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  expect_evaluators(graph);
}

// What the program holds as PyTorch does, channel by channel, is turned by blocks: rows as long as columns.
TEST(ConvolutionPlan, TurnsByBlocks) {
  const auto graph = graph::graph(
      "turned", {input("x", f32, {2, 40, 9, 20}), input("w", f32, {40, 40, 1, 1}), input("scale", f32, {40, 1, 1})},
      [](Tensor x, Tensor w, Tensor scale) { return conv(softmax(x * scale, 1), w); });
  const graph::Plan plan = plan_of(graph);
  const auto is_turned = [](const graph::PlannedKernel& kernel) {
    return print(kernel.kernel).find("permute") != std::string::npos;
  };
  EXPECT_TRUE(std::any_of(plan.kernels.begin(), plan.kernels.end(), is_turned)) << log_of(plan);
  expect_evaluators(graph);
}

// A filter a channel: channels side by side, of filters too, and rows enough to know where the image ends.
TEST(ConvolutionPlan, ByChannelGoesByRows) {
  const auto graph = graph::graph("by_channel",
                                  {input("x", f32, {8, 24, 7, 7}), input("v", f32, {600, 24, 1, 1}),
                                   input("w", f32, {600, 1, 5, 5}), input("u", f32, {16, 600, 1, 1})},
                                  [](Tensor x, Tensor v, Tensor w, Tensor u) {
                                    const ConvOptions same{.low = {2, 2}, .high = {2, 2}, .groups = 600};
                                    return conv(conv(relu(conv(x, v)), w, same), u);
                                  });
  const graph::Plan plan = plan_of(graph);
  const std::string log = log_of(plan);
  EXPECT_NE(log.find("reorder gives f32[600, 1, 5, 5]"), std::string::npos) << log;
  const auto has_rows = [](const graph::PlannedKernel& kernel) {
    return print(kernel.kernel).find("constexpr COLS = 256\n  constexpr ROWS = 16\n") != std::string::npos;
  };
  EXPECT_TRUE(std::any_of(plan.kernels.begin(), plan.kernels.end(), has_rows)) << log;
  // Small images pay for a copy too: each weight is read at every pixel.
  const graph::Plan small = plan_of(graph::graph("small",
                                                 {input("x", f32, {1, 24, 5, 5}), input("v", f32, {600, 24, 1, 1}),
                                                  input("w", f32, {600, 1, 5, 5}), input("u", f32, {16, 600, 1, 1})},
                                                 [](Tensor x, Tensor v, Tensor w, Tensor u) {
                                                   const ConvOptions same{.low = {2, 2}, .high = {2, 2}, .groups = 600};
                                                   return conv(conv(relu(conv(x, v)), w, same), u);
                                                 }));
  EXPECT_NE(log_of(small).find("reorder gives f32[600, 1, 5, 5]"), std::string::npos) << log_of(small);
  expect_evaluators(graph);
}

// Filters that are copied are read and written in lines: blocks that are turned, not nine steps apart.
TEST(ConvolutionPlan, CopiesOfFiltersGoByLines) {
  const auto graph = graph::graph("copies", {input("x", f32, {2, 40, 5, 6}), input("w", f32, {72, 40, 3, 3})},
                                  [](Tensor x, Tensor w) { return conv(tanh(x), w, {.low = {1, 1}, .high = {1, 1}}); });
  const graph::Plan plan = plan_of(graph);
  const auto is_turned = [](const graph::PlannedKernel& kernel) {
    const std::string text = print(kernel.kernel);
    return text.starts_with("kernel reorder") && text.find("permute") != std::string::npos;
  };
  EXPECT_TRUE(std::any_of(plan.kernels.begin(), plan.kernels.end(), is_turned)) << log_of(plan);
  expect_evaluators(graph);
}

// An image of one pixel: channels side by side, though the batch is all that a product has for rows.
TEST(ConvolutionPlan, OfOnePixelHasChannelsSideBySide) {
  const auto graph = graph::graph("squeezed",
                                  {input("x", f32, {2, 24, 6, 7}), input("v", f32, {48, 24, 3, 3}),
                                   input("w", f32, {16, 48, 1, 1}), input("u", f32, {48, 16, 1, 1})},
                                  [](Tensor x, Tensor v, Tensor w, Tensor u) {
                                    const Tensor y = conv(x, v, {.low = {1, 1}, .high = {1, 1}});
                                    return y * sigmoid(conv(relu(conv(mean(y, {2, 3}, true), w)), u));
                                  });
  const graph::Plan plan = plan_of(graph);
  EXPECT_NE(log_of(plan).find("gives f32[2, 48, 1, 1] with axes 0, 2, 3, 1"), std::string::npos) << log_of(plan);
  EXPECT_EQ(log_of(plan).find("gives f32[2, 48, 1, 1] with axes 2, 3, 1, 0"), std::string::npos) << log_of(plan);
  expect_evaluators(graph);
}

// Windows that are written out are no part of a norm, which would come by them three times, and do not lie as the
// image does: channels side by side, of the filters too.
TEST(ConvolutionPlan, WindowsBeforeANormAreAKernel) {
  for (const bool is_by_channel : {true, false}) {
    SCOPED_TRACE(is_by_channel ? "by channel" : "patches");
    const int64_t channels = is_by_channel ? 40 : 3;
    const auto graph =
        graph::graph("block",
                     {input("x", f32, {2, channels, 8, 8}), input("w", f32, {40, is_by_channel ? 1 : 3, 4, 4}),
                      input("scale", f32, {40}), input("shift", f32, {40})},
                     [&](Tensor x, Tensor w, Tensor scale, Tensor shift) {
                       const ConvOptions patches{.strides = {4, 4}, .groups = is_by_channel ? 40 : 1};
                       return layer_norm(permute(conv(x, w, patches), {0, 2, 3, 1}), scale, shift);
                     });
    const graph::Plan plan = plan_of(graph);
    const std::string log = log_of(plan);
    EXPECT_EQ(plan.launches.size(), 3u) << log;
    EXPECT_NE(log.find("gives f32[2, 40, 2, 2] with axes 0, 2, 3, 1"), std::string::npos) << log;
    EXPECT_NE(log.find(is_by_channel ? "reorder gives f32[40, 1, 4, 4]" : "reorder gives f32[40, 3, 4, 4]"),
              std::string::npos)
        << log;
    expect_evaluators(graph);
  }
}

// Nor are they part of what follows a product, or of a cat, through what only moves them.
TEST(ConvolutionPlan, WindowsBesideAProductAreAKernel) {
  const auto graph =
      graph::graph("positions",
                   {input("x", f32, {2, 16, 6, 7}), input("v", f32, {16, 1, 3, 3}), input("w", f32, {16, 1, 3, 3}),
                    input("a", f32, {84, 24}), input("b", f32, {24, 32})},
                   [](Tensor x, Tensor v, Tensor w, Tensor a, Tensor b) {
                     const ConvOptions same{.low = {1, 1}, .high = {1, 1}, .groups = 16};
                     const Tensor y = graph::cat({conv(x, v, same), conv(x, w, same)}, 1);
                     return matmul(a, b) + reshape(permute(y, {0, 2, 3, 1}), {84, 32});
                   });
  ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  const graph::Plan plan = plan_of(graph);
  const auto is_product_alone = [](const graph::PlannedKernel& kernel) {
    const std::string text = print(kernel.kernel);
    return text.starts_with("kernel dot_add") && text.find("%w") == std::string::npos;
  };
  EXPECT_TRUE(std::any_of(plan.kernels.begin(), plan.kernels.end(), is_product_alone)) << log_of(plan);
  expect_evaluators(graph);
}

// As in XCiT: one of the two would compute what the other gives for each of its windows.
TEST(ConvolutionPlan, WindowsOfWindowsAreTwoKernels) {
  const auto graph = graph::graph(
      "interaction", {input("x", f32, {2, 16, 6, 7}), input("v", f32, {16, 1, 3, 3}), input("w", f32, {16, 1, 3, 3})},
      [](Tensor x, Tensor v, Tensor w) {
        const ConvOptions same{.low = {1, 1}, .high = {1, 1}, .groups = 16};
        return conv(gelu(conv(x, v, same)), w, same);
      });
  for (const char* target : {"cpu", "cuda:sm_90a"}) {
    const auto plan = planner::plan_graph({*graph.ir(), target, {}});
    ASSERT_TRUE(plan) << plan.error().message;
    for (const graph::PlannedKernel& kernel : plan->kernels) {
      const std::string text = print(kernel.kernel);
      EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 1000) << kernel.kernel.name << " for " << target;
    }
  }
  expect_evaluators(graph);
}

// As in DenseNet: what is joined goes to memory part by part, by a kernel for each of two shapes, and lies as the
// convolution behind it likes.
TEST(ConvolutionPlan, JoinsPartsOfSeveralShapes) {
  const auto graph = graph::graph("dense",
                                  {input("x", f32, {2, 8, 5, 6}), input("v", f32, {16, 8, 3, 3}),
                                   input("w", f32, {16, 72, 3, 3}), input("scale", f32, {72, 1, 1})},
                                  [](Tensor x, Tensor v, Tensor w, Tensor scale) {
                                    const ConvOptions same{.low = {1, 1}, .high = {1, 1}};
                                    std::vector<Tensor> parts{x};
                                    for (int i = 0; i < 4; ++i) parts.push_back(conv(x * (0.3 * (i + 1)), v, same));
                                    return conv(relu(graph::cat(parts, 1) * scale), w, same);
                                  });
  ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  const graph::Plan plan = plan_of(graph);
  const std::string log = log_of(plan);
  const auto cats = std::count_if(plan.kernels.begin(), plan.kernels.end(), [](const graph::PlannedKernel& kernel) {
    return print(kernel.kernel).starts_with("kernel cat");
  });
  EXPECT_EQ(cats, 2) << log;
  EXPECT_NE(log.find("cat gives f32[2, 72, 5, 6] with axes 0, 2, 3, 1"), std::string::npos) << log;
  expect_evaluators(graph);
}

// A norm of groups of channels behind a convolution goes along the channels, and has lanes of a group to combine once.
TEST(ConvolutionPlan, GroupsOfChannelsLieSideBySide) {
  const auto graph = graph::graph(
      "groups", {input("x", f32, {2, 20, 6, 7}), input("v", f32, {40, 20, 3, 3}), input("w", f32, {16, 40, 3, 3})},
      [](Tensor x, Tensor v, Tensor w) {
        const ConvOptions same{.low = {1, 1}, .high = {1, 1}};
        return conv(relu(group_norm(conv(x, v, same), 4)), w, same);
      });
  const graph::Plan plan = plan_of(graph);
  const auto goes_along_channels = [](const graph::PlannedKernel& kernel) {
    const std::string text = print(kernel.kernel);
    return text.starts_with("kernel reduce_sum") && text.find("constexpr COLS = 16") != std::string::npos;
  };
  EXPECT_TRUE(std::any_of(plan.kernels.begin(), plan.kernels.end(), goes_along_channels)) << log_of(plan);
  expect_evaluators(graph);
}

// Of other kinds too.
TEST(ConvolutionPlan, ReducesGroupsOfChannelsByAnyKind) {
  const auto graph =
      graph::graph("kinds", {input("x", f32, {2, 20, 5, 6}), input("v", f32, {40, 20, 3, 3})}, [](Tensor x, Tensor v) {
        const Tensor y = graph::reshape(conv(x, v, ConvOptions{.low = {1, 1}, .high = {1, 1}}), {2, 8, 5, 5, 6});
        return Outputs{
            {"sum", sum(y, {2, 3, 4})}, {"most", reduce_max(y, {2, 3, 4})}, {"least", reduce_min(abs(y), {2, 3, 4})}};
      });
  ASSERT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  const random_graph::Case made{*graph.ir(), {}};
  EXPECT_EQ(check_plan(made.graph, random_graph::inputs(made, 5), {}, true), "");
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
