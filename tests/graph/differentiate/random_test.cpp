// Gradients of random graphs: those of a graph are those of its decomposition and of what is simpler, the halves of a
// cut are the whole, forward mode is the transpose of reverse mode, and both are what differences say.
// KILN_RANDOM_GRAPHS says how many (60), KILN_RANDOM_GRAPHS_FROM from which seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "differentiate/differences.h"
#include "evaluate/arrays.h"
#include "graph/random_graph.h"
#include "kiln/graph/decompose.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/simplify.h"
#include "kiln/graph/text.h"
#include "kiln/graph/verify.h"

namespace kiln::graph::test {
namespace {

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}
int first_seed() { return number("KILN_RANDOM_GRAPHS_FROM", 0); }
int seed_count(int otherwise) { return number("KILN_RANDOM_GRAPHS", otherwise); }

using Arrays = std::vector<Array>;

bool finite(const Array& array) {
  for (int64_t i = 0; dsl::is_float(array.element) && i < array.count(); ++i) {
    if (!std::isfinite(array.number(i))) return false;
  }
  return true;
}

Array positive(const Array& array) {
  Array out = own(array.element, array.shape);
  for (int64_t i = 0; i < array.count(); ++i) {
    const double x = array.number(i);
    set_bits(out, i, dsl::is_float(array.element) ? dsl::bits_from_double(array.element, std::abs(x)) : array.bits(i));
  }
  return out;
}

double dot(const Array& a, const Array& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) sum += a.number(i) * b.number(i);
  return sum;
}

double largest(const Array& array) {
  double out = 0;
  for (int64_t i = 0; i < array.count(); ++i) out = std::max(out, std::abs(array.number(i)));
  return out;
}

// A graph at a point, with its float inputs, and weights and tangents for what is made of it.
class Fuzzed {
 public:
  Fuzzed(random_graph::Case made, uint64_t seed) : made_(std::move(made)), random_(static_cast<uint32_t>(seed)) {
    inputs_ = random_graph::inputs(made_, seed, {.largest = 1.5});
    for (const std::string& name : float_inputs(made_.graph)) wanted_.push_back(name);
  }
  const Graph& graph() const { return made_.graph; }
  const Arrays& inputs() const { return inputs_; }
  const std::vector<std::string>& wanted() const { return wanted_; }
  const Sizes& sizes() const { return made_.sizes; }

  // Evaluates, `wide` in f64 even what kernels have in f32; what fails fails the test and is {}.
  Arrays run(const std::string& what, const Graph& graph, const Arrays& inputs, bool wide = false) const {
    Sizes sizes;
    for (const auto& [name, size] : made_.sizes) {
      if (graph.find_dim(name)) sizes.emplace(name, size);
    }
    auto out = evaluate(graph, inputs, sizes, {.wide = wide});
    EXPECT_TRUE(out) << what << ": " << out.error().message << "\n" << print(graph);
    return out ? std::move(*out) : Arrays();
  }
  // Verified, or the test fails.
  bool sound(const std::string& what, const Result<Graph>& graph) const {
    EXPECT_TRUE(graph) << what << ": " << graph.error().message << "\n" << print(made_.graph);
    if (!graph) return false;
    const auto fine = verify(*graph);
    EXPECT_TRUE(fine) << what << ": " << fine.error().message << "\n" << print(made_.graph) << print(*graph);
    return bool(fine);
  }
  // Goes to a point where all numbers on the way are finite; elsewhere gradients are not compared.
  bool go_where_finite() {
    Graph all = made_.graph;
    Body& main = all.bodies.front();
    for (ValueId id = 0; id < main.values.size(); ++id) main.outputs.push_back({"v" + std::to_string(id), id});
    const auto here = [&] { return std::ranges::all_of(run("all values", all, inputs_), finite); };
    if (here()) return true;
    for (Array& input : inputs_) input = positive(input);
    return here();
  }
  // Random numbers in the place of others.
  Array like(const Array& array) {
    Array out = own(array.element, array.shape);
    std::uniform_real_distribution<double> numbers(-1, 1);
    for (int64_t i = 0; i < out.count(); ++i) set_bits(out, i, dsl::bits_from_double(out.element, numbers(random_)));
    return out;
  }
  // Random numbers for the inputs of a graph from one on.
  Arrays more(const Graph& graph, size_t from) {
    Arrays out;
    for (size_t i = from; i < graph.main().inputs.size(); ++i) {
      out.push_back(
          random_array(graph, graph.type(graph.main(), graph.main().inputs[i].value), made_.sizes, random_, -1, 1));
    }
    return out;
  }

