// Random graphs: what a graph means stays when it is read back, brought to its canonical form, decomposed, simplified,
// recognised, or given its inputs by other strides.
#include <cstdlib>

#include "evaluate/arrays.h"
#include "graph/random_graph.h"
#include "kiln/graph/binary.h"
#include "kiln/graph/decompose.h"
#include "kiln/graph/recognise.h"
#include "kiln/graph/simplify.h"
#include "kiln/graph/text.h"

namespace kiln::graph::evaluating {
namespace {

// The sizes of those dims that a graph still has.
std::map<std::string, int64_t> sizes_for(const Graph& graph, const std::map<std::string, int64_t>& sizes) {
  std::map<std::string, int64_t> out;
  for (const auto& [name, size] : sizes) {
    if (graph.find_dim(name)) out.emplace(name, size);
  }
  return out;
}

class Compared {
 public:
  Compared(const random_graph::Case& made, std::vector<Array> inputs) : made_(made), inputs_(std::move(inputs)) {
    auto outputs = evaluate(made_.graph, inputs_, made_.sizes);
    EXPECT_TRUE(outputs) << outputs.error().message << "\n" << print(made_.graph);
    if (outputs) expected_ = std::move(*outputs);
  }
  bool ready() const { return !expected_.empty() || made_.graph.main().outputs.empty(); }

  // Bits, but for NaNs and, `any_zero`, signs of zeros.
  void expect_same(const std::string& what, const Result<Graph>& graph, const std::vector<Array>& inputs,
                   bool any_zero) {
    ASSERT_TRUE(graph) << what << ": " << graph.error().message;
    auto outputs = evaluate(*graph, inputs, sizes_for(*graph, made_.sizes));
    ASSERT_TRUE(outputs) << what << ": " << outputs.error().message << "\n" << print(*graph);
    ASSERT_EQ(outputs->size(), expected_.size()) << what;
    for (size_t i = 0; i < outputs->size(); ++i) {
      const bool same = same_bits((*outputs)[i], expected_[i]) || (any_zero && near((*outputs)[i], expected_[i], 0, 0));
      EXPECT_TRUE(same) << what << ", output " << i << "\n  " << show((*outputs)[i]) << "\nnot " << show(expected_[i])
                        << "\n"
                        << print(made_.graph);
    }
  }
  // As numbers, all floats in f64: two graphs that round at other places. Attributes were rounded to f32. Or the same
  // bits: a constant that is rounded to 1 was taken for it.
  void expect_near(const std::string& what, const Result<Graph>& graph) {
    ASSERT_TRUE(graph) << what << ": " << graph.error().message;
    const EvaluateOptions wide{.check_indices = false, .wide = true};
    auto wanted = evaluate(made_.graph, inputs_, made_.sizes, wide);
    auto outputs = evaluate(*graph, inputs_, sizes_for(*graph, made_.sizes), wide);
    auto rounded = evaluate(*graph, inputs_, sizes_for(*graph, made_.sizes));
    ASSERT_TRUE(wanted && outputs && rounded) << what << "\n" << print(*graph);
    for (size_t i = 0; i < outputs->size(); ++i) {
      EXPECT_TRUE(near((*outputs)[i], (*wanted)[i], 1e-6, 1e-6) || same_bits((*rounded)[i], expected_[i]))
          << what << ", output " << i << "\n  " << show((*outputs)[i]) << "\nnot " << show((*wanted)[i]) << "\n"
          << print(made_.graph) << print(*graph);
    }
  }
  const Graph& graph() const { return made_.graph; }
  const std::vector<Array>& inputs() const { return inputs_; }

 private:
  const random_graph::Case& made_;
  std::vector<Array> inputs_;
  std::vector<Array> expected_;
};

bool has_choices(const Graph& graph) {
  for (const Body& body : graph.bodies) {
    for (const Node& node : body.nodes) {
      if (node.op == TensorOp::kMin || node.op == TensorOp::kMax) return true;
    }
  }
  return false;
}

void run(uint64_t seed, int percent_special) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  random_graph::Options options;
  options.nodes = static_cast<int>(4 + seed % 17);
  auto made = random_graph::make(seed, options);
  ASSERT_TRUE(made) << made.error().message;
  Compared compared(*made, random_graph::inputs(*made, seed, {.largest = 2, .percent_special = percent_special}));
  if (!compared.ready()) return;
  std::vector<Array> others;
  for (const Array& input : compared.inputs()) others.push_back(turned(input));
  compared.expect_same("turned inputs", compared.graph(), others, false);
  compared.expect_same("text", parse(print(compared.graph()), "test.kg"), compared.inputs(), false);
  compared.expect_same("binary", decode(encode(compared.graph())), compared.inputs(), false);
  const auto primitives = decompose(compared.graph());
  compared.expect_same("decomposed", primitives, compared.inputs(), false);
  compared.expect_same("simplified", simplify(compared.graph()), compared.inputs(), false);
  if (primitives) {
    compared.expect_same("decomposed and simplified", simplify(*primitives), compared.inputs(), false);
    auto again = recognise(*primitives);
    compared.expect_near("recognised", again ? Result<Graph>(std::move(again->graph)) : again.error());
  }
  // Operands of min and max may change places there, and of two zeros either is right: atan2 sees which.
  if (percent_special == 0 || !has_choices(compared.graph())) {
    compared.expect_same("canonical", canonical(compared.graph()), compared.inputs(), true);
  }
  auto wide = evaluate(compared.graph(), compared.inputs(), made->sizes, {.check_indices = false, .wide = true});
  EXPECT_TRUE(wide) << wide.error().message << "\n" << print(compared.graph());
}

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}
int first() { return number("KILN_RANDOM_GRAPHS_FROM", 0); }
int count() { return number("KILN_RANDOM_GRAPHS", 300); }

TEST(EvaluateRandom, GraphsMeanTheSameInAllForms) {
  for (int i = 0; i < count() && !HasFailure(); ++i) run(static_cast<uint64_t>(first() + i), 0);
}

TEST(EvaluateRandom, GraphsOfSpecialValuesToo) {
  for (int i = 0; i < count() && !HasFailure(); ++i) run(1000000 + static_cast<uint64_t>(first() + i), 20);
}

}  // namespace
}  // namespace kiln::graph::evaluating
