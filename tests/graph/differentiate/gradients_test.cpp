// Every rule against central differences, at random points and several sizes; the table decides which ops there must be
// cases of.
#include <gtest/gtest.h>

#include <algorithm>

#include "differentiate/differences.h"
#include "differentiate/rules.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/text.h"
#include "kiln/graph/verify.h"

namespace kiln::graph::test {
namespace {

class Gradients : public ::testing::TestWithParam<GradientCase> {};

Worst& worst_of_all() {
  static Worst worst;
  return worst;
}

TEST_P(Gradients, AreDifferences) {
  const Sizes sizes[] = {{{"n", 3}, {"m", 2}}, {{"n", 1}, {"m", 4}}, {{"n", 4}, {"m", 1}}};
  Worst worst;
  for (uint32_t i = 0; i < std::size(sizes); ++i) {
    check_gradients(GetParam(), sizes[i], 17 + i, worst);
    if (HasFailure()) return;
  }
  EXPECT_GT(worst.checks, 0);
  Worst& all = worst_of_all();
  all.checks += worst.checks;
  if (worst.error > all.error) {
    all.error = worst.error;
    all.where = worst.where;
  }
  // The last line printed has the figures of all cases that this process ran.
  std::printf("gradients: %d checked, worst error %.2e (%s)\n", all.checks, all.error, all.where.c_str());
}

INSTANTIATE_TEST_SUITE_P(All, Gradients, ::testing::ValuesIn(all_cases()), [](const auto& info) {
  std::string name = std::to_string(info.index) + "_";
  for (const char c : info.param.name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

// The same functions of narrow floats: gradients have the types of their inputs, in forward mode too.
TEST(GradientsOfNarrowFloats, HaveTheirTypes) {
  int checked = 0;
  for (const ElementType element : {f32, f16, bf16}) {
    for (GradientCase each : all_cases()) {
      for (InputSpec& spec : each.inputs) spec.element = spec.element == f64 ? element : spec.element;
      const GraphDef def = trace("narrow", each.inputs, [&](Tensors x) {
        Outputs out;
        for (const Tensor& y : each.function(std::move(x))) out.emplace_back("y" + std::to_string(out.size()), y);
        return out;
      });
      if (!def.ir()) continue;  // a function that names f64 beside
      const Graph& graph = *def.ir();
      const std::vector<std::string> wanted = float_inputs(graph);
      auto joint = vjp(graph, wanted);
      ASSERT_TRUE(joint) << each.name << ": " << joint.error().message;
      auto fine = verify(*joint);
      ASSERT_TRUE(fine) << each.name << ": " << fine.error().message;
      const size_t outputs = graph.main().outputs.size();
      for (size_t i = 0; i < wanted.size(); ++i) {
        const Output& gradient = joint->main().outputs[outputs + i];
        const auto& inputs = graph.main().inputs;
        const auto input = std::ranges::find(inputs, wanted[i], &Input::name);
        EXPECT_EQ(to_string(joint->type(joint->main(), gradient.value), joint->expr_names()),
                  to_string(graph.type(graph.main(), input->value), graph.expr_names()))
            << each.name;
      }
      auto forward = jvp(graph, wanted);
      ASSERT_TRUE(forward) << each.name << ": " << forward.error().message;
      ++checked;
    }
  }
  EXPECT_GT(checked, 400);
}

TEST(GradientTable, HasEveryOpAndACaseOfEachRule) {
  std::set<TensorOp> covered;
  for (const GradientCase& each : all_cases()) {
    for (const Body& body : case_graph(each).bodies) {
      for (const Node& node : body.nodes) covered.insert(node.op);
    }
  }
  for (const OpInfo& op : op_table()) {
    const GradientKind kind = gradient_entry(op.op).kind;
    EXPECT_NE(kind, GradientKind::kMissing) << op.name << " has no entry in the table of gradients";
    if (kind == GradientKind::kNone) continue;
    EXPECT_TRUE(covered.contains(op.op)) << op.name << " has a gradient and no case";
  }
}

// The result of a call that gives what it took is an input of the joint graph, which has a name already.
TEST(GradientGraphs, NamesOfResultsThatAreInputs) {
  const auto graph = parse(R"(
body @same(%a: f32[3]) {
  output r = %a
}

graph g(%x: f32[3]) {
  %named = call %x {body = @same} : f32[3]
  %1 = exp %named : f32[3]
  output y0 = %named
  output y1 = %1
}
)",
                           "same.kg");
  ASSERT_TRUE(graph) << graph.error().message;
  for (const auto& pass : {vjp, jvp}) {
    const auto joint = pass(*graph, {"x"});
    ASSERT_TRUE(joint) << joint.error().message;
    const auto fine = verify(*joint);
    EXPECT_TRUE(fine) << fine.error().message;
  }
}

// The simplifier drops a bitcast to the type that a tensor has: it has the gradient of what is left.
TEST(GradientGraphs, BitcastsToTheSameType) {
  const auto graph = parse(R"(
graph g(%x: f64[2]) {
  %0 = bitcast %x {to = f64} : f64[2]
  %1 = bitcast %x {to = i64} : i64[2]
  %2 = bitcast %1 {to = f64} : f64[2]
  %3 = mul %0, %2 : f64[2]
  output y = %3
}
)",
                           "bits.kg");
  ASSERT_TRUE(graph) << graph.error().message;
  const auto joint = vjp(*graph, {"x"});
  ASSERT_TRUE(joint) << joint.error().message;
  const auto values = evaluate(*joint, std::vector{array_of(f64, {2}, {3, 5}), array_of(f64, {2}, {1, 10})});
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(values->back().number(0), 3);  // by %0 alone: %2 is made of an int
  EXPECT_EQ(values->back().number(1), 50);
}

// What is between elements is cut out again, also where there may be none.
TEST(GradientGraphs, PadsBetweenNoneOrMore) {
  const auto def = graph("g", {input("x", f64, {dim("z", 0, 8), 2}), input("v", f64, {})},
                         [](Tensor x, Tensor v) { return sin(pad(x, {1, 2}, {0, 1}, v, {1, 2})); });
  ASSERT_TRUE(def.ir()) << def.ir().error().message;
  const auto joint = vjp(*def.ir(), {"x", "v"});
  ASSERT_TRUE(joint) << joint.error().message;
  for (const int64_t extent : {0, 1, 4}) {
    Worst worst;
    std::mt19937 random(3);
    std::vector<Array> inputs;
    for (const Input& input : joint->main().inputs) {
      inputs.push_back(random_array(*joint, joint->type(joint->main(), input.value), {{"z", extent}}, random, -2, 2));
    }
    const std::vector<Array> first(inputs.begin(), inputs.begin() + 2);
    check_vjp("pad", *def.ir(), first, {"x", "v"}, 1e-6, random, worst);
    check_jvp("pad", *def.ir(), first, {"x", "v"}, 1e-6, random, worst);
    check_vjp("pad again", *joint, inputs, float_inputs(*joint), 1e-5, random, worst);
    if (HasFailure()) return;
  }
}

// An exclusive scan shifts what comes back, along an axis that may have nothing to shift.
TEST(GradientGraphs, ScansOfEmptyAxes) {
  for (const bool reverse : {false, true}) {
    const auto def = graph("g", {input("x", f64, {dim("n", 0, 8)})},
                           [&](Tensor x) { return scan(x, ReduceKind::kMax, 0, reverse, true); });
    ASSERT_TRUE(def.ir()) << def.ir().error().message;
    const auto joint = vjp(*def.ir(), {"x"});
    ASSERT_TRUE(joint) << joint.error().message;
    const auto none = evaluate(*joint, std::vector{own(f64, {0}), own(f64, {0})});
    ASSERT_TRUE(none) << none.error().message;
    const auto some = evaluate(*joint, std::vector{array_of(f64, {3}, {1, 3, 2}), array_of(f64, {3}, {5, 7, 9})});
    ASSERT_TRUE(some) << some.error().message;
    // -inf, 1, 3, and from behind 3, 2, -inf: the gradients of what is seen again go to where it is.
    const std::vector<double> wanted = reverse ? std::vector<double>{0, 5, 7} : std::vector<double>{7, 9, 0};
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(some->back().number(i), wanted[static_cast<size_t>(i)]) << reverse;
  }
}

}  // namespace
}  // namespace kiln::graph::test
