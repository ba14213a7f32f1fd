// What the tests of recognise() share: a graph before and after, compared by number.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "kiln/graph/evaluate.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/recognise.h"

namespace kiln::graph::recognising {

using Found = std::map<TensorOp, int>;

inline std::string text(const Found& found) {
  std::string out;
  for (const auto& [op, count] : found) out += info(op).name + ":" + std::to_string(count) + " ";
  return out;
}

// Sizes of dims that the tests use.
inline int64_t size_of(const Graph& graph, const Expr& extent) {
  dsl::Bindings sizes;
  const std::map<std::string, int64_t> known = {{"b", 2}, {"n", 5}, {"m", 4}, {"h", 3}, {"c", 6}, {"d", 4}};
  for (const DimInfo& dim : graph.dims) sizes.constexprs.push_back(known.at(dim.name));
  return *extent.evaluate(sizes);
}

// Numbers of both signs around 0; of ints 0 … 3; of i1, and of what is called a mask, mostly 1.
inline std::vector<Array> inputs_of(const Graph& graph) {
  std::vector<Array> out;
  int seed = 1;
  for (const Input& input : graph.main().inputs) {
    const TensorType& type = graph.type(graph.main(), input.value);
    std::vector<int64_t> shape;
    int64_t count = 1;
    for (const Expr& extent : type.shape) {
      shape.push_back(size_of(graph, extent));
      count *= shape.back();
    }
    std::vector<double> numbers;
    for (int64_t i = 0; i < count; ++i) {
      const double wave = std::sin(static_cast<double>(i * 5 + seed * 11) * 0.7);
      const bool mask = type.element == i1 || input.name == "mask";
      if (dsl::is_float(type.element) && !mask) numbers.push_back(wave * 2);
      const bool first = input.name == "mask" && i % shape.back() == 0;  // no row that sees nothing
      if (mask) numbers.push_back(first || wave > -0.8 ? 1 : 0);
      if (dsl::is_int(type.element) && !mask) numbers.push_back(static_cast<double>((i * 7 + seed) % 4));
    }
    out.push_back(array_of(type.element, shape, numbers));
    ++seed;
  }
  return out;
}

inline void expect_same_numbers(const Graph& before, const Graph& after, double tolerance) {
  const std::vector<Array> inputs = inputs_of(before);
  auto wanted = evaluate(before, inputs), got = evaluate(after, inputs);
  ASSERT_TRUE(wanted) << wanted.error().message;
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(got->size(), wanted->size());
  for (size_t k = 0; k < got->size(); ++k) {
    const Array &a = (*got)[k], &b = (*wanted)[k];
    ASSERT_EQ(a.element, b.element);
    ASSERT_EQ(a.shape, b.shape);
    for (int64_t i = 0; i < a.count(); ++i) {
      if (std::isnan(a.number(i)) && std::isnan(b.number(i))) continue;
      ASSERT_NEAR(a.number(i), b.number(i), tolerance * (1 + std::fabs(b.number(i)))) << "output " << k << ", " << i;
    }
  }
}

// What is found in a graph that a function traces, with the numbers compared.
inline Graph recognised(const GraphDef& def, const Found& wanted, double tolerance = 2e-6) {
  if (!def.ir()) {
    ADD_FAILURE() << def.ir().error().message;
    return {};
  }
  auto out = recognise(*def.ir());
  if (!out) {
    ADD_FAILURE() << out.error().message;
    return {};
  }
  EXPECT_EQ(text(out->found), text(wanted));
  expect_same_numbers(*def.ir(), out->graph, tolerance);
  return std::move(out->graph);
}

template <class Function>
Graph recognised(std::vector<InputSpec> inputs, Function function, const Found& wanted, double tolerance = 2e-6) {
  return recognised(graph("g", std::move(inputs), function), wanted, tolerance);
}

// The only node of an op.
inline const Node& only(const Graph& graph, TensorOp op) {
  const Node* out = nullptr;
  for (const Node& node : graph.main().nodes) {
    if (node.op != op) continue;
    EXPECT_EQ(out, nullptr) << "several " << info(op).name;
    out = &node;
  }
  EXPECT_NE(out, nullptr) << "no " << info(op).name;
  static const Node none{};
  return out ? *out : none;
}

}  // namespace kiln::graph::recognising
