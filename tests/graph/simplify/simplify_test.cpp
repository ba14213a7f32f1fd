// Each rule of the simplifier: what is left of its smallest graph, and that it computes the same. A rule without a case
// fails.
#include "kiln/graph/simplify.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "graph/random_graph.h"
#include "kiln/graph/binary.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/evaluate.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/text.h"

namespace kiln::graph {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Function = Tensor (*)(Tensors);

struct Case {
  const char* rule;
  std::vector<ElementType> elements;  // of inputs [3, 4]
  Function function;
  std::vector<const char*> left;  // ops of what is left, sorted
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"fold", {}, [](Tensors) { return full({3}, 2.0, f32) * full({3}, 3.0, f32); }, {"full"}},
      {"view_changes_nothing", {f32}, [](Tensors x) { return reshape(x[0], {3, 4}); }, {}},
      {"view_changes_nothing", {f32}, [](Tensors x) { return permute(x[0], {0, 1}); }, {}},
      {"view_changes_nothing", {f32}, [](Tensors x) { return pad(x[0], {0, 0}, {0, 0}); }, {}},
      {"view_of_one_value",
       {},
       [](Tensors) { return reverse(reshape(broadcast_to(full({}, 2.0, f32), {3, 4}), {12}), {0}); },
       {"full"}},
      {"reshaped_twice", {f32}, [](Tensors x) { return reshape(reshape(x[0], {12}), {2, 6}); }, {"reshape"}},
      {"permuted_twice", {f32}, [](Tensors x) { return permute(permute(x[0], {1, 0}), {1, 0}); }, {}},
      {"broadcast_twice",
       {f32},
       [](Tensors x) { return broadcast_to(broadcast_to(x[0], {2, 3, 4}), {5, 2, 3, 4}); },
       {"broadcast"}},
      {"sliced_twice", {f32}, [](Tensors x) { return slice(slice(x[0], 1, 1, 4), 1, 0, 3, 2); }, {"slice"}},
      {"reversed_twice", {f32}, [](Tensors x) { return reverse(reverse(x[0], {0, 1}), {1}); }, {"reverse"}},
      {"cat_of_one", {f32}, [](Tensors x) { return cat({x[0], slice(x[0], 0, 0, 0)}, 0); }, {}},
      {"known_extent", {f32}, [](Tensors x) { return broadcast_to(extent(4, f32), x[0].shape()); }, {"full"}},
      {"times_one", {f32}, [](Tensors x) { return 1.0 * (x[0] * 1.0); }, {}},
      {"times_minus_one", {f32}, [](Tensors x) { return x[0] * -1.0; }, {"neg"}},
      {"over_one", {bf16}, [](Tensors x) { return x[0] / 1.0; }, {}},
      {"over_power_of_two", {f32}, [](Tensors x) { return x[0] / 8.0; }, {"full", "mul"}},
      {"plus_zero", {f32}, [](Tensors x) { return x[0] + -0.0; }, {}},
      {"plus_zero", {i32}, [](Tensors x) { return x[0] + 0; }, {}},
      {"minus_zero", {f32}, [](Tensors x) { return x[0] - 0.0; }, {}},
      {"plus_negated", {f32, f32}, [](Tensors x) { return x[0] + -x[1]; }, {"sub"}},
      {"minus_negated", {f32, f32}, [](Tensors x) { return x[0] - -x[1]; }, {"add"}},
      {"negated_twice", {f32}, [](Tensors x) { return -(-x[0]); }, {}},
      {"both_negated", {f32, f32}, [](Tensors x) { return (-x[0]) * (-x[1]); }, {"mul"}},
      {"abs_of_sign_change", {f32}, [](Tensors x) { return abs(abs(-x[0])); }, {"abs"}},
      {"abs_of_sign_change", {u8}, [](Tensors x) { return abs(abs(-x[0])); }, {"abs", "neg"}},
      {"min_of_itself", {f32}, [](Tensors x) { return max(min(x[0], x[0]), x[0]); }, {}},
      {"int_times_zero", {i32}, [](Tensors x) { return x[0] * 0; }, {"full"}},
      {"int_minus_itself", {i32}, [](Tensors x) { return x[0] - x[0]; }, {"full"}},
      {"power", {f32}, [](Tensors x) { return pow(pow(x[0], 2.0), 1.0); }, {"mul"}},
      {"known_condition", {f32, f32}, [](Tensors x) { return where(full({3, 4}, true, i1), x[0], x[1]); }, {}},
      {"same_either_way", {f32, f32}, [](Tensors x) { return where(x[0] < x[1], x[0], x[0]); }, {}},
      {"negated_condition", {f32, f32}, [](Tensors x) { return where(~(x[0] < x[1]), x[0], x[1]); }, {"cmp", "select"}},
      {"compared_with_itself", {f32}, [](Tensors x) { return x[0] < x[0]; }, {"full"}},
      {"turned_twice", {i32}, [](Tensors x) { return ~~x[0]; }, {}},
      {"with_all_or_none", {i32}, [](Tensors x) { return ((x[0] & -1) | 0) ^ 0; }, {}},
      {"cast_to_itself", {f32}, [](Tensors x) { return cast(x[0], f32); }, {}},
      {"cast_through_wider", {f16}, [](Tensors x) { return cast(cast(x[0], f64), bf16); }, {"cast"}},
      {"bitcast_twice", {f32}, [](Tensors x) { return bitcast(bitcast(x[0], u32), f32); }, {}},
      {"reduced_along_nothing", {f32}, [](Tensors x) { return sum(reshape(x[0], {3, 1, 4}), {1}); }, {}},
      {"reduced_one_value", {}, [](Tensors) { return sum(full({3, 4}, 0.0, f32), {0}); }, {"full"}},
      {"exactly_reduced_twice", {f32}, [](Tensors x) { return reduce_max(reduce_max(x[0], {1}), {0}); }, {"reduce"}},
      {"reduced_twice", {f32}, [](Tensors x) { return sum(sum(x[0], {1}), {0}); }, {"reduce"}},
      {"squared_root", {f32}, [](Tensors x) { return sqrt(abs(x[0])) * sqrt(abs(x[0])); }, {"abs"}},
      {"polynomial", {f32, f32}, [](Tensors x) { return x[0] * x[1] - x[1] * x[0]; }, {"full"}},
      {"polynomial", {f32, f32}, [](Tensors x) { return (x[0] + x[1]) - x[1]; }, {}},
      {"polynomial", {f32}, [](Tensors x) { return square(sin(x[0])) + square(cos(x[0])); }, {"full"}},
      {"polynomial", {f32}, [](Tensors x) { return x[0] * 0.0 + 0.0; }, {"full"}},
      {"over_itself", {f32}, [](Tensors x) { return x[0] / x[0]; }, {"full"}},
      {"nothing_over", {f32}, [](Tensors x) { return 0.0 / x[0]; }, {"full"}},
      {"log_of_exp", {f32}, [](Tensors x) { return log(exp(x[0])); }, {}},
      {"exp_of_log", {f32}, [](Tensors x) { return exp(log(abs(x[0]))); }, {"abs"}},
      {"product_with_nothing", {f32}, [](Tensors x) { return matmul(x[0], zeros(f32, {4, 5})); }, {"full"}},
  };
  return all;
}

