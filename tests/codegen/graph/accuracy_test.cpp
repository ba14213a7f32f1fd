// What plans lose against sums in f64.
#include <gtest/gtest.h>

#include <cmath>

#include "kiln/graph/graph.h"
#include "kiln/planner/plan_graph.h"
#include "run_plan.h"

namespace kiln::test {
namespace {

using graph::f32;
using graph::input;
using graph::Tensor;

// Columns of one number each, whose sums in f32 would be rounded the same way time and again: the largest relative
// error.
double error_of_columns(int64_t rows, int64_t columns) {
  const auto graph = graph::graph("columns", {input("x", f32, {rows, columns})}, [](Tensor x) { return sum(x, {0}); });
  auto plan = planner::plan_graph({*graph.ir(), "interp", {}});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  const graph::Array x = graph::own(f32, {rows, columns});
  auto* numbers = reinterpret_cast<float*>(x.storage->data());
  std::vector<double> wanted(static_cast<size_t>(columns));
  for (int64_t i = 0; i < rows * columns; ++i) {
    numbers[i] = 0.1F + 0.01F * static_cast<float>(i % columns);
    wanted[static_cast<size_t>(i % columns)] += numbers[i];
  }
  const auto got = run_plan(*plan, std::span(&x, 1), {});
  EXPECT_TRUE(got.ok()) << got.error().message;
  const auto* sums = reinterpret_cast<const float*>((*got)[0].data);
  double worst = 0;
  for (size_t i = 0; i < wanted.size(); ++i) worst = std::max(worst, std::abs(sums[i] - wanted[i]) / wanted[i]);
  return worst;
}

// What is rounded once is off by 6e-8 at most; a block of rows is added up in f32.
TEST(Accuracy, OfColumns) { EXPECT_LT(error_of_columns(32768, 32), 5e-7); }

}  // namespace
}  // namespace kiln::test
