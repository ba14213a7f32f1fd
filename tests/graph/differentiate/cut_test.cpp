// Joint graphs cut in two: both halves together are the whole, within the budget, and least.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "differentiate/differences.h"
#include "differentiate/max_flow.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/verify.h"

namespace kiln::graph::test {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Graph made(const GraphDef& def) {
  EXPECT_TRUE(def.ir()) << def.ir().error().message;
  return *def.ir();
}

Cut cut_of(const Graph& graph, const std::vector<std::string>& wanted, const CutOptions& options = {}) {
  auto cut = cut_vjp(graph, wanted, options);
  EXPECT_TRUE(cut) << cut.error().message;
  return cut ? *cut : Cut();
}

// What the halves give one after the other is what vjp gives.
void check_halves(const std::string& what, const Graph& graph, const std::vector<Array>& inputs, const Sizes& sizes,
                  const std::vector<std::string>& wanted, const CutOptions& options, std::mt19937& random) {
  auto whole = vjp(graph, wanted);
  ASSERT_TRUE(whole) << what;
  const Cut cut = cut_of(graph, wanted, options);
  ASSERT_FALSE(cut.forward.bodies.empty()) << what;
  for (const Graph* half : {&cut.forward, &cut.backward}) {
    auto fine = verify(*half);
    ASSERT_TRUE(fine) << what << ": " << fine.error().message;
  }
  const size_t outputs = graph.main().outputs.size();
  auto front = evaluate(cut.forward, inputs, sizes);
  ASSERT_TRUE(front) << what << ": " << front.error().message;
  ASSERT_EQ(front->size(), outputs + cut.saved.size()) << what;
  std::vector<Array> all = inputs, back_inputs(front->begin() + static_cast<ptrdiff_t>(outputs), front->end());
  for (size_t i = inputs.size(); i < whole->main().inputs.size(); ++i) {
    const TensorType& type = whole->type(whole->main(), whole->main().inputs[i].value);
    all.push_back(random_array(*whole, type, sizes, random, -1, 1));
    back_inputs.push_back(all.back());
  }
  auto expected = evaluate(*whole, all, sizes), back = evaluate(cut.backward, back_inputs, sizes);
  ASSERT_TRUE(expected) << what << ": " << expected.error().message;
  ASSERT_TRUE(back) << what << ": " << back.error().message;
  ASSERT_EQ(back->size(), wanted.size()) << what;
  for (size_t i = 0; i < expected->size(); ++i) {
    const Array& found = i < outputs ? (*front)[i] : (*back)[i - outputs];
    for (int64_t k = 0; k < found.count(); ++k) {
      ASSERT_EQ(found.bits(k), (*expected)[i].bits(k)) << what << ", output " << i << "[" << k << "]";
    }
  }
}

TEST(Cut, HalvesTogetherAreTheWhole) {
  for (const GradientCase& each : all_cases()) {
    std::mt19937 random(3);
    const Graph graph = case_graph(each);
    const Sizes all = {{"n", 3}, {"m", 2}};
    Sizes sizes;
    for (const DimInfo& dim : graph.dims) sizes[dim.name] = all.at(dim.name);
    const std::vector<Array> inputs = random_inputs(each, graph, sizes, random);
    check_halves(each.name, graph, inputs, sizes, float_inputs(graph), {}, random);
    CutOptions least;
    least.memory_budget = int64_t{1} << 40;
    check_halves(each.name + ", memory", graph, inputs, sizes, float_inputs(graph), least, random);
    if (HasFatalFailure()) return;
  }
}

// Three layers of elementwise functions between products.
Graph layers() {
  const Dim n = dim("n", 1, 4096);
  return made(graph("layers", {input("x", f32, {n, 64}), input("w", f32, {64, 64})}, [](Tensor x, Tensor w) {
    Tensor y = x;
    for (int i = 0; i < 3; ++i) y = sigmoid(sin(matmul(y, w))) * 2;
    return sum(y);
  }));
}

TEST(Cut, KeepsProductsAndComputesElementwiseOpsAgain) {
  const Cut cut = cut_of(layers(), {"x", "w"});
  EXPECT_THAT(cut.recomputed, Contains(StartsWith("sin at ")));
  EXPECT_THAT(cut.recomputed, Each(Not(StartsWith("dot"))));
  // The middle of 1 … 4096 is 64: three products of 64·64 f32, x and w beside.
  EXPECT_EQ(cut.saved_bytes, 3 * 64 * 64 * 4);
  EXPECT_THAT(cut.report(), HasSubstr("saved, 49152 bytes beside inputs and outputs:\n"));
  EXPECT_THAT(cut.report(), HasSubstr("f32[n, 64]  16384 bytes  "));
  EXPECT_THAT(cut.report(), HasSubstr("computed again, "));
  CutOptions larger;
  larger.sizes = {{"n", 128}};
  EXPECT_EQ(cut_of(layers(), {"x", "w"}, larger).saved_bytes, 3 * 128 * 64 * 4);
}

TEST(Cut, ABudgetIsKeptOrRefused) {
  // Softmax is computed again where the budget asks for it.
  const Graph graph =
      made(kiln::graph::graph("f", {input("x", f32, {64, 64}), input("w", f32, {64, 64})},
                              [](Tensor x, Tensor w) { return sum(softmax(sin(softmax(matmul(x, w))))); }));
  CutOptions options;
  const int64_t tensor = 64 * 64 * 4;
  options.memory_budget = 3 * tensor;
  const Cut roomy = cut_of(graph, {"x", "w"}, options);
  EXPECT_LE(roomy.saved_bytes, 3 * tensor);
  EXPECT_THAT(roomy.recomputed, Each(Not(StartsWith("softmax"))));
  options.memory_budget = tensor;
  const Cut tight = cut_of(graph, {"x", "w"}, options);
  EXPECT_EQ(tight.saved_bytes, tensor);
  EXPECT_THAT(tight.recomputed, Contains(StartsWith("softmax")));
  options.memory_budget = tensor - 1;
  auto refused = cut_vjp(graph, {"x", "w"}, options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("cut_vjp: a budget of 16383 bytes; 16384 must be kept: softmax at "));
}

TEST(Cut, RandomNumbersAreNeverDrawnAgain) {
  const Graph graph =
      made(kiln::graph::graph("f", {input("x", f32, {64}), input("w", f32, {64})},
                              [](Tensor x, Tensor w) { return sum(exp(x * w * uniform(1, 2, {64}))); }));
  const Cut cut = cut_of(graph, {"x", "w"});
  for (const Node& node : cut.backward.main().nodes) EXPECT_FALSE(info(node.op).has(kRandom)) << info(node.op).name;
}

// The product's gradient by w needs the last of a chain of sines: a few are computed again, many are not.
TEST(Cut, WeighsWhatIsComputedAgainAgainstWhatIsMoved) {
  const auto chain = [](int length) {
    return made(kiln::graph::graph("f", {input("x", f32, {64}), input("w", f32, {64})}, [&](Tensor x, Tensor w) {
      for (int i = 0; i < length; ++i) x = sin(x);
      return sum(x * w);
    }));
  };
  const Cut few = cut_of(chain(3), {"w"});
  EXPECT_EQ(few.saved_bytes, 0);
  EXPECT_EQ(few.recomputed.size(), 3u);
  const Cut many = cut_of(chain(20), {"w"});
  EXPECT_EQ(many.saved_bytes, 64 * 4);
  EXPECT_TRUE(many.recomputed.empty()) << many.report();
}

TEST(Cut, ErrorsNameDims) {
  CutOptions options;
  options.sizes = {{"m", 3}};
  auto cut = cut_vjp(layers(), {"x"}, options);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().message, "cut_vjp: there is no dim m");
}

