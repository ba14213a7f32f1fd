// graph(), compose and inline_graph; dims; and the trace that passes open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/lines.h"
#include "trace/trace.h"

namespace kiln::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Dim n = dim("n", 1, 64);

std::vector<std::string> output_names(const Graph& graph) {
  std::vector<std::string> out;
  for (const Output& each : graph.main().outputs) out.push_back(each.name);
  return out;
}

std::vector<std::string> dim_names(const Graph& graph) {
  std::vector<std::string> out;
  for (const DimInfo& each : graph.dims) out.push_back(each.name);
  return out;
}

TEST(Graphs, TakeAndGiveInSeveralForms) {
  const auto names = [](auto function) {
    const auto def = graph("g", {input("x", f32, {n}), input("w", f32, {n})}, function);
    return def.ir() ? output_names(*def.ir()) : std::vector{error_text(def)};
  };
  EXPECT_THAT(names([](Tensor x, Tensor w) { return x + w; }), ElementsAre("y"));
  EXPECT_THAT(names([](const Tensor& x, const Tensor&) { return Tensors{x, x * 2}; }), ElementsAre("y0", "y1"));
  EXPECT_THAT(names([](Tensors all) { return all; }), ElementsAre("y0", "y1"));
  EXPECT_THAT(names([](Tensor x, Tensor w) { return Outputs{{"sum", x + w}, {"x", x}}; }), ElementsAre("sum", "x"));
  EXPECT_EQ(output_types(graph("none", {}, [] { return arange(4); })), std::vector<std::string>{"i64[4]"});
}

TEST(Graphs, HaveSourceLinesAndDonations) {
  const auto def = graph("step", {donated("state", f32, {n}, "next"), input("x", f32, {n})},
                         [](Tensor state, Tensor x) { return Outputs{{"loss", sum(x)}, {"next", state + x}}; });
  ASSERT_EQ(error_text(def), "");
  const Graph& graph = *def.ir();
  EXPECT_EQ(graph.main().inputs[0].donated_to, 1u);
  EXPECT_EQ(graph.main().inputs[1].donated_to, kNone);
  for (const Node& node : graph.main().nodes) {
    EXPECT_THAT(graph.location_text(node.loc), HasSubstr("graph_test.cpp:"));
  }
}

TEST(Graphs, DeclareTheDimsThatTheyUse) {
  const Dim rows = dim("rows", 1, 100, 4), columns = dim("columns");
  const Dim size = rows * columns + 1 + 0 * dim("unused");
  const auto def = graph("g", {input("x", f32, {columns}), input("y", f32, {size})},
                         [](Tensor x, Tensor y) { return Tensors{x, y(range(1, y.extent(0)))}; });
  ASSERT_EQ(error_text(def), "");
  EXPECT_THAT(output_types(def), ElementsAre("f32[columns]", "f32[columns*rows]"));
  EXPECT_EQ(def.ir()->dims[*def.ir()->find_dim("rows")], (DimInfo{"rows", 1, 100, 4}));
}

TEST(Graphs, ArithmeticOfDims) {
  const Dim a = dim("a"), b = dim("b");
  const auto text = [](const Dim& each) {
    const auto def = graph("g", {}, [&] { return extent(each); });
    return def.ir() ? attr_text(*def.ir(), {"value", AttrKind::kExpr, {}, {}}, def.ir()->attr_lists.back()[1]) : "";
  };
  EXPECT_EQ(text(a + b - a), "b");
  EXPECT_EQ(text((b + a) * 2 - b), "b + 2*a");
  EXPECT_EQ(text(b * (a / 2)), text((a / 2) * b));
  EXPECT_EQ(text(7 - Dim(3) * 2), "1");
  EXPECT_EQ(text(Dim(7) % 4 + Dim(9) / 2 + min(Dim(3), Dim(2)) + max(3, Dim(5)) + cdiv(Dim(9), 2)), "19");
}

// An extent that a graph gave is as good in another one.
TEST(Graphs, ExtentsMayLeaveTheirGraph) {
  Shape kept;
  const auto first = graph("first", {input("a", f32, {dim("k"), n, 3 * n})}, [&](Tensor a) {
    kept = {a.extent(-1), a.extent(1)};
    return a;
  });
  const auto second = graph("second", {input("x", f32, kept)}, [](Tensor x) { return x; });
  EXPECT_THAT(output_types(second), ElementsAre("f32[3*n, n]"));
  EXPECT_THAT(dim_names(*second.ir()), ElementsAre("n"));
}