 private:
  random_graph::Case made_;
  std::mt19937 random_;
  Arrays inputs_;
  std::vector<std::string> wanted_;
};

Arrays both(Arrays a, const Arrays& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void expect_same_bits(const Fuzzed& fuzzed, const std::string& what, const Arrays& found, const Arrays& expected,
                      size_t count) {
  ASSERT_GE(found.size(), count) << what;
  for (size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(evaluating::same_bits(found[i], expected[i]))
        << what << ", output " << i << "\n  " << evaluating::show(found[i]) << "\nnot " << evaluating::show(expected[i])
        << "\n"
        << print(fuzzed.graph());
  }
}

// Real numbers have no slope that is infinite: what such one gives is not compared with what is simpler without it.
void expect_near(const Fuzzed& fuzzed, const std::string& what, const Arrays& found, const Arrays& expected,
                 Algebra algebra) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    if (algebra == Algebra::kReal && !finite(expected[i])) continue;
    EXPECT_TRUE(evaluating::near(found[i], expected[i], 1e-6, 1e-9 * std::max(1.0, largest(expected[i]))))
        << what << ", output " << i << "\n  " << evaluating::show(found[i]) << "\nnot " << evaluating::show(expected[i])
        << "\n"
        << print(fuzzed.graph());
  }
}

// w·(J t) = (Jᵀ w)·t
void check_transpose(Fuzzed& fuzzed, const std::string& what, const Graph& graph, const Arrays& inputs,
                     const std::vector<std::string>& wanted) {
  const auto back = vjp(graph, wanted), ahead = jvp(graph, wanted);
  if (!fuzzed.sound(what + " vjp", back) || !fuzzed.sound(what + " jvp", ahead)) return;
  const Arrays weights = fuzzed.more(*back, inputs.size()), tangents = fuzzed.more(*ahead, inputs.size());
  const Arrays y = fuzzed.run(what + " vjp", *back, both(inputs, weights), true);
  const Arrays z = fuzzed.run(what + " jvp", *ahead, both(inputs, tangents), true);
  const size_t outputs = graph.main().outputs.size();
  if (y.empty() || z.empty()) return;
  double one = 0, other = 0, scale = 1;
  ASSERT_EQ(y.size(), outputs + wanted.size()) << what;
  ASSERT_EQ(z.size(), outputs + weights.size()) << what;
  for (size_t i = 0; i < wanted.size(); ++i) {
    one += dot(y[outputs + i], tangents[i]);
    scale = std::max(scale, largest(y[outputs + i]));
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    other += dot(z[outputs + i], weights[i]);
    scale = std::max(scale, largest(z[outputs + i]));
  }
  if (!(scale < 1e6) || !std::isfinite(one) || !std::isfinite(other)) return;  // what rounding leaves says nothing
  EXPECT_LE(std::abs(one - other), 1e-8 * scale) << what << ": " << one << " by vjp, " << other << " by jvp\n"
                                                 << print(fuzzed.graph());
}

// Decomposed and simplified a graph of gradients gives the same bits.
void check_forms(const Fuzzed& fuzzed, const Graph& graph, const Arrays& inputs) {
  const Arrays expected = fuzzed.run("gradients", graph, inputs);
  const std::pair<std::string, Result<Graph>> forms[] = {{"decomposed", decompose(graph)},
                                                         {"simplified", simplify(graph)}};
  for (const auto& [what, form] : forms) {
    if (!fuzzed.sound(what, form)) continue;
    expect_same_bits(fuzzed, what, fuzzed.run(what, *form, inputs), expected, expected.size());
  }
}

// Kernels of the generator may lack one.
bool no_kernel_gradient(const Result<Graph>& joint) {
  return !joint &&
         joint.error().message.find("has no gradient; give one where the kernel is used") != std::string::npos;
}

