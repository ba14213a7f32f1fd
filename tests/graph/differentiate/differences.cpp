#include "differentiate/differences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kiln/graph/differentiate.h"
#include "kiln/graph/verify.h"

namespace kiln::graph::test {
namespace {

constexpr double kStep = 1e-5;

int64_t extent_of(const Graph& graph, const Expr& expr, const Sizes& sizes) {
  dsl::Bindings bindings;
  for (const DimInfo& dim : graph.dims) bindings.constexprs.push_back(sizes.at(dim.name));
  return *expr.evaluate(bindings);
}

std::vector<Array> run(const Graph& graph, const std::vector<Array>& inputs) {
  auto out = evaluate(graph, inputs);
  if (!out) {
    ADD_FAILURE() << out.error().message;
    return {};
  }
  return *out;
}

Array copy_of(const Array& array) {
  Array out = own(array.element, array.shape);
  for (int64_t i = 0; i < array.count(); ++i) set_bits(out, i, array.bits(i));
  return out;
}

Array moved(const Array& array, int64_t place, double by) {
  Array out = copy_of(array);
  set_bits(out, place, dsl::bits_from_double(array.element, array.number(place) + by));
  return out;
}

// What weights make of the float outputs, as one number.
double weigh(const Graph& graph, const std::vector<Array>& outputs, const std::vector<Array>& weights) {
  double sum = 0;
  size_t next = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!dsl::is_float(outputs[i].element)) continue;
    for (int64_t k = 0; k < outputs[i].count(); ++k) sum += outputs[i].number(k) * weights[next].number(k);
    ++next;
  }
  static_cast<void>(graph);
  return sum;
}

void compare(const std::string& what, double found, double expected, double scale, double tolerance, Worst& worst) {
  const double error = std::abs(found - expected) / std::max(1.0, scale);
  if (!(error <= worst.error)) {
    worst.error = error;
    worst.where = what;
  }
  EXPECT_LE(error, tolerance) << what << ": gradient " << found << ", by differences " << expected;
}

size_t input_number(const Graph& graph, const std::string& name) {
  const auto& inputs = graph.main().inputs;
  return static_cast<size_t>(std::ranges::find(inputs, name, &Input::name) - inputs.begin());
}

}  // namespace

Dim case_n() { return dim("n", 1, 64); }
Dim case_m() { return dim("m", 1, 64); }

Graph case_graph(const GradientCase& each) {
  GraphDef def = trace("case", each.inputs, [&](Tensors x) {
    Outputs out;
    for (const Tensor& y : each.function(std::move(x))) out.emplace_back("y" + std::to_string(out.size()), y);
    return out;
  });
  if (def.ir()) return *def.ir();
  ADD_FAILURE() << each.name << ": " << def.ir().error().message;
  return {};
}

Array random_array(const Graph& graph, const TensorType& type, const Sizes& sizes, std::mt19937& random, double low,
                   double high) {
  std::vector<int64_t> shape;
  for (const Expr& extent : type.shape) shape.push_back(extent_of(graph, extent, sizes));
  Array out = own(type.element, shape);
  std::uniform_real_distribution<double> numbers(low, high);
  for (int64_t i = 0; i < out.count(); ++i) set_bits(out, i, dsl::bits_from_double(type.element, numbers(random)));
  return out;
}

std::vector<Array> random_inputs(const GradientCase& each, const Graph& graph, const Sizes& sizes,
                                 std::mt19937& random) {
  std::vector<Array> out;
  for (const Input& input : graph.main().inputs) {
    const TensorType& type = graph.type(graph.main(), input.value);
    Array array = random_array(graph, type, sizes, random, each.low, each.high);
    if (!dsl::is_float(type.element)) {
      const int64_t below = std::stoll(input.name.substr(input.name.find('_') + 1));
      std::uniform_int_distribution<int64_t> ints(0, below - 1);
      for (int64_t i = 0; i < array.count(); ++i) set_bits(array, i, dsl::bits_from_int(type.element, ints(random)));
    } else if (each.apart > 0) {  // a random order of numbers that are apart
      std::vector<int64_t> order(static_cast<size_t>(array.count()));
      for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
      std::ranges::shuffle(order, random);
      for (int64_t i = 0; i < array.count(); ++i) {
        const double number =
            (static_cast<double>(order[static_cast<size_t>(i)]) - 0.4 * static_cast<double>(array.count())) *
            each.apart;
        set_bits(array, i, dsl::bits_from_double(type.element, number));
      }
    }
    out.push_back(std::move(array));
  }
  return out;
}

std::vector<std::string> float_inputs(const Graph& graph) {
  std::vector<std::string> out;
  for (const Input& input : graph.main().inputs) {
    if (dsl::is_float(graph.type(graph.main(), input.value).element)) out.push_back(input.name);
  }
  return out;
}

