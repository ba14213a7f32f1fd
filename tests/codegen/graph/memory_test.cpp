// What of a plan lies in the arena: what GPUs keep between kernels, and in which order kernels run.
#include <gtest/gtest.h>

#include "kiln/graph/graph.h"
#include "kiln/planner/plan_graph.h"

namespace kiln::test {
namespace {

using graph::bf16;
using graph::f32;
using graph::Tensor;
using graph::Tensors;

int64_t arena_of(const graph::GraphDef& def, const std::string& target) {
  EXPECT_TRUE(def.ir()) << def.ir().error().message;
  const auto plan = planner::plan_graph({*def.ir(), target, {}});
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? plan->arena_bytes.as_constant().value_or(-1) : -1;
}

constexpr int64_t kRows = 512, kColumns = 1024, kElements = kRows * kColumns;

// Two groups read it, by rows and by columns: it is read from its source of half the size by each.
TEST(KeptValues, OfGpusAreWhatMovesLess) {
  const auto centred = graph::graph(
      "centred", {graph::input("x", bf16, {kRows, kColumns}), graph::input("m", f32, {kColumns})}, [](Tensors in) {
        const Tensor y = tanh(cast(in[0], f32) - in[1]) * 3.0;
        return graph::Outputs{{"rows", sum(y, {1})}, {"columns", sum(y, {0})}};
      });
  EXPECT_LT(arena_of(centred, "cuda:sm_90a"), 2 * kElements);
}

// Of four tensors, which three groups would read: their sum is a fourth of that.
TEST(KeptValues, OfGpusAreSumsOfMany) {
  const auto given = [](const char* name) { return graph::input(name, f32, {kRows, kColumns}); };
  const auto summed = graph::graph("summed", {given("a"), given("b"), given("c"), given("d")}, [](Tensors in) {
    const Tensor y = tanh(in[0] + in[1] + in[2] + in[3]);
    return graph::Outputs{{"rows", sum(y, {1})}, {"columns", sum(y, {0})}, {"all", reduce_max(y, {0, 1})}};
  });
  const int64_t arena = arena_of(summed, "cuda:sm_90a");
  EXPECT_GE(arena, 4 * kElements);
  EXPECT_LT(arena, 5 * kElements);
}

// A chain of products, of each of which something small is computed behind all of them: it is computed at once, and
// what it reads is free.
TEST(Groups, RunInAnOrderOfLittleMemory) {
  constexpr int64_t kLong = 4096, kWide = 64;
  const auto chain = graph::graph(
      "chain", {graph::input("x", f32, {kLong, kWide}), graph::input("w", f32, {kWide, kWide})}, [](Tensors in) {
        std::vector<Tensor> links{matmul(in[0], in[1])};
        for (int i = 0; i < 6; ++i) links.push_back(matmul(links.back(), in[1]));
        Tensor all = matmul(transpose(links[0]), links[0]);
        for (size_t i = 1; i < links.size(); ++i) {
          all = all + matmul(transpose(links[i]), links[i]);
        }
        return all;
      });
  for (const char* target : {"interp", "cuda:sm_90a"}) {
    EXPECT_LE(arena_of(chain, target), 3 * 4 * kLong * kWide) << target;
  }
}

}  // namespace
}  // namespace kiln::test
