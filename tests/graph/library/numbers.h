// Arrays of float64 beside which functions of graphs are tested: the graph is evaluated in f64, the other side is a
// loop.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kiln/graph/evaluate.h"
#include "kiln/graph/graph.h"

namespace kiln::graph::test {

struct Numbers {
  std::vector<int64_t> shape;
  std::vector<double> all;
  ElementType type = f64;

  Numbers(std::vector<int64_t> extents, double fill = 0, ElementType element = f64)
      : shape(std::move(extents)), all(static_cast<size_t>(count_of(shape)), fill), type(element) {}

  template <class... Index>
  double& operator()(Index... index) {
    return all[place(index...)];
  }
  template <class... Index>
  double operator()(Index... index) const {
    return all[place(index...)];
  }

 private:
  static int64_t count_of(const std::vector<int64_t>& extents) {
    int64_t count = 1;
    for (const int64_t each : extents) count *= each;
    return count;
  }
  template <class... Index>
  size_t place(Index... index) const {
    int64_t at = 0;
    size_t axis = 0;
    ((at = at * shape[axis++] + static_cast<int64_t>(index)), ...);
    EXPECT_EQ(axis, shape.size());
    return static_cast<size_t>(at);
  }
};

// Uniform in [low, high); whole ones of int types.
inline Numbers random_numbers(std::vector<int64_t> shape, uint32_t seed, double low = -2, double high = 2,
                              ElementType type = f64) {
  Numbers out(std::move(shape), 0, type);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> numbers(low, high);
  for (double& each : out.all) each = dsl::is_float(type) ? numbers(random) : std::floor(numbers(random));
  return out;
}

// What the function makes of the numbers, by the evaluator; nothing after an error.
inline std::vector<Numbers> computed(const std::vector<Numbers>& inputs,
                                     const std::function<Tensors(Tensors)>& function) {
  std::vector<InputSpec> specs;
  std::vector<Array> arrays;
  for (const Numbers& each : inputs) {
    Shape shape;
    for (const int64_t extent : each.shape) shape.emplace_back(extent);
    specs.push_back(input("x" + std::to_string(specs.size()), each.type, shape));
    arrays.push_back(array_of(each.type, each.shape, each.all));
  }
  const GraphDef def = trace("test", specs, [&](Tensors x) {
    Outputs out;
    for (const Tensor& y : function(std::move(x))) out.emplace_back("y" + std::to_string(out.size()), y);
    return out;
  });
  if (!def.ir()) {
    ADD_FAILURE() << def.ir().error().message;
    return {};
  }
  const auto results = evaluate(*def.ir(), arrays);
  if (!results) {
    ADD_FAILURE() << results.error().message;
    return {};
  }
  std::vector<Numbers> out;
  for (const Array& each : *results) {
    Numbers numbers(each.shape, 0, each.element);
    for (int64_t i = 0; i < each.count(); ++i) numbers.all[static_cast<size_t>(i)] = each.number(i);
    out.push_back(std::move(numbers));
  }
  return out;
}

// Of the same shape; |actual - expected| ≤ tolerance·(1 + |expected|), and the same infinities.
inline void expect_numbers(const char* what, const Numbers& actual, const Numbers& expected, double tolerance = 1e-12) {
  ASSERT_EQ(actual.shape, expected.shape) << what;
  for (size_t i = 0; i < actual.all.size(); ++i) {
    const double a = actual.all[i], b = expected.all[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ASSERT_LE(std::fabs(a - b), tolerance * (1 + std::fabs(b))) << what << " at " << i << ": " << a << ", not " << b;
  }
}

// The message of a function that is refused.
inline std::string refusal(std::vector<InputSpec> inputs, const std::function<Tensors(Tensors)>& function) {
  const GraphDef def = trace("test", std::move(inputs), [&](Tensors x) {
    Outputs out;
    for (const Tensor& y : function(std::move(x))) out.emplace_back("y" + std::to_string(out.size()), y);
    return out;
  });
  EXPECT_FALSE(def.ir()) << "an error was expected";
  return def.ir() ? "" : def.ir().error().message;
}

}  // namespace kiln::graph::test
