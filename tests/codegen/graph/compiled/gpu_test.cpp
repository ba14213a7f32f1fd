// Plans whose kernels are compiled for GPUs and executed by emulators, beside the evaluator: the machine code of AMD's,
// and what is lowered for NVIDIA's, whose accesses and waits are looked at. Each graph at two sizes of its dims from
// one plan, with KILN_TEST_ALL at three: every op of the table, and random graphs. KILN_RANDOM_GRAPHS says how many of
// these there are, KILN_TEST_TARGETS=cuda:sm_90a for which processor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "amd_device.h"
#include "compiled_plan.h"
#include "graph/compare.h"
#include "graph/random_graph.h"
#include "harness.h"
#include "kiln/dsl/config.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/text.h"
#include "kiln/planner/plan_graph.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using graph::TensorOp;

uint64_t count_of(uint64_t usual) {
  const char* asked = std::getenv("KILN_RANDOM_GRAPHS");
  return asked ? std::strtoull(asked, nullptr, 10) : usual;
}

std::string target_of(uint64_t seed) {
  static constexpr const char* kProcessors[] = {"amd:gfx942", "amd:gfx1100", "amd:gfx90a", "amd:gfx1200",
                                                "amd:gfx906", "cuda:sm_90a", "amd:gfx950"};
  const char* wanted = std::getenv("KILN_TEST_TARGETS");
  if (wanted && std::ranges::find(kProcessors, std::string_view(wanted)) != std::end(kProcessors)) return wanted;
  return kProcessors[seed % std::size(kProcessors)];
}

// For an NVIDIA GPU its kernels get the configs of that, and are compiled for the emulator that is like it.
Result<graph::Plan> plan_for(const graph::Graph& graph, const std::string& target, bool fuse) {
  auto plan = planner::plan_graph({graph, target, {.fuse = fuse}});
  if (!plan || is_amd(target)) return plan;
  for (graph::PlannedKernel& each : plan->kernels) {
    auto config = dsl::complete_constexprs(each.kernel, each.constexprs, target);
    if (!config) return config.error();
    each.constexprs = std::move(*config);
  }
  plan->target = "gpu:like=sm_90a";
  return plan;
}

// "" where they agree, nothing where the evaluator refuses an index.
std::optional<std::string> difference_at(const graph::Plan& plan, const random_graph::Case& made, uint64_t seed) {
  const auto inputs = random_graph::inputs(made, seed);
  const auto expected = graph::evaluate(made.graph, inputs, made.sizes, {.check_indices = false});
  const auto wide = graph::evaluate(made.graph, inputs, made.sizes, {.check_indices = false, .wide = true});
  if (!expected || !wide) return std::nullopt;
  const auto actual =
      run_plan(plan, inputs, made.sizes, compiled_launches(plan, seed % 5 == 0 ? Code::kSpecial : Code::kGeneral));
  if (!actual) return actual.error().message;
  return difference(*actual, *expected, {.coarsest = coarsest_float(made.graph), .wide = *wide});
}

// Whether anything was checked. Fails the test where the plan gives other results than the evaluator.
bool check(const random_graph::Case& made, uint64_t seed, bool fuse = true) {
  const std::string target = target_of(seed);
  const auto plan = plan_for(made.graph, target, fuse);
  if (!plan) {
    ADD_FAILURE() << "seed " << seed << ": " << plan.error().message << "\n" << graph::print(made.graph);
    return true;
  }
  bool out = false;
  std::mt19937_64 random(seed);
  random_graph::Case sized = made;
  const int sizes = made.graph.dims.empty() ? 1 : runs_all_cases() ? 3 : 2;
  for (int i = 0; i < sizes; ++i) {
    if (i > 0) sized.sizes = random_graph::draw_sizes(made.graph, random);
    const auto wrong = difference_at(*plan, sized, seed);
    if (!wrong) continue;
    out = true;
    EXPECT_EQ(*wrong, "") << target << ", seed " << seed << random_graph::sizes_text(sized) << "\n"
                          << graph::print(made.graph);
    if (!wrong->empty()) break;
  }
  return out;
}

