// What has no gradient, in words and with its place; and what no gradient flows through.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "differentiate/differences.h"
#include "kiln/dsl/text.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/verify.h"

namespace kiln::graph::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string failure(const Result<Graph>& result) { return result ? "no error" : result.error().message; }
Graph made(const GraphDef& def) {
  EXPECT_TRUE(def.ir()) << def.ir().error().message;
  return *def.ir();
}

TEST(GradientErrors, OfWhatIsAskedFor) {
  const Graph graph = made(kiln::graph::graph("loss", {input("x", f32, {3}), input("ids", i32, {3})},
                                              [](Tensor x, Tensor ids) { return sum(x * cast(ids, f32)); }));
  EXPECT_EQ(failure(gradient(graph, {"z"})), "gradient: graph loss has no input z; it has x, ids");
  EXPECT_THAT(
      failure(gradient(graph, {"ids"})),
      MatchesRegex(
          ".*errors_test.cpp:[0-9]+:[0-9]+: gradient: input ids is i32\\[3\\], and only floats have gradients"));
  EXPECT_EQ(failure(vjp(graph, {"x", "x"})), "vjp: input x twice");
  EXPECT_EQ(failure(jvp(graph, {"y"})), "jvp: graph loss has no input y; it has x, ids");
  const GraphDef bad(invalid_argument("as it was"));
  EXPECT_EQ(grad(bad, {"x"}).ir().error().message, "as it was");
}

TEST(GradientErrors, OutputsThatAreNoScalars) {
  const Dim n = dim("n");
  const Graph vector = made(kiln::graph::graph("f", {input("x", f32, {n})}, [](Tensor x) { return sin(x); }));
  EXPECT_THAT(failure(gradient(vector, {"x"})),
              MatchesRegex(".*errors_test.cpp:[0-9]+:[0-9]+: gradient: output y is f32\\[n\\], not a scalar of floats; "
                           "take its sum or mean, or vjp\\(\\)"));
  const Graph number = made(kiln::graph::graph("f", {input("x", f32, {n})}, [](Tensor x) { return argmax(x, 0); }));
  EXPECT_THAT(failure(value_and_gradient(number, {"x"})), HasSubstr("output y is i64[], not a scalar of floats"));
  const Graph two = made(kiln::graph::graph("f", {input("x", f32, {n})}, [](Tensor x) { return Tensors{sum(x), x}; }));
  EXPECT_EQ(failure(gradient(two, {"x"})),
            "gradient: graph f has 2 outputs; value_and_gradient() takes the first, vjp() all");
  EXPECT_TRUE(value_and_gradient(two, {"x"}));
}

Result<dsl::Kernel> add_kernel() {
  std::ifstream file(std::string(KILN_SOURCE_DIR) + "/dsl/examples/vector_add.kiln");
  std::stringstream text;
  text << file.rdbuf();
  return dsl::parse(text.str(), "vector_add.kiln");
}

// y = x + z by a tile kernel, with or without a gradient.
Graph with_kernel(const KernelGradient& gradient) {
  const auto add = add_kernel();
  EXPECT_TRUE(add);
  const Dim n = dim("n", 1, 64);
  return made(kiln::graph::graph("f", {input("x", f32, {n}), input("z", f32, {n})}, [&](Tensor x, Tensor z) {
    return sum(kernel(add,
                      {KernelArgument::in(x * x), KernelArgument::in(z), KernelArgument::out(f32, {n}),
                       KernelArgument::number(n)},
                      gradient)[0] *
               z);
  }));
}

TEST(GradientErrors, KernelsWithoutAGradient) {
  EXPECT_THAT(
      failure(gradient(with_kernel({}), {"x"})),
      MatchesRegex(".*errors_test.cpp:[0-9]+:[0-9]+: kernel: @.* has no gradient; give one where the kernel is used"));
}

TEST(GradientErrors, KernelsInACombination) {
  const auto combine = [](Tensors l, Tensors r) {
    return kernel(add_kernel(), {KernelArgument::in(l[0]), KernelArgument::in(r[0]), KernelArgument::out(f32, {}),
                                 KernelArgument::number(1)});
  };
  const Graph graph = made(kiln::graph::graph(
      "f", {input("x", f32, {4})}, [&](Tensor x) { return reduce({x}, {zeros(f32, {})}, {0}, combine)[0]; }));
  EXPECT_THAT(failure(gradient(graph, {"x"})),
              MatchesRegex(".*errors_test.cpp:[0-9]+:[0-9]+: reduce_custom: its gradient: .*errors_test.cpp:[0-9]+:"
                           "[0-9]+: kernel: @.* has no gradient; give one where the kernel is used"));
}