Graph graph_of(const Case& c) {
  std::vector<InputSpec> inputs;
  for (size_t i = 0; i < c.elements.size(); ++i)
    inputs.push_back(input("x" + std::to_string(i), c.elements[i], {3, 4}));
  const GraphDef def = graph("g", inputs, [&](Tensors x) { return c.function(std::move(x)); });
  if (!def.ir()) ADD_FAILURE() << c.rule << ": " << def.ir().error().message;
  return def.ir() ? *def.ir() : Graph();
}

Algebra algebra_of(const std::string& rule) {
  for (const SimplifyRule& row : simplify_rules()) {
    if (row.name == rule) return row.algebra;
  }
  ADD_FAILURE() << "no rule " << rule;
  return Algebra::kIeee;
}

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node& node : graph.main().nodes) out.push_back(info(node.op).name);
  std::sort(out.begin(), out.end());
  return out;
}

// Ordinary numbers, or those that identities break at.
std::vector<Array> inputs_of(const Case& c, bool nasty, unsigned seed) {
  std::mt19937 random(seed);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double kNasty[] = {0.0, -0.0, kInf, -kInf, std::nan(""), 1e-42, -1e-42, 3e38, -3e38, 1, -1, 2.5};
  std::vector<Array> out;
  for (const ElementType element : c.elements) {
    std::vector<double> values;
    for (int i = 0; i < 12; ++i) {
      const bool is_int = dsl::is_int(element);
      values.push_back(nasty && !is_int ? kNasty[random() % std::size(kNasty)]
                       : is_int         ? static_cast<double>(static_cast<int32_t>(random()))
                                        : std::uniform_real_distribution<>(0.5, 3)(random) * (random() % 2 ? 1 : -1));
    }
    out.push_back(array_of(element, {3, 4}, values));
  }
  return out;
}

