// Bits that do not depend on the config: kernels of plans, compiled for this machine's CPU with other blocks than the
// plan's own.
#include <gtest/gtest.h>

#include <cstring>

#include "compile_once.h"
#include "graph/encoder_layer.h"
#include "graph/random_graph.h"
#include "kiln/client/graph.h"
#include "kiln/codegen/compile.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/walk.h"
#include "kiln/planner/plan_graph.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using graph::bf16;
using graph::f32;
using graph::GraphDef;
using graph::input;
using graph::Tensor;
using Bits = std::vector<std::vector<std::byte>>;  // by result

graph::Plan plan_of(const graph::Graph& graph) {
  auto plan = planner::plan_graph({graph, codegen::native_target(), {}});
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? *plan : graph::Plan();
}

dsl::ConstexprValues config_of(const graph::Plan& plan, const graph::PlannedKernel& kernel) {
  auto out = dsl::complete_constexprs(kernel.kernel, kernel.constexprs, plan.target);
  EXPECT_TRUE(out) << out.error().message;
  return out ? *out : dsl::ConstexprValues();
}

CompiledGraph compiled(const graph::Plan& plan) {
  std::vector<Artifact> code;
  const auto facts = graph::facts_of(plan);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    auto artifact = compile_once(plan.kernels[i].kernel, config_of(plan, plan.kernels[i]), facts[i], plan.target);
    EXPECT_TRUE(artifact) << artifact.error().message;
    if (!artifact) return {};
    code.push_back(std::move(*artifact));
  }
  auto fn = client::load_plan(plan, code);
  EXPECT_TRUE(fn) << fn.error().message;
  return fn ? *fn : CompiledGraph();
}

Bits run(const CompiledGraph& fn, std::span<const ArrayView> inputs, int threads) {
  auto results = fn(inputs, {.threads = threads});
  EXPECT_TRUE(results) << results.error().message;
  Bits out;
  if (!results) return out;
  for (const OwnedArray& each : *results) {
    const auto* data = static_cast<const std::byte*>(each.data());
    out.emplace_back(data, data + each.bytes());
  }
  return out;
}

std::vector<ArrayView> views_of(const std::vector<graph::Array>& arrays) {
  std::vector<ArrayView> out;
  for (const graph::Array& each : arrays) out.push_back(client::array(each));
  return out;
}

// One form of kernel. Where what is summed up has more elements than a block, other blocks along it are other sums: the
// constexpr of these, if it may be smaller than that.
struct Form {
  const char* name;
  GraphDef def;
  std::map<std::string, int64_t> sizes;
  std::string along = "";
};

