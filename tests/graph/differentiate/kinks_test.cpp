// Where there is no derivative a rule says which slope it takes: PyTorch's, where PyTorch says one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "differentiate/differences.h"
#include "kiln/graph/decompose.h"
#include "kiln/graph/differentiate.h"

namespace kiln::graph::test {
namespace {

using Point = std::vector<double>;

// Gradients by inputs of one axis each of the sum of a function.
std::vector<Point> slopes(const std::vector<Point>& points, const std::function<Tensor(Tensors)>& function) {
  std::vector<InputSpec> specs;
  std::vector<Array> inputs;
  std::vector<std::string> names;
  for (const Point& each : points) {
    names.push_back("x" + std::to_string(names.size()));
    specs.push_back(input(names.back(), f64, {static_cast<int64_t>(each.size())}));
    inputs.push_back(array_of(f64, {static_cast<int64_t>(each.size())}, each));
  }
  const GraphDef def = graph("f", specs, [&](Tensors x) { return sum(function(std::move(x))); });
  const GraphDef back = grad(def, names);
  EXPECT_TRUE(back.ir()) << back.ir().error().message;
  auto values = evaluate(*back.ir(), inputs);
  EXPECT_TRUE(values) << values.error().message;
  std::vector<Point> out;
  for (const Array& each : *values) {
    out.emplace_back();
    for (int64_t i = 0; i < each.count(); ++i) out.back().push_back(each.number(i));
  }
  return out;
}

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Kinks, OfOneElement) {
  EXPECT_EQ(slopes({{0, -0.0, -2}}, [](Tensors x) { return abs(x[0]); })[0], (Point{0, 0, -1}));
  EXPECT_EQ(slopes({{0, 1}}, [](Tensors x) { return relu(x[0]); })[0], (Point{0, 1}));
  EXPECT_EQ(slopes({{-1, 1, 1.5}}, [](Tensors x) { return clamp(x[0], -1, 1); })[0], (Point{1, 1, 0}));
  EXPECT_EQ(slopes({{0, 3}}, [](Tensors x) { return copysign(x[0], -1.0); })[0], (Point{0, -1}));
  const auto max_of_two = slopes({{1, 2, 3}, {1, 3, 2}}, [](Tensors x) { return max(x[0], x[1]); });
  EXPECT_EQ(max_of_two, (std::vector<Point>{{0.5, 0, 1}, {0.5, 1, 0}}));
  const auto origin = slopes({{0, 3}, {0, 4}}, [](Tensors x) { return hypot(x[0], x[1]); });
  EXPECT_EQ(origin[0][0], 0);
  EXPECT_EQ(origin[1][0], 0);
  EXPECT_DOUBLE_EQ(origin[0][1], 0.6);
  EXPECT_EQ(slopes({{0, 0}, {0, 2}}, [](Tensors x) { return atan2(x[0], x[1]); }),
            (std::vector<Point>{{0, 0.5}, {0, 0}}));
}

TEST(Kinks, OfPowers) {
  // By the base at 0: of x^0 none, of x^1 one, of x^2 none; by the exponent where the base is 0: none.
  const auto at_zero = slopes({{0, 0, 0}, {0, 1, 2}}, [](Tensors x) { return pow(x[0], x[1]); });
  EXPECT_EQ(at_zero, (std::vector<Point>{{0, 1, 0}, {0, 0, 0}}));
  const auto negative = slopes({{-2}}, [](Tensors x) { return pow(x[0], 2); });
  EXPECT_EQ(negative[0], (Point{-4}));
}

TEST(Kinks, OfReductions) {
  EXPECT_EQ(slopes({{3, 1, 3, 3}}, [](Tensors x) { return reduce_max(x[0]); })[0],
            (Point{1.0 / 3, 0, 1.0 / 3, 1.0 / 3}));
  EXPECT_EQ(slopes({{2, 0, 5}}, [](Tensors x) { return prod(x[0]); })[0], (Point{0, 10, 0}));
  EXPECT_EQ(slopes({{0, 3, 0}}, [](Tensors x) { return prod(x[0]); })[0], (Point{0, 0, 0}));
  EXPECT_EQ(slopes({{2, 0, 5}}, [](Tensors x) { return scan(x[0], ReduceKind::kProd, 0); })[0], (Point{1, 12, 0}));
  // The first of equal ones has it all.
  EXPECT_EQ(slopes({{1, 3, 3, 2}}, [](Tensors x) { return scan(x[0], ReduceKind::kMax, 0); })[0], (Point{1, 3, 0, 0}));
  EXPECT_EQ(slopes({{1, 3, 3, 2}}, [](Tensors x) { return scan(x[0], ReduceKind::kMax, 0, true); })[0],
            (Point{0, 0, 3, 1}));
  EXPECT_EQ(slopes({{-kInf, -kInf}}, [](Tensors x) { return logsumexp(x[0], {0}, true); })[0], (Point{0, 0}));
}

TEST(Kinks, OfWhatIsPutTwice) {
  const auto at = [] { return constant(i64, {3}, {1, 1, 0}); };
  const auto put = [&](ScatterKind kind) {
    return slopes({{1, 2, 3}, {4, 5, 6}},
                  [&](Tensors x) { return scatter(x[0], at(), x[1], 0, kind) * iota(f64, {3}, 0); });
  };
  EXPECT_EQ(put(ScatterKind::kSet), (std::vector<Point>{{0, 0, 2}, {0, 1, 0}}));
  EXPECT_EQ(put(ScatterKind::kAdd), (std::vector<Point>{{0, 1, 2}, {1, 1, 0}}));
  EXPECT_EQ(put(ScatterKind::kMul), (std::vector<Point>{{0, 20, 2}, {10, 8, 0}}));
  EXPECT_EQ(put(ScatterKind::kMax), (std::vector<Point>{{0, 0, 2}, {0, 1, 0}}));
  const auto zeros =
      slopes({{1, 2, 3}, {0, 5, 0}}, [&](Tensors x) { return scatter(x[0], at(), x[1], 0, ScatterKind::kMul); });
  EXPECT_EQ(zeros, (std::vector<Point>{{0, 0, 1}, {10, 0, 1}}));
  const auto ties =
      slopes({{1, 5, 3}, {5, 5, 0}}, [&](Tensors x) { return scatter(x[0], at(), x[1], 0, ScatterKind::kMax); });
  EXPECT_EQ(ties, (std::vector<Point>{{1, 1.0 / 3, 1}, {1.0 / 3, 1.0 / 3, 0}}));
}

// Found by random graphs: what nothing depends on sends nothing back, through a slope that is infinite either.
TEST(Composites, SendNothingBackFromWhatIsNotUsed) {
  // The step's square root is of 0, and only the first moment is used.
  const auto moment = slopes({{0, 3}}, [](Tensors x) {
    const Tensor none = zeros(f64, {2});
    return adam_step(x[0], x[0], none, none, full({}, 0.1, f64), full({}, 1, f64)).m;
  });
  EXPECT_EQ(moment[0].size(), 2u);
  for (const double slope : moment[0]) EXPECT_NEAR(slope, 0.1, 1e-12);
}

// A composite's own rule gives what its decomposition's does.
TEST(Composites, HaveTheGradientsOfTheirDecompositions) {
  int compared = 0;
  for (const GradientCase& each : composite_cases()) {
    std::mt19937 random(5);
    const Graph whole = case_graph(each);
    auto plain = decompose(whole);
    ASSERT_TRUE(plain) << each.name << ": " << plain.error().message;
    const std::vector<std::string> wanted = float_inputs(whole);
    auto one = vjp(whole, wanted), other = vjp(*plain, wanted);
    ASSERT_TRUE(one) << each.name << ": " << one.error().message;
    ASSERT_TRUE(other) << each.name << ": " << other.error().message;
    const Sizes all = {{"n", 3}, {"m", 2}};
    Sizes sizes;
    for (const DimInfo& dim : whole.dims) sizes[dim.name] = all.at(dim.name);
    std::vector<Array> inputs = random_inputs(each, whole, sizes, random);
    for (size_t i = inputs.size(); i < one->main().inputs.size(); ++i) {
      inputs.push_back(random_array(*one, one->type(one->main(), one->main().inputs[i].value), sizes, random, -1, 1));
    }
    auto a = evaluate(*one, inputs), b = evaluate(*other, inputs);
    ASSERT_TRUE(a) << each.name << ": " << a.error().message;
    ASSERT_TRUE(b) << each.name << ": " << b.error().message;
    for (size_t i = whole.main().outputs.size(); i < a->size(); ++i) {
      for (int64_t k = 0; k < (*a)[i].count(); ++k) {
        EXPECT_NEAR((*a)[i].number(k), (*b)[i].number(k), 1e-9 * std::max(1.0, std::abs((*b)[i].number(k))))
            << each.name;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 60);
}

}  // namespace
}  // namespace kiln::graph::test
