// What becomes one kernel: programs with the count of launches of their plans, and the bytes that these move; beside
// them what TorchInductor's output code has for the same program, as tests/graph/pytorch/count_inductor.py counts it:
// PyTorch 2.12.1, on a CPU.
#include <gtest/gtest.h>

#include <limits>

#include "check_plan.h"
#include "graph/random_graph.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/text.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/graph.h"
#include "kiln/planner/plan_graph.h"

namespace kiln::test {
namespace {

using graph::bf16;
using graph::Dim;
using graph::f32;
using graph::GraphDef;
using graph::i8;
using graph::input;
using graph::Outputs;
using graph::Tensor;
using graph::Tensors;

struct Count {
  size_t launches;
  int64_t moved;  // bytes
};

struct Program {
  const char* name;
  GraphDef (*graph)();
  Count plan, inductor;
  bool moves_more = false;  // than Inductor: what is still to be done
};

graph::Plan plan_of(const GraphDef& graph, bool fuse = true) {
  EXPECT_TRUE(graph.ir().ok()) << graph.ir().error().message;
  auto plan = planner::plan_graph({*graph.ir(), "interp", {.fuse = fuse}});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return *plan;
}

constexpr int64_t kRows = 64, kColumns = 96;
constexpr int64_t kMatrix = kRows * kColumns * 4, kRow = kColumns * 4, kColumn = kRows * 4;

GraphDef chain() {
  return graph::graph("chain", {input("x", f32, {kRows, kColumns}), input("b", f32, {kColumns})},
                      [](Tensor x, Tensor b) { return tanh(exp(x + b) * 2.0) - 1.0; });
}
GraphDef turned() {
  return graph::graph("turned", {input("x", f32, {kRows, kColumns}), input("y", f32, {kColumns, kRows})},
                      [](Tensor x, Tensor y) { return exp(transpose(x)) + reverse(y, {0}); });
}
GraphDef softmax_rows() {
  return graph::graph("softmax_rows", {input("x", f32, {kRows, kColumns})}, [](Tensor x) { return softmax(x * 0.5); });
}
GraphDef long_rows() {
  return graph::graph("long_rows", {input("x", f32, {4, 100'000})}, [](Tensor x) { return softmax(x); });
}
GraphDef norm_of_sum() {
  return graph::graph("norm_of_sum",
                      {input("x", f32, {kRows, kColumns}), input("r", f32, {kRows, kColumns}),
                       input("w", f32, {kColumns}), input("b", f32, {kColumns})},
                      [](Tensor x, Tensor r, Tensor w, Tensor b) { return layer_norm(x + r, w, b); });
}
GraphDef norm_and_quantise() {
  return graph::graph("norm_and_quantise", {input("x", f32, {kRows, kColumns}), input("w", f32, {kColumns})},
                      [](Tensor x, Tensor w) {
                        const Tensor y = rms_norm(x, w);
                        const Tensor scale = reduce_max(abs(y), {1}, true) / 127.0;
                        return Outputs{{"q", cast(round(y / scale), i8)}, {"scale", scale}};
                      });
}
GraphDef column_sums() {
  return graph::graph("column_sums", {input("x", f32, {kRows, kColumns})}, [](Tensor x) { return sum(x * x, {0}); });
}
GraphDef layer() {
  return graph::graph(
      "layer", {input("x", f32, {kRows, kColumns}), input("w", f32, {kRows, kColumns}), input("b", f32, {kRows})},
      [](Tensor x, Tensor w, Tensor b) { return gelu(linear(x, w, b)); });
}
GraphDef layer_and_residual() {
  return graph::graph("layer_and_residual",
                      {input("x", bf16, {kRows, kColumns}), input("w", bf16, {kColumns, kColumns}),
                       input("r", bf16, {kRows, kColumns})},
                      [](Tensor x, Tensor w, Tensor r) { return linear(x, w) + r; });
}
// What norms and products want of each other has the type that was written, not that of f32 within.
GraphDef narrow_between() {
  return graph::graph("narrow_between",
                      {input("x", bf16, {kRows, kColumns}), input("w", bf16, {kColumns, kColumns}),
                       input("r", bf16, {kRows, kColumns}), input("g", bf16, {kColumns})},
                      [](Tensor x, Tensor w, Tensor r, Tensor g) { return linear(rms_norm(linear(x, w) + r, g), w); });
}
GraphDef two_of_one() {
  return graph::graph("two_of_one", {input("x", f32, {kRows, kColumns})},
                      [](Tensor x) { return Outputs{{"a", exp(x)}, {"b", x * 2.0}}; });
}
GraphDef adam() {
  return graph::graph("adam",
                      {input("p", f32, {kColumns}), input("g", f32, {kColumns}), input("m", f32, {kColumns}),
                       input("v", f32, {kColumns}), input("lr", f32, {}), input("t", f32, {})},
                      [](Tensors in) {
                        const auto step = adam_step(in[0], in[1], in[2], in[3], in[4], in[5]);
                        return Outputs{{"p2", step.param}, {"m2", step.m}, {"v2", step.v}};
                      });
}
GraphDef joined() {
  return graph::graph("joined", {input("x", f32, {kRows, kColumns}), input("y", f32, {kRows, kColumns})},
                      [](Tensor x, Tensor y) { return graph::cat({exp(x), y + 1.0}, 0); });
}
GraphDef looked_up() {
  return graph::graph(
      "looked_up",
      {input("table", f32, {1000, kColumns}), input("ids", graph::i64, {kRows}), input("b", f32, {kColumns})},
      [](Tensor table, Tensor ids, Tensor b) { return embedding(table, ids) * 2.0 + b; });
}
GraphDef sampled() {
  return graph::graph("sampled", {input("x", f32, {8, 50'257})}, [](Tensor x) {
    const auto [values, places] = graph::topk(x / 0.8, 50, 1);
    return Outputs{{"values", values}, {"places", places}};
  });
}
GraphDef bags() {
  return graph::graph(
      "bags",
      {input("s", f32, {1000, kColumns}), input("t", f32, {500, kColumns}), input("ids", graph::i64, {2, kRows, 4})},
      [](Tensor s, Tensor t, Tensor ids) {
        const Tensor starts = graph::arange(kRows) * 4;
        const auto of = [&](int64_t i) { return reshape(slice(ids, 0, i, i + 1), {kRows * 4}); };
        return Outputs{{"a", embedding_bag(s, of(0), starts)}, {"b", embedding_bag(t, of(1), starts)}};
      });
}

// Heads beside each other in the rows of one tensor, and in those of the result.
GraphDef heads_in_rows() {
  return graph::graph("heads_in_rows", {input("x", f32, {2, kRows, 3 * kColumns}), input("t", graph::i64, {2, kRows})},
                      [](Tensor x, Tensor t) {
                        const auto heads = [&](int part) {
                          const Tensor own =
                              x(graph::all, graph::all, graph::range(kColumns * part, kColumns * (part + 1)));
                          return permute(reshape(own, {2, kRows, 3, kColumns / 3}), {0, 2, 1, 3});
                        };
                        const Tensor seen = reshape(t != 0, {2, 1, 1, kRows});
                        const Tensor y = attention(heads(0), heads(1), heads(2), {.causal = true}, seen);
                        return reshape(permute(y, {0, 2, 1, 3}), {2, kRows, kColumns});
                      });
}
GraphDef attention_and_layer() {
  return graph::graph("attention_and_layer",
                      {input("q", f32, {2, 3, kRows, 32}), input("k", f32, {2, 3, kRows, 32}),
                       input("v", f32, {2, 3, kRows, 32}), input("w", f32, {kColumns, kColumns})},
                      [](Tensor q, Tensor k, Tensor v, Tensor w) {
                        return linear(reshape(permute(attention(q, k, v), {0, 2, 1, 3}), {2, kRows, kColumns}), w);
                      });
}

GraphDef quantised_layer() {
  return graph::graph(
      "quantised_layer",
      {input("x", f32, {kRows, kColumns}), input("q", i8, {kColumns, kColumns}), input("s", f32, {kColumns})},
      [](Tensor x, Tensor q, Tensor s) { return linear(x, dequantise(q, s, {}, f32, 0)); });
}
GraphDef layer_of_rows() {
  return graph::graph(
      "layer_of_rows",
      {input("table", f32, {1000, kColumns}), input("ids", graph::i64, {kRows}), input("w", f32, {kColumns, kColumns})},
      [](Tensor table, Tensor ids, Tensor w) { return linear(embedding(table, ids), w); });
}
GraphDef queries_keys_values() {
  const auto w = [](const char* name) { return input(name, f32, {kColumns, kColumns}); };
  return graph::graph(
      "queries_keys_values", {input("x", f32, {kRows, kColumns}), w("q"), w("k"), w("v")}, [](Tensors in) {
        return Outputs{{"q", linear(in[0], in[1])}, {"k", linear(in[0], in[2])}, {"v", linear(in[0], in[3])}};
      });
}
GraphDef layer_and_loss() {
  return graph::graph(
      "layer_and_loss",
      {input("x", f32, {kRows, kColumns}), input("w", f32, {1000, kColumns}), input("ids", graph::i64, {kRows})},
      [](Tensor x, Tensor w, Tensor ids) { return cross_entropy(linear(x, w), ids); });
}
GraphDef gradient_of_norm() {
  const auto norm = graph::graph("norm",
                                 {input("x", f32, {kRows, kColumns}), input("w", f32, {kColumns}),
                                  input("b", f32, {kColumns}), input("g", f32, {kRows, kColumns})},
                                 [](Tensor x, Tensor w, Tensor b, Tensor g) { return sum(layer_norm(x, w, b) * g); });
  return grad(norm, {"x", "w", "b"});
}
GraphDef sums_by_index() {
  return graph::graph(
      "sums_by_index",
      {input("x", f32, {kRows, kColumns}), input("ids", graph::i64, {kRows}), input("v", f32, {kRows, kColumns})},
      [](Tensor x, Tensor ids, Tensor v) { return index_put(x, {ids}, {0}, exp(v), graph::ScatterKind::kAdd); });
}
GraphDef padded() {
  return graph::graph("padded", {input("x", f32, {kRows, kColumns})},
                      [](Tensor x) { return graph::pad(exp(x), {1, 1}, {1, 1}); });
}
GraphDef result_and_sum() {
  return graph::graph("result_and_sum", {input("x", f32, {kRows, kColumns})}, [](Tensor x) {
    const Tensor y = exp(x);
    return Outputs{{"y", y}, {"sums", sum(y, {1})}};
  });
}

// Inductor counts the rows that are read of a table, a plan all of it: no bound.
constexpr int64_t kWholeTable = std::numeric_limits<int64_t>::max();

const Program kPrograms[] = {
    {"an elementwise chain with a broadcast", chain, {1, 2 * kMatrix + kRow}, {1, 49'536}},
    {"views of both operands", turned, {1, 3 * kMatrix}, {1, 73'728}},
    {"softmax of scaled rows", softmax_rows, {1, 2 * kMatrix}, {1, 49'152}},
    {"softmax of long rows", long_rows, {1, 2 * 4 * 100'000 * 4}, {3, 3'200'000}},
    {"layer norm of a sum", norm_of_sum, {1, 3 * kMatrix + 2 * kRow}, {4, 74'496}},
    {"rms norm, its largest, quantised", norm_and_quantise, {1, kMatrix + kRow + kMatrix / 4 + kColumn}, {4, 31'360}},
    {"column sums of squares", column_sums, {1, kMatrix + kRow}, {1, 24'960}},
    {"a layer with bias and gelu", layer, {1, 2 * kMatrix + kColumn + kRows * kRows * 4}, {2, 98'560}},
    {"a layer and a residual", layer_and_residual, {1, 3 * kMatrix / 2 + kColumns * kColumns * 2}, {1, 55'296}},
    {"a norm between two layers in bf16",
     narrow_between,
     {3, 7 * kMatrix / 2 + 4 * kColumns * kColumns + 2 * kColumns},
     {3, 123'072}},
    {"two results of one operand", two_of_one, {1, 3 * kMatrix}, {1, 73'728}},
    {"a step of Adam", adam, {1, 7 * kRow + 8}, {1, 2'696}},
    {"two parts of one result", joined, {1, 4 * kMatrix}, {2, 98'304}},
    {"attention of heads in rows", heads_in_rows, {1, 2 * 4 * kMatrix + 2 * kRows * 8}, {2, 263'168}},
    {"attention and a layer", attention_and_layer, {2, 2 * 6 * kMatrix + kColumns * kColumns * 4}, {3, 430'080}},
    {"the largest of what is computed", sampled, {1, 8 * 50'257 * 4 + 8 * 50 * 12}, {2, 4'829'472}},
    {"bags of two tables", bags, {1, 1500 * kRow + 2 * kRows * 4 * 8 + 2 * kMatrix}, {4, 635'392}},
    {"a layer of quantised weights",
     quantised_layer,
     {2, 2 * kMatrix + 9 * kColumns * kColumns + kColumns * 4},
     {2, 132'480}},
    {"a layer of a table's rows",
     layer_of_rows,
     {1, 1000 * kRow + kRows * 8 + kColumns * kColumns * 4 + kMatrix},
     {2, kWholeTable}},
    {"queries, keys and values", queries_keys_values, {3, 6 * kMatrix + 3 * kColumns * kColumns * 4}, {3, 258'048}},
    {"a layer and cross entropy",
     layer_and_loss,
     {3, kMatrix + 1000 * kRow + 2 * kRows * 4000 + 2 * kRows * 8 + 2 * kColumn + 4},
     {4, 1'178'140}},
    {"gradient of a norm", gradient_of_norm, {2, 6 * kMatrix + 3 * kRow}, {2, 125'056}, true},
    {"sums by index of what is computed", sums_by_index, {2, 4 * kMatrix + kRows * 8}, {2, 123'392}},
    {"padded", padded, {1, kMatrix + 66 * 98 * 4}, {1, 50'448}},
    {"a result and its sum", result_and_sum, {2, 3 * kMatrix + kColumn}, {2, 73'984}},
    {"rows of a table", looked_up, {1, 1000 * kRow + kRows * 8 + kRow + kMatrix}, {1, kWholeTable}},
};

class Fusion : public testing::TestWithParam<Program> {};

TEST_P(Fusion, LaunchesAndMovesNoMoreThan) {
  const graph::Plan plan = plan_of(GetParam().graph());
  std::string log;
  for (const std::string& line : plan.log) log += line + "\n";
  const auto& [launches, bytes] = GetParam().plan;
  EXPECT_EQ(plan.launches.size(), launches) << log;
  dsl::Expr moved;
  for (const graph::PlannedLaunch& launch : plan.launches) moved = moved + launch.moved;
  EXPECT_EQ(moved.as_constant(), bytes) << log;
  EXPECT_LE(launches, GetParam().inductor.launches);
  EXPECT_EQ(bytes > GetParam().inductor.moved, GetParam().moves_more);
  // A plan that fuses nothing needs at least as many.
  EXPECT_GE(plan_of(GetParam().graph(), false).launches.size(), plan.launches.size());
}
INSTANTIATE_TEST_SUITE_P(Table, Fusion, testing::ValuesIn(kPrograms), [](const auto& info) {
  std::string name = info.param.name;
  std::erase_if(name, [](char c) { return c == ',' || c == '\''; });
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

TEST(Plan, IsTheSameEachTime) {
  const graph::Plan a = plan_of(norm_of_sum()), b = plan_of(norm_of_sum());
  EXPECT_EQ(graph::encode_plan(a), graph::encode_plan(b));
}

TEST(Plan, HasOneKernelForLayersThatAreAlike) {
  const auto twice =
      graph::graph("twice",
                   {input("x", f32, {kRows, kColumns}), input("v", f32, {kColumns, kColumns}),
                    input("w", f32, {kColumns, kColumns})},
                   [](Tensor x, Tensor v, Tensor w) { return softmax(linear(softmax(linear(x, v)), w)); });
  const graph::Plan plan = plan_of(twice);
  EXPECT_EQ(plan.launches.size(), 4u);
  EXPECT_EQ(plan.kernels.size(), 2u);
}

TEST(Plan, UsesMemoryAgain) {
  // Of each product two live at once: what is read and what is written.
  const auto deep =
      graph::graph("deep", {input("x", f32, {kRows, kRows}), input("w", f32, {kRows, kRows})}, [](Tensor x, Tensor w) {
        for (int i = 0; i < 6; ++i) x = softmax(linear(x, w));
        return x;
      });
  const graph::Plan plan = plan_of(deep);
  EXPECT_EQ(plan.arena_bytes.as_constant(), 2 * kRows * kRows * 4);
}

TEST(Plan, IsForAllSizes) {
  const Dim n = graph::dim("n", 1, 4096);
  const auto rows = graph::graph("rows", {input("x", f32, {n, kColumns})}, [](Tensor x) { return softmax(x); });
  const graph::Plan plan = plan_of(rows);
  ASSERT_EQ(plan.launches.size(), 1u);
  EXPECT_FALSE(plan.launches[0].moved.as_constant());
  EXPECT_EQ(plan.kernels.size(), 1u);
}

TEST(Plan, WritesDonatedInputsInPlace) {
  const auto donate = [](const std::function<Outputs(Tensors)>& function) {
    return plan_of(graph::trace("step", {graph::donated("x", f32, {8, 8}, "y"), input("g", f32, {8, 8})}, function))
        .in_place;
  };
  const std::vector<uint32_t> first{0}, none{graph::kNone};
  EXPECT_EQ(donate([](Tensors in) { return Outputs{{"y", in[0] - in[1] * 0.1}}; }), first);
  // Elsewhere than it is written; and by a launch that comes behind.
  EXPECT_EQ(donate([](Tensors in) { return Outputs{{"y", transpose(in[0]) - in[1]}}; }), none);
  EXPECT_EQ(donate([](Tensors in) { return Outputs{{"y", linear(in[0], in[1])}}; }), none);
  // Of what is given back too the memory stays, and of two names of one value one is written there.
  const std::vector<uint32_t> neither{graph::kNone, graph::kNone}, the_first{0, graph::kNone};
  EXPECT_EQ(donate([](Tensors in) { return Outputs{{"y", in[0] - in[1] * 0.1}, {"z", in[0]}}; }), neither);
  EXPECT_EQ(donate([](Tensors in) {
              const Tensor next = in[0] - in[1] * 0.1;
              return Outputs{{"y", next}, {"z", next}};
            }),
            the_first);
}

// It was taken for one that lies in the plan, which no launch may write to.
TEST(Plan, WritesAConstantOfOneElementThatMustBeInMemory) {
  const auto given = graph::graph("given", {input("x", f32, {4})}, [](Tensor x) {
    return Outputs{{"c", graph::constant(f32, {1}, {2.5})}, {"y", x + 1.0}};
  });
  const graph::Plan plan = plan_of(given);
  EXPECT_TRUE(plan.constants.empty());
  const auto again = graph::decode_plan(graph::encode_plan(plan));
  EXPECT_TRUE(again.ok()) << again.error().message;
}

// A loop within eight others: plans count no deeper.
TEST(Plan, NamesTheOpThatHasNoKernel) {
  const Dim n = graph::dim("n", 1, 4096);
  const std::function<Tensor(Tensor, int)> nested = [&](Tensor x, int depth) {
    if (depth == 0) return x + 1.0;
    const auto out = graph::loop(
        n, {x}, {}, [&](Tensors carried, Tensors) { return graph::LoopStep{{nested(carried[0], depth - 1)}, {}}; });
    return out.carried[0];
  };
  const auto looped = graph::graph("looped", {input("x", f32, {4})}, [&](Tensor x) { return nested(x, 9); });
  ASSERT_TRUE(looped.ir().ok()) << looped.ir().error().message;
  const auto plan = planner::plan_graph({*looped.ir(), "interp", {}});
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("fusion_test.cpp:"), std::string::npos) << plan.error().message;
  EXPECT_NE(plan.error().message.find("`loop`"), std::string::npos) << plan.error().message;
}

// A GPU's default blocks: as large as they may be for each of its multiprocessors to have one.
TEST(Blocks, AreManyEnoughForAGpu) {
  const auto blocks = [](Dim m, int64_t n, int64_t k, dsl::ElementType type) {
    const graph::Plan plan =
        plan_of(graph::graph("product", {input("x", type, {std::move(m), k}), input("w", type, {n, k})},
                             [](Tensor x, Tensor w) { return linear(x, w); }));
    const auto& defaults = plan.kernels[0].kernel.target_defaults;
    const auto own = defaults.find(type == f32 ? "cuda" : "cuda:sm_90a");
    EXPECT_NE(own, defaults.end());
    return std::vector<int64_t>{own->second.at("BM"), own->second.at("BN"), own->second.at("BK")};
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(blocks(4096, 4096, 4096, bf16), (Sizes{128, 256, 64}));
  EXPECT_EQ(blocks(512, 2048, 8192, bf16), (Sizes{64, 128, 128}));
  EXPECT_EQ(blocks(128, 768, 3072, bf16), (Sizes{64, 64, 128}));
  EXPECT_EQ(blocks(1, 4096, 4096, bf16), (Sizes{16, 32, 128}));
  EXPECT_EQ(blocks(graph::dim("rows", 1, 4096), 2048, 2048, bf16), (Sizes{128, 256, 64}));
  EXPECT_EQ(blocks(128, 768, 3072, f32), (Sizes{32, 32, 32}));
  EXPECT_EQ(blocks(3, 5, 7, f32), (Sizes{16, 16, 16}));
}

// Many products of small matrices are sums of a few terms, element by element, and go into what follows.
TEST(Blocks, AreNotMadeForTinyProducts) {
  const auto graph =
      graph::graph("tiny", {input("a", f32, {70, 9, 7}), input("b", f32, {70, 7, 30}), input("c", f32, {70, 9, 30})},
                   [](Tensor a, Tensor b, Tensor c) { return relu(matmul(a, b) + c); });
  const graph::Plan plan = plan_of(graph);
  ASSERT_EQ(plan.launches.size(), 1u);
  EXPECT_EQ(print(plan.kernels[0].kernel).find(" dot "), std::string::npos);
  const random_graph::Case made{*graph.ir(), {}};
  EXPECT_EQ(check_plan(made.graph, random_graph::inputs(made, 1), {}, true), "");
  const graph::Plan larger =
      plan_of(graph::graph("larger", {input("a", f32, {70, 9, 40}), input("b", f32, {70, 40, 30})},
                           [](Tensor a, Tensor b) { return matmul(a, b); }));
  EXPECT_NE(print(larger.kernels[0].kernel).find(" dot "), std::string::npos);
}

// A CPU's: of one length each, so that none packs columns for a few rows.
TEST(Blocks, ComeOutEvenOnCpus) {
  const auto blocks = [](int64_t m, int64_t n, int64_t k) {
    const graph::Plan plan = plan_of(graph::graph("product", {input("x", f32, {m, k}), input("w", f32, {n, k})},
                                                  [](Tensor x, Tensor w) { return linear(x, w); }));
    const auto values = dsl::complete_constexprs(plan.kernels[0].kernel, {}, "cpu");
    EXPECT_TRUE(values.ok());
    return std::vector<int64_t>{values->at("BM"), values->at("BN"), values->at("BK")};
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(blocks(256, 2048, 512), (Sizes{128, 256, 256}));
  EXPECT_EQ(blocks(392, 2048, 512), (Sizes{98, 256, 256}));
  EXPECT_EQ(blocks(130, 640, 384), (Sizes{65, 320, 192}));
}

// Tensors that have nothing in common but their number of elements share kernels, and no kernel has too many.
TEST(Joined, NoKernelHasTooManyResults) {
  std::vector<graph::InputSpec> inputs;
  for (int i = 0; i < 40; ++i) inputs.push_back(input("x" + std::to_string(i), f32, {kColumns}));
  const graph::Plan plan = plan_of(graph::graph("many", inputs, [](Tensors xs) {
    Outputs out;
    for (size_t i = 0; i < xs.size(); ++i) out.push_back({"y" + std::to_string(i), exp(xs[i])});
    return out;
  }));
  EXPECT_EQ(plan.launches.size(), 4u);
  for (const graph::PlannedLaunch& launch : plan.launches) EXPECT_LE(launch.arguments.size(), 24u);
}

// Sums likewise, such as the gradients of many biases.
TEST(Joined, NoKernelHasTooManySums) {
  std::vector<graph::InputSpec> inputs;
  for (int i = 0; i < 40; ++i) inputs.push_back(input("x" + std::to_string(i), f32, {64, kColumns}));
  const graph::Plan plan = plan_of(graph::graph("many", inputs, [](Tensors xs) {
    Outputs out;
    for (size_t i = 0; i < xs.size(); ++i) out.push_back({"y" + std::to_string(i), sum(xs[i], graph::Axes{0})});
    return out;
  }));
  EXPECT_EQ(plan.launches.size(), 4u);
  for (const graph::PlannedLaunch& launch : plan.launches) EXPECT_LE(launch.arguments.size(), 24u);
}

// A product reads each element of an operand often: one that is put together of many parts is put together before.
TEST(Parts, OfACatOfManyAreNotLookedForInAProduct) {
  for (const auto& [parts, launches] : {std::pair(2, size_t{1}), std::pair(20, size_t{2})}) {
    std::vector<graph::InputSpec> inputs;
    for (int i = 0; i < parts; ++i) inputs.push_back(input("x" + std::to_string(i), f32, {4, kColumns}));
    const graph::Plan plan = plan_of(graph::graph("parts", inputs, [](Tensors xs) {
      const Tensor all = graph::cat(xs, 0);
      return matmul(all, transpose(all));
    }));
    EXPECT_EQ(plan.launches.size(), launches);
  }
}

}  // namespace
}  // namespace kiln::test