std::vector<Form> forms() {
  const graph::Dim n = graph::dim("n", 1, 4096), s = graph::dim("s", 1, 100'000);
  const auto product = [&](graph::ElementType type) {
    return graph::graph("product", {input("x", type, {n, 700}), input("w", type, {90, 700}), input("b", type, {90})},
                        [](Tensor x, Tensor w, Tensor b) { return gelu(linear(x, w, b)); });
  };
  return {
      {"map",
       graph::graph("map", {input("x", f32, {n, 96}), input("b", f32, {96})},
                    [](Tensor x, Tensor b) { return tanh(exp(x + b) * 2.0); }),
       {{"n", 7}}},
      {"rows",
       graph::graph("rows", {input("x", bf16, {n, 300}), input("w", bf16, {300})},
                    [](Tensor x, Tensor w) { return softmax(rms_norm(x, w)); }),
       {{"n", 7}},
       "COLS"},
      {"long_rows",
       graph::graph("long_rows", {input("x", f32, {n, s})}, [](Tensor x) { return softmax(x); }),
       {{"n", 7}, {"s", 3001}},
       "COLS"},
      {"columns",
       graph::graph("columns", {input("x", f32, {n, 96})}, [](Tensor x) { return sum(x * x, {0}); }),
       {{"n", 301}},
       "ROWS"},
      {"product", product(f32), {{"n", 37}}},
      {"product_of_bf16", product(bf16), {{"n", 37}}},
      {"attention",
       graph::graph("attention",
                    {input("q", f32, {2, 3, n, 32}), input("k", f32, {2, 3, s, 32}), input("v", f32, {2, 3, s, 32})},
                    [](Tensor q, Tensor k, Tensor v) { return attention(q, k, v); }),
       {{"n", 37}, {"s", 300}},
       "BN"},
      {"scan",
       graph::graph("scan", {input("x", f32, {n, 300})}, [](Tensor x) { return cumsum(x, 1); }),
       {{"n", 7}},
       "ALONG"},
  };
}

// Of a kernel of a plan: one constexpr, and what it is otherwise.
struct Change {
  size_t kernel;
  std::string name;
  int64_t value, otherwise;
};

TEST(Configs, DoNotChangeBits) {
  for (const Form& form : forms()) {
    ASSERT_TRUE(form.def.ir()) << form.def.ir().error().message;
    const graph::Plan plan = plan_of(*form.def.ir());
    const auto arrays = random_graph::inputs({*form.def.ir(), form.sizes}, 1);
    const Bits usual = run(compiled(plan), views_of(arrays), 2);
    std::vector<Change> changes;
    for (size_t kernel = 0; kernel < plan.kernels.size(); ++kernel) {
      for (const auto& [name, value] : config_of(plan, plan.kernels[kernel])) {
        for (const int64_t other : {value / 4, value / 2, value * 2}) {
          if (name != form.along && other >= 1) changes.push_back({kernel, name, other, value});
        }
      }
    }
    EXPECT_FALSE(changes.empty()) << form.name;
    for (const auto& [kernel, name, other, value] : sampled(changes, 4)) {
      graph::Plan with_other = plan;
      with_other.kernels[kernel].constexprs[name] = other;
      EXPECT_EQ(run(compiled(with_other), views_of(arrays), 1), usual)
          << form.name << ", " << name << " = " << other << " in place of " << value;
    }
  }
}

// A block that rows of known extent must fit, to be summed up in one.
bool holds_rows(const dsl::Kernel& kernel, const std::string& name) {
  return name == "COLS" && dsl::any_op(kernel, [](const dsl::Op& op) { return op.code == dsl::OpCode::kReduce; });
}

// All blocks half as large or twice, but for those that would cut rows.
graph::Plan with_blocks(graph::Plan plan, bool larger) {
  for (graph::PlannedKernel& kernel : plan.kernels) {
    for (const auto& [name, value] : config_of(plan, kernel)) {
      if (larger || (value > 1 && !holds_rows(kernel.kernel, name))) {
        kernel.constexprs[name] = larger ? 2 * value : value / 2;
      }
    }
  }
  return plan;
}

// The same row, whatever the batch, the threads and the config.
TEST(Configs, BatchesAndThreadsDoNotChangeARow) {
  const auto def = encoder_layer();
  ASSERT_TRUE(def.ir()) << def.ir().error().message;
  const graph::Plan plan = plan_of(*def.ir());
  const random_graph::Case made{*def.ir(), {{"n", 64}, {"s", 21}}};
  const auto all = random_graph::inputs(made, 4);
  std::vector<std::byte> alone;
  for (const auto& [config, which] : {std::pair(plan, "its own"), std::pair(with_blocks(plan, false), "half"),
                                      std::pair(with_blocks(plan, true), "twice")}) {
    const CompiledGraph fn = compiled(config);
    for (const int64_t n : {1, 7, 64}) {
      std::vector<ArrayView> inputs = views_of(all);
      for (ArrayView& each : std::span(inputs).first(2)) each.shape[0] = n;  // the first rows of each
      for (const int threads : {1, 5, 16}) {
        Bits bits = run(fn, inputs, threads);
        ASSERT_EQ(bits.size(), 1u);
        bits[0].resize(21 * kEncoderWidth * sizeof(float));
        if (alone.empty()) alone = bits[0];
        EXPECT_EQ(bits[0], alone) << "batch " << n << ", " << threads << " threads, blocks: " << which;
      }
    }
  }
}

}  // namespace
}  // namespace kiln::test