// Both halves of a cut, one after the other, give the bits of the whole, which are `expected`; where the budget is too
// small, the error says so.
void check_cut(const Fuzzed& fuzzed, const Arrays& all, const Arrays& expected, int64_t budget) {
  CutOptions options;
  options.memory_budget = budget;
  for (const DimInfo& dim : fuzzed.graph().dims) options.sizes[dim.name] = fuzzed.sizes().at(dim.name);
  const auto cut = cut_vjp(fuzzed.graph(), fuzzed.wanted(), options);
  if (!cut) {
    EXPECT_TRUE(budget >= 0 && cut.error().message.starts_with("cut_vjp: a budget of " + std::to_string(budget)))
        << cut.error().message;
    return;
  }
  if (!fuzzed.sound("forward", cut->forward) || !fuzzed.sound("backward", cut->backward)) return;
  EXPECT_TRUE(budget < 0 || cut->saved_bytes <= budget) << cut->saved_bytes;
  const auto inputs = static_cast<ptrdiff_t>(fuzzed.inputs().size());
  const auto outputs = static_cast<ptrdiff_t>(fuzzed.graph().main().outputs.size());
  const Arrays front = fuzzed.run("forward", cut->forward, fuzzed.inputs());
  ASSERT_EQ(front.size(), static_cast<size_t>(outputs) + cut->saved.size());
  const Arrays saved(front.begin() + outputs, front.end());
  const Arrays back = fuzzed.run("backward", cut->backward, both(saved, Arrays(all.begin() + inputs, all.end())));
  const Arrays whole = both(Arrays(front.begin(), front.begin() + outputs), back);
  ASSERT_EQ(whole.size(), expected.size());
  expect_same_bits(fuzzed, "cut, budget " + std::to_string(budget), whole, expected, expected.size());
}

void check(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  random_graph::Options options;
  options.nodes = static_cast<int>(2 + seed % 11);
  options.elements = {ElementType::kF64, ElementType::kI32, ElementType::kI1};
  if (seed % 3 != 0) options.elements = {ElementType::kF64};
  options.may = [](TensorOp op) { return op != TensorOp::kBitcast; };  // there and back is simpler, and has a gradient
  auto made = random_graph::make(seed, options);
  ASSERT_TRUE(made) << made.error().message;
  Fuzzed fuzzed(std::move(*made), seed);
  if (fuzzed.wanted().empty()) return;
  const bool is_finite = fuzzed.go_where_finite();
  const auto joint = vjp(fuzzed.graph(), fuzzed.wanted());
  if (no_kernel_gradient(joint) || !fuzzed.sound("vjp", joint)) return;
  const Arrays plain = fuzzed.run("graph", fuzzed.graph(), fuzzed.inputs());
  const Arrays all = both(fuzzed.inputs(), fuzzed.more(*joint, fuzzed.inputs().size()));
  const Arrays expected = fuzzed.run("vjp", *joint, all);
  expect_same_bits(fuzzed, "outputs of vjp", expected, plain, plain.size());
  check_forms(fuzzed, *joint, all);
  for (const int64_t budget : {int64_t{-1}, int64_t{500}, int64_t{1} << 40}) check_cut(fuzzed, all, expected, budget);
  if (!is_finite) return;
  const Arrays wide = fuzzed.run("vjp", *joint, all, true);
  const auto decomposed = decompose(fuzzed.graph());
  ASSERT_TRUE(decomposed) << decomposed.error().message;
  struct Form {
    std::string name;
    Graph graph;
    Algebra algebra;
  };
  const Form others[] = {
      {"vjp of decomposed", *decomposed, Algebra::kIeee},
      {"vjp of simplified", simplify(fuzzed.graph()), Algebra::kIeee},
      {"vjp of simplified as reals", simplify(fuzzed.graph(), {.algebra = Algebra::kReal}), Algebra::kReal}};
  for (const Form& other : others) {
    const auto back = vjp(other.graph, fuzzed.wanted());
    if (!fuzzed.sound(other.name, back)) continue;
    expect_near(fuzzed, other.name, fuzzed.run(other.name, *back, all, true), wide, other.algebra);
  }
  check_transpose(fuzzed, "first order", fuzzed.graph(), fuzzed.inputs(), fuzzed.wanted());
  if (joint->main().nodes.size() < 100) check_transpose(fuzzed, "second order", *joint, all, float_inputs(*joint));
}

// The float inputs moved by so much of the tangents.
Arrays moved(const Fuzzed& fuzzed, const Arrays& tangents, double by) {
  Arrays out;
  size_t next = 0;
  for (const Array& input : fuzzed.inputs()) {
    out.push_back(input);
    if (!dsl::is_float(input.element)) continue;
    Array& array = out.back() = own(input.element, input.shape);
    for (int64_t i = 0; i < array.count(); ++i) {
      const double x = input.number(i) + by * tangents[next].number(i);
      set_bits(array, i, dsl::bits_from_double(array.element, x));
    }
    ++next;
  }
  return out;
}

