// Tile kernels as nodes.
#include <fstream>
#include <sstream>

#include "evaluate/arrays.h"
#include "kiln/dsl/text.h"

namespace kiln::graph::evaluating {
namespace {

using enum ElementType;
using enum TensorOp;

// vector_add of the examples over reversed x and y, with `length` for its n.
Graph with_kernel(const std::function<Expr(Expr)>& length) {
  std::ifstream file(std::string(KILN_SOURCE_DIR) + "/dsl/examples/vector_add.kiln");
  std::stringstream text;
  text << file.rdbuf();
  auto add = dsl::parse(text.str(), "vector_add.kiln");
  EXPECT_TRUE(add) << add.error().message;
  Maker make;
  const Expr n = make.dim("n");
  using Kind = TileKernel::Argument::Kind;
  const TensorType type{kF32, {n}};
  TileKernel kernel{
      "add",
      *add,
      {{Kind::kOperand, 0, {}}, {Kind::kOperand, 1, {}}, {Kind::kResult, 0, {}}, {Kind::kScalar, 0, length(n)}},
      {type, type},
      {type},
      kNone};
  auto number = make.builder().add_kernel(std::move(kernel));
  EXPECT_TRUE(number) << number.error().message;
  const ValueId x = make.in("x", kF32, {n}), y = make.in("y", kF32, {n});
  const ValueId turned_x = make.op(kReverse, {x}, {std::vector<int64_t>{0}});
  make.out(make.op(kKernel, {turned_x, y}, {int64_t{*number}}));
  return make.take();
}

const std::vector<Array>& inputs() {
  static const std::vector<Array> arrays = {array_of(kF32, {3}, {1, 2, 3}), array_of(kF32, {3}, {10, 20, 30})};
  return arrays;
}

TEST(EvaluateKernel, RunsOnContiguousOperands) {
  const Graph graph = with_kernel([](Expr n) { return n; });
  EXPECT_EQ(shown(graph, inputs()), "f32[3]: 13 22 31");
  EXPECT_EQ(shown(graph, {turned(inputs()[0]), turned(inputs()[1])}), "f32[3]: 13 22 31");
  EXPECT_EQ(shown(graph, inputs(), {}, {.wide = true}), "f64[3]: 13 22 31");
}

TEST(EvaluateKernel, WhatIsNotWrittenIsZero) {
  EXPECT_EQ(shown(with_kernel([](Expr n) { return n - 1; }), inputs()), "f32[3]: 13 22 0");
}

TEST(EvaluateKernel, ErrorsNameTheNodeAndTheKernel) {
  const std::string outside = failure(with_kernel([](Expr n) { return n + 1; }), inputs());
  EXPECT_EQ(outside.find("model.cpp:2:1: kernel: `add`: "), 0u) << outside;
  EXPECT_NE(outside.find("index 3 is outside `x`, which has 3 elements"), std::string::npos) << outside;
  EXPECT_EQ(failure(with_kernel([](Expr n) { return n * (int64_t{1} << 40); }), inputs()),
            "model.cpp:2:1: kernel: `n` is 3298534883328, which is no i32");
}

// Code of the user's own is for compilers: here the ops run, and where there are none nothing does.
TEST(EvaluateKernel, CodeOfOnesOwnDoesNotRun) {
  Graph graph = with_kernel([](Expr n) { return n; });
  TileKernel& kernel = graph.kernels[0];
  kernel.kernel.constexprs.clear();
  kernel.codes = {{"cuda", {.form = dsl::CodeForm::kPtx, .text = "…"}}, {"cpu", {.text = "…"}}};
  kernel.kernel = dsl::declaration_of(kernel.kernel);
  EXPECT_EQ(failure(graph, inputs()),
            "model.cpp:2:1: kernel: `add` has code for cuda and cpu, and no ops that say what it computes");
}

}  // namespace
}  // namespace kiln::graph::evaluating
