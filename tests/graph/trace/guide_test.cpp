// The code of docs/use/graphs.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/graph/differentiate.h"
#include "trace/lines.h"

namespace kiln::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Guide, FirstGraph) {
  const Dim batch = dim("batch", 1, 4096);
  const auto mlp = graph("mlp", {input("x", f32, {batch, 784}), input("w", f32, {10, 784}), input("b", f32, {10})},
                         [](Tensor x, Tensor w, Tensor b) { return gelu(linear(x, w, b)); });
  EXPECT_THAT(output_types(mlp), ElementsAre("f32[batch, 10]"));
  EXPECT_THAT(output_types(compose(mlp, [](Tensor y) { return mean(square(y)); })), ElementsAre("f32[]"));
  const auto twice = graph("twice", {input("x", f32, {batch, 784}), input("w", f32, {10, 784}), input("b", f32, {10})},
                           [&](Tensor x, Tensor w, Tensor b) { return inline_graph(mlp, {x, w, b})[0] * 2; });
  EXPECT_THAT(output_types(twice), ElementsAre("f32[batch, 10]"));
}

TEST(Guide, Indices) {
  const Dim n = dim("n", 8, 64);
  const auto type = [&](const std::function<Tensor(Tensor, Tensor, Tensor)>& get) {
    const auto def = graph("g", {input("x", f32, {n, 8, 3}), input("ids", i64, {5}), input("place", i64, {})}, get);
    return output_types(def)[0];
  };
  EXPECT_EQ(type([](Tensor x, Tensor, Tensor) { return x(1); }), "f32[8, 3]");
  EXPECT_EQ(type([](Tensor x, Tensor, Tensor) { return x(rest, 0); }), "f32[n, 8]");
  EXPECT_EQ(type([](Tensor x, Tensor, Tensor) { return x(none); }), "f32[1, n, 8, 3]");
  EXPECT_EQ(type([](Tensor x, Tensor, Tensor) { return x(all, range(2, 8, 2)); }), "f32[n, 3, 3]");
  EXPECT_EQ(type([](Tensor x, Tensor, Tensor) { return reverse(x, {0}); }), "f32[n, 8, 3]");
  EXPECT_EQ(type([](Tensor x, Tensor ids, Tensor) { return x(ids); }), "f32[5, 8, 3]");
  EXPECT_EQ(type([](Tensor x, Tensor ids, Tensor) { return x(all, ids, 0); }), "f32[n, 5]");
  EXPECT_EQ(type([](Tensor x, Tensor, Tensor place) { return set_at(x, {all, place}, 0.5); }), "f32[n, 8, 3]");
  EXPECT_EQ(type([](Tensor x, Tensor ids, Tensor) { return set_at(x, {ids}, 1, ScatterKind::kAdd); }), "f32[n, 8, 3]");
  EXPECT_EQ(type([](Tensor x, Tensor, Tensor) { return where(x > 0, x, 0); }), "f32[n, 8, 3]");
}

TEST(Guide, Sizes) {
  const auto first_four = [](const Dim& n) {
    return graph("g", {input("x", f32, {n})}, [](Tensor x) { return x(range(0, 4)); });
  };
  EXPECT_THAT(error_text(first_four(dim("n", 1, 4096))),
              HasSubstr("slice: end of axis 0 of f32[n]: 4 <= n is not known for all sizes; give the dims bounds"));
  EXPECT_THAT(output_types(first_four(dim("n", 4, 4096))), ElementsAre("f32[4]"));
  const Dim n = dim("n");
  EXPECT_THAT(output_types(graph("g", {input("x", f32, {n})}, [&](Tensor x) { return sum(x) / n; })),
              ElementsAre("f32[]"));
}

TEST(Guide, Loop) {
  const Dim n = dim("n");
  const auto def = graph("g", {input("rows", f32, {n, 8}), input("w", f32, {8})}, [&](Tensor rows, Tensor w) {
    LoopStep done = loop(n, {zeros(f32, {8})}, {rows}, [&](Tensors carried, Tensors slices) {
      Tensor h = carried[0] + slices[0] * w;
      return LoopStep{{h}, {h}};
    });
    return Tensors{done.carried[0], done.stacked[0]};
  });
  EXPECT_THAT(output_types(def), ElementsAre("f32[8]", "f32[n, 8]"));
}

TEST(Guide, Gradients) {
  const Dim n = dim("n");
  const auto loss = graph("loss", {input("x", f32, {n, 8}), input("labels", i64, {n}), input("w", f32, {3, 8})},
                          [](Tensor x, Tensor labels, Tensor w) { return cross_entropy(linear(x, w), labels); });
  const auto both = value_and_grad(loss, {"w"});
  ASSERT_EQ(error_text(both), "");
  EXPECT_EQ(both.ir()->main().outputs[0].name, "y");
  EXPECT_EQ(both.ir()->main().outputs[1].name, "d_w");
  EXPECT_THAT(output_types(both), ElementsAre("f32[]", "f32[3, 8]"));
}

}  // namespace
}  // namespace kiln::graph