// The flow against the least of all cuts, tried one by one.
TEST(MaxFlowTest, IsTheLeastCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    constexpr uint32_t kNodes = 7;
    std::vector<std::array<uint32_t, 3>> edges;
    MaxFlow flow(kNodes);
    for (uint32_t from = 0; from < kNodes; ++from) {
      for (uint32_t to = 0; to < kNodes; ++to) {
        if (from == to || random() % 2 == 0) continue;
        edges.push_back({from, to, static_cast<uint32_t>(random() % 10)});
        flow.add_edge(from, to, edges.back()[2]);
      }
    }
    const auto across = [&](const std::vector<bool>& side) {
      int64_t sum = 0;
      for (const auto& [from, to, capacity] : edges) sum += side[from] && !side[to] ? capacity : 0;
      return sum;
    };
    int64_t least = MaxFlow::kInfinite;
    for (uint32_t set = 0; set < (1u << (kNodes - 2)); ++set) {
      std::vector<bool> side(kNodes, false);
      side[0] = true;
      for (uint32_t i = 1; i + 1 < kNodes; ++i) side[i] = ((set >> (i - 1)) & 1) != 0;
      least = std::min(least, across(side));
    }
    EXPECT_EQ(flow.run(0, kNodes - 1), least);
    EXPECT_EQ(across(flow.source_side(0)), least);
  }
}

}  // namespace
}  // namespace kiln::graph::test