bool same_value(const Array& a, const Array& b, int64_t i, bool exact) {
  if (!dsl::is_float(a.element)) return a.bits(i) == b.bits(i);
  const double x = a.number(i), y = b.number(i);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return exact ? a.bits(i) == b.bits(i) : std::abs(x - y) <= 1e-5 * (1 + std::abs(x));
}

void expect_same(const Case& c, const Graph& before, const Graph& after, bool exact) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto inputs = inputs_of(c, exact, seed);
    auto a = evaluate(before, inputs), b = evaluate(after, inputs);
    ASSERT_TRUE(a.ok() && b.ok()) << c.rule;
    for (size_t k = 0; k < a->size(); ++k) {
      ASSERT_EQ((*a)[k].shape, (*b)[k].shape) << c.rule;
      for (int64_t i = 0; i < (*a)[k].count(); ++i) {
        EXPECT_TRUE(same_value((*a)[k], (*b)[k], i, exact))
            << c.rule << ": " << (*a)[k].number(i) << " became " << (*b)[k].number(i);
      }
    }
  }
}

TEST(Simplify, EveryRuleDoesWhatItSays) {
  for (const Case& c : cases()) {
    const Graph before = graph_of(c);
    const Algebra algebra = algebra_of(c.rule);
    const Graph after = simplify(before, {algebra});
    EXPECT_EQ(ops_of(after), std::vector<std::string>(c.left.begin(), c.left.end())) << c.rule;
    expect_same(c, before, after, algebra == Algebra::kIeee);
  }
}

TEST(Simplify, EveryRuleHasACase) {
  std::set<std::string> tried;
  for (const Case& c : cases()) tried.insert(c.rule);
  for (const SimplifyRule& rule : simplify_rules()) EXPECT_TRUE(tried.contains(std::string(rule.name))) << rule.name;
}

// What is of real numbers alone stays under IEEE, whatever the rules of it would make of it.
TEST(Simplify, RealRulesNeedRealNumbers) {
  for (const Case& c : cases()) {
    if (algebra_of(c.rule) != Algebra::kReal) continue;
    const Graph before = graph_of(c), after = simplify(before);
    EXPECT_NE(ops_of(after), std::vector<std::string>(c.left.begin(), c.left.end())) << c.rule;
    expect_same(c, before, after, true);
  }
}

