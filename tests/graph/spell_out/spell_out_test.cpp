// What is spelled out means what it meant: each op that can be, alone and among others, against the evaluator.
// KILN_RANDOM_GRAPHS says how many graphs of each (60).
#include "kiln/graph/spell_out.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "evaluate/arrays.h"
#include "graph/random_graph.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/text.h"
#include "kiln/graph/verify.h"

namespace kiln::graph::evaluating {
namespace {

using ::testing::HasSubstr;

uint64_t seeds() {
  const char* text = std::getenv("KILN_RANDOM_GRAPHS");
  return text == nullptr ? 60 : static_cast<uint64_t>(std::atoi(text));
}

bool all_nodes(const Graph&, const Body&, const Node&) { return true; }

std::vector<TensorOp> spelled_ops() {
  std::vector<TensorOp> out;
  for (const OpInfo& op : op_table()) {
    if (can_spell_out(op.op)) out.push_back(op.op);
  }
  return out;
}

int count_of(const Graph& graph, TensorOp op) {
  int out = 0;
  for (const Body& body : graph.bodies) {
    for (const Node& node : body.nodes) out += node.op == op ? 1 : 0;
  }
  return out;
}

// Loops stay whose length is a dim's, 0 or great; convolutions become products, which are not gone through again.
bool may_stay(const Graph& before, const Graph& graph, const Node& node) {
  if (node.op == TensorOp::kDot) {
    return count_of(before, TensorOp::kConv) + count_of(before, TensorOp::kConvInput) +
               count_of(before, TensorOp::kConvWeight) >
           0;
  }
  if (node.op != TensorOp::kLoop) return false;
  const auto length = expr_attr(graph.attrs(node), 3).as_constant();
  return !length || *length == 0 || *length > kLongestSpelled;
}

void expect_spelled(const Graph& before, const Graph& graph) {
  for (const Body& body : graph.bodies) {
    for (const Node& node : body.nodes) {
      EXPECT_TRUE(!can_spell_out(node.op) || may_stay(before, graph, node)) << info(node.op).name << "\n"
                                                                            << print(graph);
    }
  }
}

double largest(const Array& array) {
  double out = 1;
  for (int64_t i = 0; i < array.count(); ++i) out = std::max(out, std::fabs(array.number(i)));
  return out;
}

// A random graph with the op, spelled out: in f64, where another order of sums makes no difference to speak of.
void check(TensorOp op, uint64_t seed) {
  SCOPED_TRACE(info(op).name + ", seed " + std::to_string(seed));
  random_graph::Options options;
  options.nodes = static_cast<int>(seed % 3);
  options.first = {op};
  const auto made = random_graph::make(seed, options);
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_GE(count_of(made->graph, op), 1);
  const auto spelled = spell_out(made->graph, all_nodes);
  ASSERT_TRUE(spelled) << spelled.error().message << "\n" << print(made->graph);
  const auto fine = verify(*spelled);
  ASSERT_TRUE(fine) << fine.error().message << "\n" << print(made->graph) << print(*spelled);
  expect_spelled(made->graph, *spelled);
  const std::vector<Array> inputs = random_graph::inputs(*made, seed);
  const EvaluateOptions wide{.wide = true};
  const auto wanted = evaluate(made->graph, inputs, made->sizes, wide);
  const auto got = evaluate(*spelled, inputs, made->sizes, wide);
  ASSERT_TRUE(wanted) << wanted.error().message;
  ASSERT_TRUE(got) << got.error().message << "\n" << print(*spelled);
  ASSERT_EQ(got->size(), wanted->size());
  for (size_t i = 0; i < got->size(); ++i) {
    EXPECT_TRUE(near((*got)[i], (*wanted)[i], 1e-9, 1e-9 * largest((*wanted)[i])))
        << "output " << i << "\n  " << show((*got)[i]) << "\nnot " << show((*wanted)[i]) << "\n"
        << print(made->graph) << print(*spelled);
  }
}

TEST(SpellOut, EachOpMeansTheSame) {
  EXPECT_EQ(spelled_ops().size(), 12u);
  for (const TensorOp op : spelled_ops()) {
    for (uint64_t seed = 0; seed < seeds() && !HasFailure(); ++seed) check(op, seed);
  }
}

// No arithmetic changes there: bits stay, of special values too.
TEST(SpellOut, BodiesGiveTheSameBits) {
  for (const TensorOp op : {TensorOp::kCall, TensorOp::kCond, TensorOp::kLoop}) {
    for (uint64_t seed = 0; seed < seeds() && !HasFailure(); ++seed) {
      SCOPED_TRACE(info(op).name + ", seed " + std::to_string(seed));
      random_graph::Options options;
      options.nodes = 2;
      options.first = {op};
      const auto made = random_graph::make(1000 + seed, options);
      ASSERT_TRUE(made) << made.error().message;
      const auto spelled = spell_out(made->graph, [&](const Graph&, const Body&, const Node& node) {
        return node.op == TensorOp::kCall || node.op == TensorOp::kCond || node.op == TensorOp::kLoop;
      });
      ASSERT_TRUE(spelled) << spelled.error().message << "\n" << print(made->graph);
      const std::vector<Array> inputs = random_graph::inputs(*made, seed, {.percent_special = 20});
      const auto wanted = evaluate(made->graph, inputs, made->sizes), got = evaluate(*spelled, inputs, made->sizes);
      ASSERT_TRUE(wanted) << wanted.error().message;
      ASSERT_TRUE(got) << got.error().message << "\n" << print(*spelled);
      for (size_t i = 0; i < got->size(); ++i) {
        EXPECT_TRUE(same_bits((*got)[i], (*wanted)[i]))
            << "output " << i << "\n  " << show((*got)[i]) << "\nnot " << show((*wanted)[i]) << "\n"
            << print(made->graph) << print(*spelled);
      }
    }
  }
}

Graph graph_text(const std::string& text) {
  auto out = parse(text, "test.kg");
  EXPECT_TRUE(out) << out.error().message;
  return out ? *out : Graph();
}

// Both, of one output.
void expect_same(const std::string& text, const std::vector<Array>& inputs) {
  const Graph graph = graph_text(text);
  const auto spelled = spell_out(graph, all_nodes);
  ASSERT_TRUE(spelled) << spelled.error().message;
  const auto wanted = evaluate(graph, inputs), got = evaluate(*spelled, inputs);
  ASSERT_TRUE(wanted && got) << text;
  EXPECT_TRUE(near(got->front(), wanted->front(), 0, 0))
      << show(got->front()) << "\nnot " << show(wanted->front()) << "\n"
      << text;
}

// What is beyond the edges is no extreme, and NaN is one.
TEST(SpellOut, WindowsOfSpecialValues) {
  const double inf = INFINITY, nan = NAN;
  for (const std::string kind : {"max", "min", "sum"}) {
    const std::string window =
        "{kind = " + kind + ", size = [2], strides = [1], low = [1], high = [1], dilation = [1]}";
    for (const std::vector<double>& x : {std::vector<double>{-inf, -inf, 2, 3}, {inf, inf, -2, -0.0}, {nan, 1, 2, 3}}) {
      expect_same("graph g(%x: f32[4]) {\n  %0 = window %x " + window + " : f32[5]\n  output y = %0\n}\n",
                  {array_of(ElementType::kF32, {4}, x)});
      expect_same("graph g(%x: f32[4], %g: f32[5]) {\n  %0 = window_spread %x, %g " + window +
                      " : f32[4]\n  output y = %0\n}\n",
                  {array_of(ElementType::kF32, {4}, x), array_of(ElementType::kF32, {5}, {1, 2, 4, 8, 16})});
      if (kind == "sum") continue;
      expect_same(
          "graph g(%x: f32[4], %t: f32[4]) {\n  %0 = window_pick %x, %t " + window + " : f32[5]\n  output y = %0\n}\n",
          {array_of(ElementType::kF32, {4}, x), array_of(ElementType::kF32, {4}, {1, 2, 4, 8})});
    }
  }
}

TEST(SpellOut, OnlyWhatIsWanted) {
  const Graph graph = graph_text(R"(
graph g(%a: f32[2, 3], %b: f32[3, 4], %c: f32[4, 5]) {
  %0 = dot %a, %b {batch_a = [], batch_b = [], contract_a = [1], contract_b = [0], type = f32} : f32[2, 4]
  %1 = dot %0, %c {batch_a = [], batch_b = [], contract_a = [1], contract_b = [0], type = f32} : f32[2, 5]
  output y = %1
}
)");
  const auto spelled = spell_out(graph, [](const Graph& whole, const Body& body, const Node& node) {
    return whole.type(body, node.first_result).shape[1] == Expr(5);
  });
  ASSERT_TRUE(spelled) << spelled.error().message;
  EXPECT_EQ(count_of(*spelled, TensorOp::kDot), 1);
  EXPECT_EQ(count_of(*spelled, TensorOp::kMul), 4);  // the second: four terms, written out
  EXPECT_EQ(print(*spell_out(graph, [](const Graph&, const Body&, const Node&) { return false; })), print(graph));
}

// A loop of 64 passes is spelled out, one of 65 stays, as one of a dim's length does.
TEST(SpellOut, LoopsAsFarAsTheyAreShort) {
  const auto loop = [](const std::string& length) {
    return graph_text(
        "dim n: 1..8\n\nbody @step(%h: f32[]) {\n  %0 = add %h, %h : f32[]\n  output h = %0\n}\n\n"
        "graph g(%x: f32[], %s: f32[n]) {\n  %0 = loop %x {body = @step, carried = 1, scanned = 0, "
        "length = " +
        length + "} : f32[]\n  output y = %0\n  output z = %s\n}\n");
  };
  for (const auto& [length, stays] : {std::pair("64", 0), {"65", 1}, {"n", 1}, {"0", 1}}) {
    const auto spelled = spell_out(loop(length), all_nodes);
    ASSERT_TRUE(spelled) << spelled.error().message;
    EXPECT_EQ(count_of(*spelled, TensorOp::kLoop), stays) << length;
    EXPECT_EQ(count_of(*spelled, TensorOp::kAdd), stays == 0 ? 64 : 1);
  }
}

// Bodies that call bodies, each many times.
TEST(SpellOut, CallsInsideOfCalls) {
  std::string text = "body @b0(%x: f32[]) {\n  %0 = add %x, %x : f32[]\n  output y = %0\n}\n\n";
  for (int i = 1; i <= 5; ++i) {
    const std::string inner = "@b" + std::to_string(i - 1);
    text += "body @b" + std::to_string(i) + "(%x: f32[]) {\n  %0 = call %x {body = " + inner +
            "} : f32[]\n  %1 = call %0 {body = " + inner + "} : f32[]\n  output y = %1\n}\n\n";
  }
  const Graph graph =
      graph_text(text + "graph g(%x: f32[]) {\n  %0 = call %x {body = @b5} : f32[]\n  output y = %0\n}\n");
  const auto spelled = spell_out(graph, all_nodes);
  ASSERT_TRUE(spelled) << spelled.error().message;
  EXPECT_EQ(spelled->bodies.size(), 1u);
  EXPECT_EQ(count_of(*spelled, TensorOp::kAdd), 32);
  EXPECT_EQ(shown(*spelled, {array_of(ElementType::kF32, {}, {1})}), "f32[]: 4.2949673e+09");
}

TEST(SpellOut, RefusesWhatDoesNotVerify) {
  Graph graph = graph_text("graph g(%x: f32[4]) {\n  %0 = exp %x : f32[4]\n  output y = %0\n}\n");
  graph.bodies[0].nodes[0].attrs = 77;
  const auto spelled = spell_out(graph, all_nodes);
  ASSERT_FALSE(spelled);
  EXPECT_THAT(spelled.error().message, HasSubstr("exp: has attributes that the graph has not"));
}

}  // namespace
}  // namespace kiln::graph::evaluating