// A sixteenth of the table each.
class EveryOpOnGpu : public testing::TestWithParam<size_t> {};

TEST_P(EveryOpOnGpu, IsTheEvaluators) {
  const uint64_t wanted = std::min<uint64_t>(count_of(1), 20);
  for (size_t row = GetParam(); row < graph::op_table().size(); row += 16) {
    const TensorOp op = graph::op_table()[row].op;
    uint64_t checked = 0;
    for (uint64_t seed = row; seed < row + 20 + 8 * wanted && checked < wanted; ++seed) {
      random_graph::Options options{.nodes = 2, .kernels = op == TensorOp::kKernel, .first = {op}};
      options.may = [&](TensorOp other) {
        return other == op || graph::info(other).family == graph::Family::kElementwise || other == TensorOp::kReshape;
      };
      const auto made = random_graph::make(seed, options);
      ASSERT_TRUE(made) << made.error().message;
      if (check(*made, seed)) ++checked;
    }
    EXPECT_GT(checked, 0u) << graph::info(op).name << ": nothing was checked";
  }
}
INSTANTIATE_TEST_SUITE_P(Sixteen, EveryOpOnGpu, testing::Range<size_t>(0, 16));

class RandomGraphsOnGpu : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomGraphsOnGpu, AreTheEvaluators) {
  uint64_t checked = 0, tried = 0;
  for (uint64_t seed = GetParam(); seed < count_of(16); seed += 4, ++tried) {
    random_graph::Options options{.nodes = 3 + static_cast<int>(seed % 6), .bodies = seed % 4 == 3, .kernels = false};
    if (seed % 3 != 0) options.elements = {graph::f32, graph::i32, graph::i1};
    options.may = random_graph::is_comparable;
    const auto made = random_graph::make(seed, options);
    ASSERT_TRUE(made) << made.error().message;
    if (check(*made, seed, seed % 7 != 6)) ++checked;
  }
  EXPECT_GE(checked, tried / 2);
}
INSTANTIATE_TEST_SUITE_P(Four, RandomGraphsOnGpu, testing::Range<uint64_t>(0, 4));

// Lines that no tile holds, whose parts are put in order first, and sums over several blocks.
TEST(LongLinesOnAmd, AreTheEvaluators) {
  const auto graph = graph::parse(R"(graph lines(%x: f32[2, 5001], %y: i8[20001], %z: f32[3, 9001]) {
  %a, %i = sort %x {axis = 1, descending = 1} : f32[2, 5001], i64[2, 5001]
  %b, %j = topk %y {k = 50, axis = 0, largest = 1} : i8[50], i64[50]
  %c = reduce %z {kind = sum, axes = [1]} : f32[3]
  %d = reduce %z {kind = max, axes = [0]} : f32[9001]
  output a = %a
  output i = %i
  output b = %b
  output j = %j
  output c = %c
  output d = %d
})",
                                  "lines.kg");
  ASSERT_TRUE(graph) << graph.error().message;
  for (const uint64_t seed : {0, 1}) EXPECT_TRUE(check({*graph, {}}, seed));
}

