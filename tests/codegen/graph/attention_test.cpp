// Attention as one kernel: its forms against the evaluator, by the interpreter of tiles, and what it reads and writes.
#include <gtest/gtest.h>

#include "graph/compare.h"
#include "graph/random_graph.h"
#include "kiln/graph/decompose.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/text.h"
#include "kiln/planner/plan_graph.h"
#include "run_plan.h"

namespace kiln::test {
namespace {

using graph::AttentionOptions;
using graph::bf16;
using graph::Dim;
using graph::f16;
using graph::f32;
using graph::f64;
using graph::GraphDef;
using graph::i1;
using graph::i64;
using graph::input;
using graph::InputSpec;
using graph::Tensor;
using graph::Tensors;

using Sizes = std::map<std::string, int64_t>;

graph::Plan plan_of(const graph::Graph& graph, const std::string& target = "interp", graph::PlanOptions options = {}) {
  auto plan = planner::plan_graph({graph, target, std::move(options)});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan ? *plan : graph::Plan();
}

// "" where a plan computes what the evaluator does.
std::string check(const graph::Graph& graph, const graph::Plan& plan, const Sizes& sizes) {
  const auto inputs = random_graph::inputs({graph, sizes}, 1);
  const auto expected = graph::evaluate(graph, inputs, sizes);
  const auto wide = graph::evaluate(graph, inputs, sizes, {.wide = true});
  if (!expected || !wide) return "evaluator";
  const auto actual = run_plan(plan, inputs, sizes);
  if (!actual) return actual.error().message;
  return difference(*actual, *expected, {.coarsest = coarsest_float(graph), .wide = *wide});
}

void expect_right(const GraphDef& def, const Sizes& sizes, size_t launches) {
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  for (const char* target : {"interp", "cuda:sm_90a"}) {
    const graph::Plan plan = plan_of(*def.ir(), target);
    std::string log;
    for (const std::string& line : plan.log) log += line + "\n";
    EXPECT_EQ(plan.launches.size(), launches) << log;
    EXPECT_EQ(check(*def.ir(), plan, sizes), "") << target << "\n" << graph::print(*def.ir()) << log;
  }
}

struct Shape {
  Dim batch = 2, heads = 3, groups = 3, queries = 37, keys = 150, width = 16, values = 16;
};

std::vector<InputSpec> qkv(const Shape& s, dsl::ElementType type) {
  return {input("q", type, {s.batch, s.heads, s.queries, s.width}),
          input("k", type, {s.batch, s.groups, s.keys, s.width}),
          input("v", type, {s.batch, s.groups, s.keys, s.values})};
}

GraphDef plain(const Shape& shape, dsl::ElementType type, AttentionOptions options = {}) {
  return graph::graph("plain", qkv(shape, type),
                      [=](Tensor q, Tensor k, Tensor v) { return attention(q, k, v, options); });
}

GraphDef masked(const Shape& shape, dsl::ElementType type, InputSpec mask, AttentionOptions options = {}) {
  std::vector<InputSpec> inputs = qkv(shape, type);
  inputs.push_back(std::move(mask));
  return graph::graph("masked", inputs,
                      [=](Tensor q, Tensor k, Tensor v, Tensor m) { return attention(q, k, v, options, m); });
}

class AttentionOf : public testing::TestWithParam<dsl::ElementType> {};
INSTANTIATE_TEST_SUITE_P(Types, AttentionOf, testing::Values(f32, bf16, f16),
                         [](const auto& info) { return std::string(dsl::info(info.param).name); });

TEST_P(AttentionOf, AnyShape) {
  for (const Shape& shape :
       {Shape(), Shape{.heads = 6, .groups = 2}, Shape{.heads = 4, .groups = 1, .width = 5, .values = 9},
        Shape{.queries = 1, .keys = 70, .width = 40, .values = 24},
        Shape{.batch = 1, .heads = 1, .groups = 1, .queries = 1, .keys = 1, .width = 1, .values = 1},
        Shape{.batch = 1, .queries = 128, .keys = 128}, Shape{.queries = 5, .keys = 1},
        Shape{.queries = 70, .keys = 33, .width = 3, .values = 1}}) {
    expect_right(plain(shape, GetParam()), {}, 1);
  }
}

TEST_P(AttentionOf, PlacesThatAQuerySees) {
  for (const auto& [queries, keys] : {std::pair(70, 70), std::pair(37, 150), std::pair(150, 37), std::pair(1, 140)}) {
    const Shape shape{.batch = 1, .heads = 4, .groups = 2, .queries = queries, .keys = keys};
    for (const AttentionOptions& options :
         {AttentionOptions{.causal = true}, AttentionOptions{.window = 9},
          AttentionOptions{.causal = true, .window = 40}, AttentionOptions{.causal = true, .window = 1},
          AttentionOptions{.causal = true, .window = int64_t{1} << 40}}) {
      expect_right(plain(shape, GetParam(), options), {}, 1);
    }
  }
}

TEST_P(AttentionOf, AnyScale) {
  for (const double scale : {0.3, -0.7}) {
    expect_right(plain({.batch = 1, .queries = 20, .keys = 30}, GetParam(), {.scale = scale}), {}, 1);
  }
}

TEST_P(AttentionOf, MasksThatBroadcast) {
  using Extents = std::vector<Dim>;
  for (const Extents& extents : {Extents{2, 3, 37, 150}, Extents{2, 1, 1, 150}, Extents{3, 37, 150}, Extents{37, 1},
                                 Extents{150}, Extents{}, Extents{1, 3, 1, 1}}) {
    for (const dsl::ElementType element : {i1, GetParam()}) {
      for (const bool causal : {false, true}) {
        expect_right(masked({}, GetParam(), input("mask", element, extents), {.causal = causal}), {}, 1);
      }
    }
  }
}

// One query of each head: those that share keys are rows of one block.
TEST_P(AttentionOf, SingleQueriesOfGroups) {
  const Shape shape{.heads = 20, .groups = 2, .queries = 1};
  using Extents = std::vector<Dim>;
  for (const Extents& extents : {Extents{2, 20, 1, 150}, Extents{2, 1, 1, 150}, Extents{20, 1, 1}}) {
    for (const dsl::ElementType element : {i1, GetParam()}) {
      for (const int64_t window : {0, 20}) {
        expect_right(masked(shape, GetParam(), input("mask", element, extents), {.causal = true, .window = window}), {},
                     1);
      }
    }
  }
  const Dim n = graph::dim("n", 0, 4096), g = graph::dim("g", 1, 8);
  for (const int64_t keys : {0, 1, 70, 128}) {
    expect_right(plain({.heads = 4 * g, .groups = g, .queries = 1, .keys = n}, GetParam(), {.window = 3}),
                 {{"n", keys}, {"g", 2}}, 1);
  }
}

// Dims for all that may differ between two runs.
TEST_P(AttentionOf, SizesThatAreKnownWhenItRuns) {
  const Dim b = graph::dim("b", 1, 64), m = graph::dim("m", 1, 4096), n = graph::dim("n", 1, 4096),
            g = graph::dim("g", 1, 8);
  const Shape shape{.batch = b, .heads = 2 * g, .groups = g, .queries = m, .keys = n};
  for (const auto& [queries, keys] : {std::pair(1, 1), std::pair(64, 128), std::pair(65, 129), std::pair(100, 3)}) {
    const Sizes sizes{{"b", 2}, {"g", 2}, {"m", queries}, {"n", keys}};
    expect_right(plain(shape, GetParam()), sizes, 1);
    expect_right(plain(shape, GetParam(), {.causal = true}), sizes, 1);
    expect_right(masked(shape, GetParam(), input("mask", i1, {b, 1, 1, n}), {.window = 70}), sizes, 1);
  }
}

// [B, S, 3·H·D] of one product, heads beside each other in rows, and rows again as the result.
GraphDef split_heads(const Dim& batch, const Dim& places, dsl::ElementType type, bool turned) {
  return graph::graph("split_heads",
                      {input("qkv", type, {batch, places, 3 * 3 * 16}), input("r", type, {batch, places, 48})},
                      [=](Tensor qkv, Tensor r) {
                        const auto head = [&](int part) {
                          const Tensor own = qkv(graph::all, graph::all, graph::range(48 * part, 48 * (part + 1)));
                          return permute(reshape(own, {batch, places, 3, 16}), {0, 2, 1, 3});
                        };
                        const Tensor y = attention(head(0), head(1), head(2), {.causal = true});
                        return turned ? tanh(reshape(permute(y, {0, 2, 1, 3}), {batch, places, 48})) + r : y;
                      });
}

TEST_P(AttentionOf, HeadsAreReadAndWrittenWhereTheyLie) {
  const Dim b = graph::dim("b", 1, 64), s = graph::dim("s", 1, 4096);
  for (const bool turned : {false, true}) {
    expect_right(split_heads(2, 37, GetParam(), turned), {}, 1);
    expect_right(split_heads(b, s, GetParam(), turned), {{"b", 2}, {"s", 70}}, 1);
  }
}

// A mask that the graph makes of tokens and of a table is computed on the block of scores.
TEST(AttentionMasks, AreComputedWhereTheyAreRead) {
  std::vector<InputSpec> inputs = qkv({}, f32);
  inputs.push_back(input("tokens", i64, {2, 150}));
  inputs.push_back(input("table", f32, {10, 3}));
  inputs.push_back(input("far", i64, {37, 150}));
  const auto padded = graph::graph("padded", inputs, [](Tensors in) {
    return attention(in[0], in[1], in[2], {}, reshape(in[3] == 1, {2, 1, 1, 150}));
  });
  expect_right(padded, {}, 1);
  const auto biased = graph::graph("biased", inputs, [](Tensors in) {
    const Tensor bias = permute(embedding(in[4], in[5]), {2, 0, 1});
    const Tensor hidden = reshape(where(in[3] == 1, 0.0, -1e9), {2, 1, 1, 150});
    return attention(in[0], in[1], in[2], {.causal = true}, reshape(bias, {1, 3, 37, 150}) + hidden);
  });
  expect_right(biased, {}, 1);
  // What costs much and broadcasts is computed once.
  const auto dear = graph::graph("dear", inputs, [](Tensors in) {
    return attention(in[0], in[1], in[2], {}, reshape(log(cast(in[3], f32) + 2.0), {2, 1, 1, 150}));
  });
  expect_right(dear, {}, 2);
}

// What no kernel of scores can compute is there before: a product, a running sum.
TEST(AttentionMasks, MayComeFromOtherKernels) {
  std::vector<InputSpec> inputs = qkv({}, f32);
  inputs.push_back(input("places", f32, {37, 5}));
  inputs.push_back(input("tokens", i64, {2, 150}));
  const auto by_product = graph::graph("by_product", inputs, [](Tensors in) {
    return attention(in[0], in[1], in[2], {},
                     matmul(in[3], matmul(transpose(in[3]), reshape(in[0], {37, 96})))(graph::all, graph::range(0, 1)));
  });
  expect_right(by_product, {}, 3);
  const auto by_scan = graph::graph("by_scan", inputs, [](Tensors in) {
    return attention(in[0], in[1], in[2], {}, reshape(cumsum(in[4], 1) > 3, {2, 1, 1, 150}));
  });
  expect_right(by_scan, {}, 2);
}

// Rows that see nothing are 0, also where a mask says so by numbers; the least number hides less than -inf does.
TEST(AttentionMasks, MayHideAll) {
  for (const double low : {-double{INFINITY}, -3.4028234663852886e38, -1e9}) {
    std::vector<InputSpec> inputs = qkv({}, f32);
    inputs.push_back(input("tokens", i64, {2, 37}));
    const auto hidden = graph::graph("hidden", inputs, [&](Tensors in) {
      return attention(in[0], in[1], in[2], {}, reshape(where(in[3] == 0, low, 0.0), {2, 1, 37, 1}));
    });
    expect_right(hidden, {}, 1);
  }
}

// Rope is computed once, a cast where it is read, and what follows goes into the kernel.
TEST(AttentionOperands, AreComputedOnceOrWhereTheyAreRead) {
  const Shape shape{.queries = 37, .keys = 37};
  std::vector<InputSpec> inputs = qkv(shape, f32);
  inputs.push_back(input("cos", f32, {37, 8}));
  inputs.push_back(input("sin", f32, {37, 8}));
  const auto turned = graph::graph("turned", inputs, [](Tensors in) {
    return attention(rope(in[0], in[3], in[4]), in[1], in[2], {.causal = true}) * 2.0;
  });
  expect_right(turned, {}, 2);
  const auto cast_before = graph::graph("cast_before", qkv(shape, bf16), [](Tensor q, Tensor k, Tensor v) {
    return attention(cast(q, f32), cast(k, f32), cast(v, f32));
  });
  expect_right(cast_before, {}, 1);
  // A cache and what is new behind it.
  std::vector<InputSpec> cached = qkv({.queries = 2, .keys = 70}, f32);
  cached.push_back(input("k2", f32, {2, 3, 2, 16}));
  cached.push_back(input("v2", f32, {2, 3, 2, 16}));
  const auto decode = graph::graph("decode", cached, [](Tensors in) {
    return attention(in[0], graph::cat({in[1], in[3]}, 2), graph::cat({in[2], in[4]}, 2), {.causal = true});
  });
  expect_right(decode, {}, 1);
  // Who wants the heads apart has them too.
  const auto both = graph::graph("both", qkv(shape, f32), [](Tensor q, Tensor k, Tensor v) {
    const Tensor y = attention(q, k, v);
    return graph::Outputs{{"heads", y}, {"rows", reshape(permute(y, {0, 2, 1, 3}), {2, 37, 48})}};
  });
  expect_right(both, {}, 1);
  const auto transposed = graph::graph(
      "transposed", {input("q", f32, {2, 3, 16, 37}), input("k", f32, {2, 3, 16, 37}), input("v", f32, {2, 3, 16, 37})},
      [](Tensor q, Tensor k, Tensor v) {
        return transpose(attention(transpose(q), transpose(k), reverse(transpose(v), {2})));
      });
  expect_right(transposed, {}, 1);
}

size_t attentions(const graph::Plan& plan) {
  size_t out = 0;
  for (const graph::PlannedKernel& kernel : plan.kernels)
    out += kernel.kernel.name.find("attention") != std::string::npos;
  return out;
}

TEST(AttentionForms, OthersAreDecomposed) {
  const Dim d = graph::dim("d", 1, 64), h = graph::dim("h", 1, 8);
  const std::tuple<const char*, GraphDef, Sizes> others[] = {
      {"f64", plain({}, f64), {}},
      {"a width that is not known", plain({.width = d}, f32), {{"d", 9}}},
      {"wide values", plain({.batch = 1, .queries = 3, .keys = 5, .values = 300}, f32), {}},
  };
  for (const auto& [name, def, sizes] : others) {
    ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
    const graph::Plan plan = plan_of(*def.ir());
    EXPECT_EQ(attentions(plan), 0u) << name;
    EXPECT_GT(plan.launches.size(), 2u) << name;
    EXPECT_EQ(check(*def.ir(), plan, sizes), "") << name;
  }
}

// Not fused, or where its kernel cannot be compiled, it is what it is made of.
TEST(AttentionForms, GoApartAsPrimitives) {
  const GraphDef def = plain({}, f32);
  const graph::Plan whole = plan_of(*def.ir());
  ASSERT_EQ(attentions(whole), 1u);
  ASSERT_EQ(whole.launches.size(), 1u);
  for (const graph::PlanOptions& options :
       {graph::PlanOptions{.fuse = false}, graph::PlanOptions{.apart = whole.launches[0].ops}}) {
    const graph::Plan plan = plan_of(*def.ir(), "interp", options);
    EXPECT_EQ(attentions(plan), 0u);
    EXPECT_GT(plan.launches.size(), 2u);
    EXPECT_EQ(check(*def.ir(), plan, {}), "");
  }
}

// What comes as products and softmax is found; but not where the weights are wanted too.
TEST(AttentionForms, AreFoundInPrimitives) {
  for (const AttentionOptions& options : {AttentionOptions(), AttentionOptions{.causal = true}}) {
    const auto primitives = graph::decompose(*plain({}, f32, options).ir());
    ASSERT_TRUE(primitives.ok()) << primitives.error().message;
    const graph::Plan plan = plan_of(*primitives);
    EXPECT_EQ(plan.launches.size(), 1u);
    EXPECT_EQ(check(*primitives, plan, {}), "");
  }
  const auto weighed = graph::graph("weighed", qkv({}, f32), [](Tensor q, Tensor k, Tensor v) {
    const Tensor weights = softmax(matmul(q, transpose(k)) * 0.25, -1);
    return graph::Outputs{{"y", matmul(weights, v)}, {"weights", weights}};
  });
  ASSERT_TRUE(weighed.ir().ok()) << weighed.ir().error().message;
  const graph::Plan plan = plan_of(*weighed.ir());
  EXPECT_EQ(attentions(plan), 0u);
  EXPECT_EQ(check(*weighed.ir(), plan, {}), "");
}

// A gradient wants the weights: both are made of one softmax.
TEST(AttentionForms, AreDecomposedWhereAGradientIsToo) {
  const auto loss = graph::graph("loss", qkv({.keys = 37}, f32), [](Tensor q, Tensor k, Tensor v) {
    return sum(attention(q, k, v, {.causal = true}) * 0.1);
  });
  const auto both = graph::value_and_grad(loss, {"q", "k", "v"});
  ASSERT_TRUE(both.ir().ok()) << both.ir().error().message;
  const graph::Plan plan = plan_of(*both.ir());
  EXPECT_EQ(attentions(plan), 0u);
  const auto primitives = graph::decompose(*both.ir());
  ASSERT_TRUE(primitives.ok()) << primitives.error().message;
  EXPECT_EQ(plan.launches.size(), plan_of(*primitives).launches.size());
  EXPECT_EQ(check(*both.ir(), plan, {}), "");
}

// In a loop, whose body is planned by itself.
TEST(AttentionForms, AreKeptInLoops) {
  const Shape shape{.queries = 20, .keys = 20};
  const auto looped = graph::graph("looped", qkv(shape, f32), [](Tensor q, Tensor k, Tensor v) {
    const auto done = graph::loop(
        100'000, {q}, {}, [&](Tensors carried, Tensors) { return graph::LoopStep{{attention(carried[0], k, v)}, {}}; });
    return done.carried[0];
  });
  ASSERT_TRUE(looped.ir().ok()) << looped.ir().error().message;
  EXPECT_EQ(attentions(plan_of(*looped.ir())), 1u);
}

}  // namespace
}  // namespace kiln::test