TEST(Graphs, Compose) {
  const auto mlp = graph("mlp", {input("x", f32, {n, 4}), donated("w", f32, {8, 4}, "w2")},
                         [](Tensor x, Tensor w) { return Outputs{{"y", linear(x, w)}, {"w2", w * 0.9}}; });
  const auto loss = compose(mlp, [](Tensor y, Tensor w2) { return Outputs{{"loss", mean(square(y))}, {"w2", w2}}; });
  ASSERT_EQ(error_text(loss), "");
  const Graph& graph = *loss.ir();
  EXPECT_EQ(graph.main().name, "mlp");
  EXPECT_THAT(output_names(graph), ElementsAre("loss", "w2"));
  EXPECT_EQ(graph.main().inputs[1].donated_to, 1u);
  EXPECT_EQ(node_lines(loss).front(), "linear f32[n, 4], f32[8, 4], _ -> f32[n, 8]");
  const auto without = compose(mlp, [](Tensor y, Tensor) { return y; });
  ASSERT_EQ(error_text(without), "");
  EXPECT_EQ(without.ir()->main().inputs[1].donated_to, kNone);
  EXPECT_THAT(error_text(compose(mlp, [](Tensor y) { return y; })),
              HasSubstr("graph mlp: 2 tensors for a function that takes 1"));
  const auto bad = trace("bad", {input("x", f32, {n})}, [](Tensors in) { return Outputs{{"y", sum(in[0], {5})}}; });
  EXPECT_EQ(error_text(compose(bad, [](Tensor y) { return y; })), error_text(bad));
}

// Bodies, kernels and dims of the other graph come along.
TEST(Graphs, Inline) {
  const auto power = graph("power", {input("x", f32, {n})}, [](Tensor x) {
    return loop(3, {ones_like(x)}, {}, [&](Tensors c, Tensors) { return LoopStep{{c[0] * x}, {}}; }).carried[0];
  });
  const auto def = graph("g", {input("other", f32, {dim("k")}), input("x", f32, {n})}, [&](Tensor other, Tensor x) {
    return Tensors{other, inline_graph(power, inline_graph(power, {x}))[0]};
  });
  ASSERT_EQ(error_text(def), "");
  EXPECT_THAT(output_types(def), ElementsAre("f32[k]", "f32[n]"));
  EXPECT_EQ(node_lines(def).back(),
            "loop f32[n], f32[n] {body=@loop_2, carried=1, scanned=0, length=3, reverse=0} -> f32[n]");
}

// --- what passes do ---

TEST(PassTraces, WriteToTheOpenBodyWithALocation) {
  GraphBuilder builder("g");
  const ValueId x = *builder.add_input("x", {f32, {Expr(4)}});
  const Location here{builder.add_file("model.kg"), 7, 3};
  ValueId y = kNoValue;
  {
    Trace trace(builder, here);
    const Tensor t = trace.tensor(x);
    y = (t * sigmoid(t)).id();
    EXPECT_FALSE(trace.failed());
  }
  EXPECT_EQ(Trace::current(), nullptr);
  EXPECT_FALSE(builder.graph().main().nodes.empty());
  for (const Node& node : builder.graph().main().nodes) {
    EXPECT_EQ(builder.graph().location_text(node.loc), "model.kg:7:3");
  }
  EXPECT_EQ(builder.type(y).shape, std::vector<Expr>{Expr(4)});
  Trace trace(builder, here);
  EXPECT_EQ((trace.tensor(x) + cast(trace.tensor(x), i32)(0, 0)).id(), kNoValue);
  ASSERT_TRUE(trace.failed());
  EXPECT_EQ(trace.error().message, "model.kg:7:3: index: 2 indices for the 1 axes of i32[4]");
}

TEST(PassTraces, Nest) {
  GraphBuilder builder("g");
  const ValueId x = *builder.add_input("x", {f32, {}});
  Trace outer(builder, {});
  const Tensor t = outer.tensor(x);
  builder.open_body("inside");
  {
    Trace inner(builder, {});
    const Tensor y = inner.tensor(*builder.add_input("y", {f32, {}}));
    EXPECT_TRUE((y + 1).valid());
    EXPECT_FALSE((y + t).valid());
    EXPECT_THAT(inner.error().message, HasSubstr("add: a tensor of another graph"));
  }
  builder.close_body();
  EXPECT_EQ(Trace::current(), &outer);
  EXPECT_TRUE((t + 1).valid());
}

}  // namespace
}  // namespace kiln::graph