// Several blocks of queries and of keys, and single queries whose rows are heads.
TEST(AttentionOnAmd, IsTheEvaluators) {
  const graph::Dim m = graph::dim("m", 1, 4096), n = graph::dim("n", 1, 4096);
  uint64_t seed = 0;
  for (const graph::ElementType type : {graph::f32, graph::bf16}) {
    const auto def = graph::graph(
        "heads",
        {graph::input("q", type, {2, m, 24}), graph::input("k", type, {n, 24}), graph::input("v", type, {n, 24})},
        [&](graph::Tensor q, graph::Tensor k, graph::Tensor v) {
          const auto shared = [&](const graph::Tensor& x) { return reshape(x, {1, 1, n, 24}); };
          return tanh(attention(reshape(q, {1, 2, m, 24}), shared(k), shared(v), {.causal = type == graph::bf16}));
        });
    ASSERT_TRUE(def.ir()) << def.ir().error().message;
    for (const auto& [queries, keys] : {std::pair(70, 150), std::pair(1, 200)}) {
      for (const char* target : {"amd:gfx942", "amd:gfx1100"}) {
        const auto plan = planner::plan_graph({*def.ir(), target, {}});
        ASSERT_TRUE(plan) << plan.error().message;
        EXPECT_EQ(plan->launches.size(), 1u);
        const auto wrong = difference_at(*plan, {*def.ir(), {{"m", queries}, {"n", keys}}}, ++seed);
        EXPECT_EQ(wrong, "") << target << ", " << queries << " queries of " << dsl::info(type).name;
      }
    }
  }
}

// Blocks as large as they come fit LDS, also where there are no units for the type and operands are widened.
TEST(ProductsOnAmd, OfLargeMatricesAreCompiled) {
  for (const graph::ElementType type : {graph::f16, graph::bf16}) {
    const auto def =
        graph::graph("product", {graph::input("x", type, {4096, 4096}), graph::input("w", type, {4096, 4096})},
                     [](graph::Tensor x, graph::Tensor w) { return linear(x, w); });
    ASSERT_TRUE(def.ir()) << def.ir().error().message;
    for (const std::string& target :
         sampled(std::vector<std::string>{"amd:gfx942", "amd:gfx1100", "amd:gfx90a", "amd:gfx906"}, 2)) {
      const auto plan = planner::plan_graph({*def.ir(), target, {}});
      ASSERT_TRUE(plan) << plan.error().message;
      const graph::PlannedKernel& each = plan->kernels[0];
      const auto config = dsl::complete_constexprs(each.kernel, each.constexprs, target);
      ASSERT_TRUE(config) << config.error().message;
      const auto code = compile(each.kernel, *config, graph::facts_of(*plan)[0], target);
      EXPECT_TRUE(code) << target << ", " << dsl::info(type).name << ": " << code.error().message;
    }
  }
}

// Blocks and warps are how a product is walked, not which sum it is.
TEST(ProductsOnAmd, HaveTheSameBitsInAnyConfig) {
  const dsl::ConstexprValues configs[] = {{{"BM", 32}, {"BN", 32}, {"BK", 32}, {"num_warps", 4}},
                                          {{"BM", 16}, {"BN", 64}, {"BK", 64}, {"num_warps", 2}},
                                          {{"BM", 64}, {"BN", 16}, {"BK", 16}, {"num_warps", 1}}};
  for (const graph::ElementType type : {graph::f32, graph::bf16}) {
    const auto def = graph::graph("product", {graph::input("x", type, {17, 300}), graph::input("w", type, {40, 300})},
                                  [](graph::Tensor x, graph::Tensor w) { return gelu(linear(x, w)); });
    ASSERT_TRUE(def.ir()) << def.ir().error().message;
    const auto inputs = random_graph::inputs({*def.ir(), {}}, 1);
    for (const char* target : sampled(std::vector<const char*>{"amd:gfx942", "amd:gfx1100"}, 1)) {
      auto plan = planner::plan_graph({*def.ir(), target, {}});
      ASSERT_TRUE(plan) << plan.error().message;
      ASSERT_EQ(plan->kernels.size(), 1u);
      std::vector<graph::Array> usual;
      for (const dsl::ConstexprValues& config : configs) {
        plan->kernels[0].constexprs = config;
        const auto result = run_plan(*plan, inputs, {}, compiled_launches(*plan));
        ASSERT_TRUE(result) << result.error().message;
        if (usual.empty()) usual = *result;
        EXPECT_TRUE(*usual[0].storage == *(*result)[0].storage) << target << ", BM " << config.at("BM");
      }
    }
  }
}

}  // namespace
}  // namespace kiln::test