// Of no elements the result is the init.
TEST(Gradients, OfCustomReductionsOfNothing) {
  const Dim n = dim("n", 0, 8);
  const Graph graph =
      made(kiln::graph::graph("f", {input("x", f32, {n, 2}), input("init", f32, {})}, [](Tensor x, Tensor init) {
        const auto times = [](Tensors l, Tensors r) { return Tensors{l[0] * r[0]}; };
        return sum(reduce({x}, {init}, {0}, times)[0]) + sum(scan({x}, 0, times)[0]);
      }));
  auto both = gradient(graph, {"x", "init"});
  ASSERT_TRUE(both) << both.error().message;
  auto verified = verify(*both);
  ASSERT_TRUE(verified) << verified.error().message;
  auto none = evaluate(*both, std::vector{own(f32, {0, 2}), array_of(f32, {}, {3})});
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_EQ((*none)[0].shape, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ((*none)[1].number(0), 2);
  auto one = evaluate(*both, std::vector{array_of(f32, {1, 2}, {5, 7}), array_of(f32, {}, {3})});
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ((*one)[0].number(1), 3 + 1);
  EXPECT_EQ((*one)[1].number(0), 5 + 7);
}

TEST(Gradients, OfKernelsAsTheirAuthorsSay) {
  const Graph graph = with_kernel([](const Tensors&, const Tensors&, const Tensors& g) { return Tensors{g[0], g[0]}; });
  auto both = gradient(graph, {"x", "z"});
  ASSERT_TRUE(both) << both.error().message;
  ASSERT_TRUE(verify(*both)) << verify(*both).error().message;
  const std::vector<Array> inputs = {array_of(f32, {2}, {2, 3}), array_of(f32, {2}, {10, -1})};
  auto values = evaluate(*both, inputs);
  ASSERT_TRUE(values) << values.error().message;
  // sum((x² + z)·z): 2x·z and x² + 2z.
  EXPECT_EQ((*values)[0].number(0), 40);
  EXPECT_EQ((*values)[0].number(1), -6);
  EXPECT_EQ((*values)[1].number(0), 24);
  EXPECT_EQ((*values)[1].number(1), 7);
}

// The gradient by x of the sum of a function is a `full` of zeros.
void expect_none(const std::string& what, const std::function<Tensor(Tensor)>& function) {
  const Graph graph =
      made(kiln::graph::graph("f", {input("x", f32, {4})}, [&](Tensor x) { return sum(cast(function(x), f32)); }));
  auto result = gradient(graph, {"x"});
  ASSERT_TRUE(result) << what << ": " << result.error().message;
  const Body& main = result->main();
  ASSERT_EQ(main.nodes.size(), 1u) << what;
  EXPECT_EQ(main.nodes[0].op, TensorOp::kFull) << what;
  EXPECT_EQ(std::get<Literal>(result->attrs(main.nodes[0])[2]).bits, 0u) << what;
}

TEST(Gradients, ThatDoNotFlowAreZeros) {
  expect_none("another input", [](Tensor x) { return zeros_like(x); });
  expect_none("stop_gradient", [](Tensor x) { return stop_gradient(x * x); });
  expect_none("floor", [](Tensor x) { return floor(x); });
  expect_none("sign", [](Tensor x) { return sign(x); });
  expect_none("comparisons", [](Tensor x) { return x < 0; });
  expect_none("ints", [](Tensor x) { return cast(x, i32); });
  expect_none("bits", [](Tensor x) { return bitcast(x, i32); });
  expect_none("places", [](Tensor x) { return argmax(x, 0); });
  expect_none("order", [](Tensor x) { return sort(x, 0).second; });
}

// A gradient is given for what does not move, though it reads what does: nothing of it is kept, and nothing goes back.
TEST(Gradients, StopAtALoopThatDoesNotMove) {
  const Graph graph =
      made(kiln::graph::graph("f", {input("h", f32, {2}), input("x", f32, {2})}, [](Tensor h, Tensor x) {
        const auto step = [&](const Tensors& carried, const Tensors&) {
          return LoopStep{{floor(carried[0] + floor(x))}, {}};
        };
        return loop(3, {floor(h)}, {}, step).carried[0];
      }));
  const auto back = vjp(graph, {"h", "x"});
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(verify(*back)) << verify(*back).error().message;
  for (const Node& node : back->main().nodes) EXPECT_TRUE(node.op != TensorOp::kLoop || node.result_count == 1);
}

// What is carried into each pass is kept where the way back reads it.
TEST(Gradients, LoopsKeepWhatIsRead) {
  const auto results = [](const std::function<Tensor(Tensor, Tensor)>& next) {
    const Dim n = dim("n", 1, 64);
    const Graph graph =
        made(kiln::graph::graph("f", {input("h", f32, {2}), input("xs", f32, {n, 2})}, [&](Tensor h, Tensor xs) {
          const auto step = [&](const Tensors& carried, const Tensors& slices) {
            return LoopStep{{next(carried[0], slices[0])}, {}};
          };
          return sum(loop(n, {h}, {xs}, step).carried[0]);
        }));
    auto both = value_and_gradient(graph, {"h", "xs"});
    EXPECT_TRUE(both) << both.error().message;
    EXPECT_TRUE(verify(*both)) << verify(*both).error().message;
    std::vector<uint32_t> out;
    for (const Node& node : both->main().nodes) {
      if (node.op == TensorOp::kLoop) out.push_back(node.result_count);
    }
    return out;
  };
  // Forward: what is carried, and what is kept of it. Back: the gradients by h and by xs.
  EXPECT_THAT(results([](Tensor h, Tensor x) { return h * 2 + x; }), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(results([](Tensor h, Tensor x) { return h * x; }), ::testing::ElementsAre(2, 2));
}

TEST(Gradients, KeepDonationsAndLocations) {
  const Graph graph = made(trace("step", {donated("w", f32, {3}, "next"), input("x", f32, {3})}, [](Tensors t) {
    const Tensor loss = sum(t[0] * t[1]);
    return Outputs{{"loss", loss}, {"next", t[0] * 0.5}};
  }));
  auto both = value_and_gradient(graph, {"w"});
  ASSERT_TRUE(both);
  const Body& main = both->main();
  ASSERT_EQ(main.outputs.size(), 3u);
  EXPECT_EQ(main.outputs[2].name, "d_w");
  EXPECT_EQ(main.inputs[0].donated_to, 1u);
  for (const Node& node : main.nodes) EXPECT_NE(both->location_text(node.loc), "") << info(node.op).name;
  auto again = value_and_gradient(*both, {"w"});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->main().outputs.back().name, "d_w_2");
}

}  // namespace
}  // namespace kiln::graph::test
