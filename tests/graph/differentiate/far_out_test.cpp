// Gradients where a part of a formula overflows: by a composite's own rule and by its decomposition they are finite and
// what they should be, and so are their gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kiln/graph/decompose.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/evaluate.h"

namespace kiln::graph {
namespace {

struct FarOut {
  const char* name;
  std::function<Tensor(Tensor)> function;
  std::function<double(double)> slope;  // in f64
};

double logistic(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double soft(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }
// Times x, where what is 0 stays 0.
double times(double x, double zero) { return zero == 0 ? 0 : x * zero; }

double gelu_slope(double x) {
  const double density = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
  return std::erfc(-x / std::sqrt(2)) / 2 + times(x, density);
}
double gelu_tanh_slope(double x) {
  if (std::fabs(x) > 50) return x > 0 ? 1 : 0;
  const double k = std::sqrt(2 / M_PI), c = 0.044715, t = std::tanh(k * (x + c * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * c * x * x);
}
double mish_slope(double x) {
  const double t = std::tanh(soft(x));
  return t + times(x, (1 - t * t) * logistic(x));
}

const FarOut kCases[] = {
    {"sigmoid", [](Tensor x) { return sigmoid(x); }, [](double x) { return logistic(x) * logistic(-x); }},
    {"silu", [](Tensor x) { return silu(x); },
     [](double x) { return logistic(x) + times(x, logistic(x) * logistic(-x)); }},
    {"gelu by erf", [](Tensor x) { return gelu(x); }, gelu_slope},
    {"gelu by tanh", [](Tensor x) { return gelu(x, GeluKind::kTanh); }, gelu_tanh_slope},
    {"softplus", [](Tensor x) { return softplus(x); }, logistic},
    {"mish", [](Tensor x) { return mish(x); }, mish_slope},
    {"elu", [](Tensor x) { return elu(x); }, [](double x) { return x > 0 ? 1 : std::exp(x); }},
    {"tanh", [](Tensor x) { return tanh(x); }, [](double x) { return 1 - std::tanh(x) * std::tanh(x); }},
    {"erf", [](Tensor x) { return erf(x); }, [](double x) { return std::exp(-x * x) * 2 / std::sqrt(M_PI); }},
    {"logsumexp of x and 1", [](Tensor x) { return logsumexp(stack({x, ones_like(x)}), {0}); },
     [](double x) { return logistic(x - 1); }},
    {"softmax of x and 1", [](Tensor x) { return softmax(stack({x, ones_like(x)}), 0)(0, all); },
     [](double x) { return logistic(x - 1) * logistic(1 - x); }},
    {"max + log1p(e^-|x - 1|)", [](Tensor x) { return max(x, 1) + log1p(exp(-abs(x - 1))); },
     [](double x) { return logistic(x - 1); }},
    {"the angle to (x, 1)", [](Tensor x) { return atan2(ones_like(x), x); },
     [](double x) { return -1 / std::hypot(x, 1) / std::hypot(x, 1); }},
};

// Not 1, where one of these is halfway between two slopes.
const double kPoints[] = {0, 0.5, 3, 17, 40, 87, 89, 100, 300, 700, 720, 6e4, 1e10, 1e20, 1e30};

TEST(FarOut, GradientsAreFiniteAndRight) {
  for (const ElementType type : {f16, bf16, f32, f64}) {
    std::vector<double> points;
    for (const double point : kPoints) {
      if (type == f16 && point > 65504) continue;
      for (const double each : {point, -point}) {
        points.push_back(dsl::double_from_bits(type, dsl::bits_from_double(type, each)));
      }
    }
    const auto count = static_cast<int64_t>(points.size());
    const double within = type == f64 ? 1e-12 : type == f32 ? 2e-6 : type == f16 ? 2e-3 : 1.6e-2;
    for (const FarOut& each : kCases) {
      const GraphDef def = graph("f", {input("x", type, {count})}, [&](Tensor x) { return sum(each.function(x)); });
      ASSERT_TRUE(def.ir()) << def.ir().error().message;
      const auto plain = decompose(*def.ir());
      ASSERT_TRUE(plain) << plain.error().message;
      for (const bool own : {true, false}) {
        SCOPED_TRACE(std::string(each.name) + (own ? " of " : " decomposed, of ") + std::string(dsl::info(type).name));
        const auto back = gradient(own ? *def.ir() : *plain, {"x"});
        ASSERT_TRUE(back) << back.error().message;
        const Array x = array_of(type, {count}, points);
        const auto got = evaluate(*back, std::vector{x});
        ASSERT_TRUE(got) << got.error().message;
        const auto twice = vjp(*back, {"x"});
        ASSERT_TRUE(twice) << twice.error().message;
        const auto second =
            evaluate(*twice, std::vector{x, array_of(type, {count}, std::vector<double>(points.size(), 1))});
        ASSERT_TRUE(second) << second.error().message;
        for (int64_t i = 0; i < count; ++i) {
          const double wanted = each.slope(points[static_cast<size_t>(i)]);
          EXPECT_NEAR((*got)[0].number(i), wanted, within * (1 + std::fabs(wanted)))
              << "at " << points[static_cast<size_t>(i)];
          EXPECT_TRUE(std::isfinite(second->back().number(i))) << "again, at " << points[static_cast<size_t>(i)];
        }
      }
    }
  }
}

// The pieces of a decomposition meet where the function is smooth.
TEST(FarOut, PiecesMeet) {
  const auto slopes = [](const std::function<Tensor(Tensor)>& function, double point) {
    std::vector<double> out;
    const GraphDef def = graph("f", {input("x", f64, {})}, [&](Tensor x) { return function(x); });
    auto each = decompose(*def.ir());
    for (int order = 0; order < 3 && each; ++order) {
      each = gradient(*each, {"x"});
      if (!each) break;
      const auto value = evaluate(*each, std::vector{array_of(f64, {}, {point})});
      out.push_back(value ? (*value)[0].number(0) : NAN);
    }
    return out;
  };
  const auto expect = [&](const std::vector<double>& got, const std::vector<double>& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-12) << "derivative " << i + 1;
  };
  expect(slopes([](Tensor x) { return sigmoid(x); }, 0), {0.25, 0, -0.125});
  expect(slopes([](Tensor x) { return silu(x); }, 0), {0.5, 0.5, 0});
  expect(slopes([](Tensor x) { return softplus(x); }, 40), {1, 0, 0});
  expect(slopes([](Tensor x) { return elu(x); }, 0), {1, 1, 1});
}

}  // namespace
}  // namespace kiln::graph