void check_vjp(const std::string& what, const Graph& graph, const std::vector<Array>& inputs,
               const std::vector<std::string>& wanted, double tolerance, std::mt19937& random, Worst& worst) {
  auto joint = vjp(graph, wanted);
  ASSERT_TRUE(joint) << what << ": " << joint.error().message;
  auto verified = verify(*joint);
  ASSERT_TRUE(verified) << what << ": " << verified.error().message;
  std::vector<Array> weights, all = inputs;
  std::uniform_real_distribution<double> numbers(-1, 1);
  const std::vector<Array> outputs = run(graph, inputs);
  for (const Array& output : outputs) {
    if (!dsl::is_float(output.element)) continue;
    Array weight = own(output.element, output.shape);
    for (int64_t i = 0; i < weight.count(); ++i) {
      set_bits(weight, i, dsl::bits_from_double(weight.element, numbers(random)));
    }
    weights.push_back(weight);
    all.push_back(weight);
  }
  const std::vector<Array> results = run(*joint, all);
  ASSERT_EQ(results.size(), outputs.size() + wanted.size()) << what;
  for (size_t i = 0; i < outputs.size(); ++i) {  // the forward part is what it was
    for (int64_t k = 0; k < outputs[i].count(); ++k) ASSERT_EQ(results[i].bits(k), outputs[i].bits(k)) << what;
  }
  for (size_t w = 0; w < wanted.size(); ++w) {
    const size_t number = input_number(graph, wanted[w]);
    const Array& gradient = results[outputs.size() + w];
    double scale = 0;
    for (int64_t k = 0; k < gradient.count(); ++k) scale = std::max(scale, std::abs(gradient.number(k)));
    ASSERT_EQ(gradient.shape, inputs[number].shape) << what;
    for (int64_t k = 0; k < gradient.count(); ++k) {
      std::vector<Array> above = inputs, below = inputs;
      above[number] = moved(inputs[number], k, kStep);
      below[number] = moved(inputs[number], k, -kStep);
      const double expected =
          (weigh(graph, run(graph, above), weights) - weigh(graph, run(graph, below), weights)) / (2 * kStep);
      compare(what + " by " + wanted[w] + "[" + std::to_string(k) + "]", gradient.number(k), expected, scale, tolerance,
              worst);
    }
    ++worst.checks;
  }
}

void check_jvp(const std::string& what, const Graph& graph, const std::vector<Array>& inputs,
               const std::vector<std::string>& wanted, double tolerance, std::mt19937& random, Worst& worst) {
  auto forward = jvp(graph, wanted);
  ASSERT_TRUE(forward) << what << ": " << forward.error().message;
  auto verified = verify(*forward);
  ASSERT_TRUE(verified) << what << ": " << verified.error().message;
  std::uniform_real_distribution<double> numbers(-1, 1);
  std::vector<Array> all = inputs, above = inputs, below = inputs;
  for (const std::string& name : wanted) {
    const size_t number = input_number(graph, name);
    Array tangent = own(inputs[number].element, inputs[number].shape);
    above[number] = copy_of(inputs[number]);
    below[number] = copy_of(inputs[number]);
    for (int64_t i = 0; i < tangent.count(); ++i) {
      const double by = numbers(random), x = inputs[number].number(i);
      set_bits(tangent, i, dsl::bits_from_double(tangent.element, by));
      set_bits(above[number], i, dsl::bits_from_double(tangent.element, x + kStep * by));
      set_bits(below[number], i, dsl::bits_from_double(tangent.element, x - kStep * by));
    }
    all.push_back(tangent);
  }
  const std::vector<Array> results = run(*forward, all), high = run(graph, above), low = run(graph, below);
  size_t next = high.size();
  for (size_t i = 0; i < high.size(); ++i) {
    if (!dsl::is_float(high[i].element)) continue;
    ASSERT_LT(next, results.size()) << what;
    const Array& tangent = results[next++];
    double scale = 0;
    for (int64_t k = 0; k < tangent.count(); ++k) scale = std::max(scale, std::abs(tangent.number(k)));
    for (int64_t k = 0; k < tangent.count(); ++k) {
      compare(what + ", tangent of output " + std::to_string(i) + "[" + std::to_string(k) + "]", tangent.number(k),
              (high[i].number(k) - low[i].number(k)) / (2 * kStep), scale, tolerance, worst);
    }
    ++worst.checks;
  }
}

void check_gradients(const GradientCase& each, const Sizes& sizes, uint32_t seed, Worst& worst) {
  std::mt19937 random(seed);
  const Graph graph = case_graph(each);
  if (graph.bodies.empty()) return;
  Sizes known;
  for (const DimInfo& dim : graph.dims) known[dim.name] = sizes.at(dim.name);
  std::string what = each.name;
  for (const auto& [name, extent] : known) what += " " + name + "=" + std::to_string(extent);
  const std::vector<Array> inputs = random_inputs(each, graph, known, random);
  const std::vector<std::string> wanted = float_inputs(graph);
  check_vjp(what, graph, inputs, wanted, each.tolerance, random, worst);
  if (::testing::Test::HasFatalFailure()) return;
  check_jvp(what + " forward", graph, inputs, wanted, each.tolerance, random, worst);
  if (::testing::Test::HasFatalFailure() || !each.second) return;
  auto first = vjp(graph, wanted);
  ASSERT_TRUE(first);
  std::vector<Array> more = inputs;
  for (size_t i = inputs.size(); i < first->main().inputs.size(); ++i) {
    more.push_back(
        random_array(*first, first->type(first->main(), first->main().inputs[i].value), known, random, -1, 1));
  }
  check_vjp(what + " again", *first, more, float_inputs(*first), each.tolerance * 10, random, worst);
}

std::vector<GradientCase> all_cases() {
  std::vector<GradientCase> out;
  for (auto* family : {elementwise_cases, view_cases, index_cases, reduce_cases, contract_cases, window_cases,
                       control_cases, custom_cases, kernel_cases, composite_cases, library_cases}) {
    for (GradientCase& each : family()) out.push_back(std::move(each));
  }
  return out;
}

}  // namespace kiln::graph::test