// How fast the weighed outputs move along the tangents, by central differences.
double slope(const Fuzzed& fuzzed, const Arrays& tangents, const Arrays& weights, double step) {
  const Arrays high = fuzzed.run("graph", fuzzed.graph(), moved(fuzzed, tangents, step));
  const Arrays low = fuzzed.run("graph", fuzzed.graph(), moved(fuzzed, tangents, -step));
  double sum = 0;
  size_t next = 0;
  for (size_t i = 0; i < high.size(); ++i) {
    if (!dsl::is_float(high[i].element)) continue;
    for (int64_t k = 0; k < high[i].count(); ++k) {
      sum += (high[i].number(k) - low[i].number(k)) * weights[next].number(k);
    }
    ++next;
  }
  return sum / (2 * step);
}

// Forward mode against central differences along the tangents. Whether they could be compared: where a step is near
// differences of two widths do not agree, and steep or infinite slopes are none.
bool check_differences(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  random_graph::Options options;
  options.nodes = static_cast<int>(2 + seed % 7);
  options.elements = {ElementType::kF64};
  options.kernels = false;  // which round to f32
  // What differences do not see as gradients do: bits, what is stopped, teeth narrower than a step, and how a
  // combination of the least or greatest shares between equal elements.
  options.may = [](TensorOp op) {
    return op != TensorOp::kStopGradient && op != TensorOp::kBitcast && op != TensorOp::kRem &&
           op != TensorOp::kReduceCustom;
  };
  auto made = random_graph::make(seed, options);
  EXPECT_TRUE(made) << made.error().message;
  if (!made) return false;
  Fuzzed fuzzed(std::move(*made), seed);
  if (fuzzed.wanted().empty() || !fuzzed.go_where_finite()) return false;
  const auto ahead = jvp(fuzzed.graph(), fuzzed.wanted());
  if (!fuzzed.sound("jvp", ahead)) return false;
  const Arrays tangents = fuzzed.more(*ahead, fuzzed.inputs().size());
  const Arrays results = fuzzed.run("jvp", *ahead, both(fuzzed.inputs(), tangents));
  Arrays weights;
  double found = 0, scale = 1;
  for (size_t i = fuzzed.graph().main().outputs.size(); i < results.size(); ++i) {
    weights.push_back(fuzzed.like(results[i]));
    found += dot(results[i], weights.back());
    scale = std::max({scale, largest(results[i])});
  }
  const double wide = slope(fuzzed, tangents, weights, 1e-5), narrow = slope(fuzzed, tangents, weights, 5e-6);
  const double apart = std::abs(wide - narrow);
  if (!(apart < 1e-5 * scale) || !(scale < 1e6) || !std::isfinite(found)) return false;
  EXPECT_LE(std::abs(found - narrow), 1e-6 * scale + 4 * apart)
      << "by jvp " << found << ", by differences " << narrow << " and " << wide << "\n"
      << print(fuzzed.graph());
  return true;
}

// Any types: what is made verifies, and means the same in its other forms.
void check_types(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  random_graph::Options options;
  options.nodes = static_cast<int>(2 + seed % 11);
  auto made = random_graph::make(seed, options);
  ASSERT_TRUE(made) << made.error().message;
  Fuzzed fuzzed(std::move(*made), seed);
  if (fuzzed.wanted().empty()) return;
  const auto joint = vjp(fuzzed.graph(), fuzzed.wanted());
  if (no_kernel_gradient(joint) || !fuzzed.sound("vjp", joint)) return;
  check_forms(fuzzed, *joint, both(fuzzed.inputs(), fuzzed.more(*joint, fuzzed.inputs().size())));
  const auto ahead = jvp(fuzzed.graph(), fuzzed.wanted());
  if (!fuzzed.sound("jvp", ahead)) return;
  check_forms(fuzzed, *ahead, both(fuzzed.inputs(), fuzzed.more(*ahead, fuzzed.inputs().size())));
  if (joint->main().nodes.size() < 100) fuzzed.sound("vjp of vjp", vjp(*joint, float_inputs(*joint)));
}

TEST(RandomGradients, OfAllTypesVerify) {
  for (int i = 0; i < seed_count(60) && !HasFailure(); ++i) check_types(static_cast<uint64_t>(first_seed() + i));
}

TEST(RandomGradients, AreDifferences) {
  int compared = 0;
  for (int i = 0; i < seed_count(100) && !HasFailure(); ++i) {
    if (check_differences(static_cast<uint64_t>(first_seed() + i))) ++compared;
  }
  EXPECT_GT(compared, seed_count(100) / 3);
}

TEST(RandomGradients, AreThoseOfOtherForms) {
  for (int i = 0; i < seed_count(60) && !HasFailure(); ++i) check(static_cast<uint64_t>(first_seed() + i));
}

}  // namespace
}  // namespace kiln::graph::test