// Near misses: each changes a value that IEEE has.
TEST(Simplify, WhatIeeeForbidsStays) {
  const std::vector<Case> stay = {
      {"x + 0 turns -0 into 0", {f32}, [](Tensors x) { return x[0] + 0.0; }, {}},
      {"x * 0 is NaN of infinities", {f32}, [](Tensors x) { return x[0] * 0.0; }, {}},
      {"x - x is NaN of infinities", {f32}, [](Tensors x) { return x[0] - x[0]; }, {}},
      {"0 - x is 0 of 0", {f32}, [](Tensors x) { return 0.0 - x[0]; }, {}},
      {"x == x is false of NaN", {f32}, [](Tensors x) { return x[0] == x[0]; }, {}},
      {"x / 3 rounds otherwise", {f32}, [](Tensors x) { return x[0] / 3.0; }, {}},
      {"a cast that rounds stays", {f32}, [](Tensors x) { return cast(cast(x[0], f16), f32); }, {}},
      {"1e-40 is no normal number", {f32}, [](Tensors x) { return x[0] / 1.7014118346046923e+38; }, {}},
  };
  for (const Case& c : stay) {
    const Graph before = graph_of(c), after = simplify(before);
    EXPECT_EQ(ops_of(after), ops_of(before)) << c.rule;
  }
}

TEST(Simplify, TheGradientOfSineAndCosineSquaredIsZero) {
  const GraphDef def =
      graph("g", {input("x", f32, {dim("n")})}, [](Tensor x) { return sum(square(sin(x)) + square(cos(x))); });
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  auto gradient = graph::gradient(*def.ir(), {"x"});
  ASSERT_TRUE(gradient.ok()) << gradient.error().message;
  const Graph real = simplify(*gradient, {Algebra::kReal});
  EXPECT_THAT(ops_of(real), ElementsAre("full"));
  const Node& node = real.main().nodes[0];
  EXPECT_EQ(std::get<Literal>(real.attrs(node)[2]).bits, 0u);
  EXPECT_THAT(ops_of(simplify(*gradient)), testing::AllOf(testing::Contains("sin"), testing::Contains("cos")));
}

TEST(Simplify, BodiesToo) {
  const GraphDef def = graph("g", {input("x", f32, {4})}, [](Tensor x) {
    return loop(3, {x}, {}, [](Tensors carried, Tensors) { return LoopStep{{-(-carried[0]) * 1.0 + carried[0]}, {}}; })
        .carried[0];
  });
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  const Graph after = simplify(*def.ir());
  ASSERT_EQ(after.bodies.size(), 2u);
  ASSERT_EQ(after.bodies[1].nodes.size(), 1u);
  EXPECT_EQ(after.bodies[1].nodes[0].op, TensorOp::kAdd);
}

TEST(Simplify, DeadNodesGo) {
  const GraphDef def = graph("g", {input("x", f32, {4})}, [](Tensor x) {
    (void)exp(x);
    return x + 1.0;
  });
  EXPECT_THAT(ops_of(simplify(*def.ir())), ElementsAre("add", "full"));
}

// What is simple stays as it is.
TEST(Simplify, EndsWhereNothingChanges) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    auto made = random_graph::make(seed, {.nodes = 30, .kernels = false});
    ASSERT_TRUE(made.ok()) << made.error().message;
    for (const Algebra algebra : {Algebra::kIeee, Algebra::kReal}) {
      const Graph once = simplify(made->graph, {algebra});
      EXPECT_EQ(key(simplify(once, {algebra})), key(once)) << "seed " << seed << "\n" << print(once);
    }
  }
}

// Long chains: linear, without a stack that grows.
TEST(Simplify, TenThousandsOfNodes) {
  const GraphDef def = graph("g", {input("x", f32, {4})}, [](Tensor x) {
    Tensor y = x;
    for (int i = 0; i < 25000; ++i) y = -(-(y * 1.0)) + 0.5;
    return y;
  });
  ASSERT_TRUE(def.ir().ok());
  EXPECT_EQ(simplify(*def.ir()).main().nodes.size(), 25001u);
  EXPECT_LE(simplify(*def.ir(), {Algebra::kReal}).main().nodes.size(), 25001u);
}

}  // namespace
}  // namespace kiln::graph
