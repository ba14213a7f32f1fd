// Long double functions against 22 digits computed by mpmath, and the special values of C's Annex F.
#include "reference/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace kiln::reference {
namespace {

constexpr long double kInf = INFINITY;

TEST(ReferenceMath, AgainstMpmath) {
  const struct {
    const char* function;
    long double x, y, expected;
  } cases[] = {
      {"exp", 1, 0, 2.718281828459045235360L},
      {"exp2", 0.5L, 0, 1.414213562373095048802L},
      {"expm1", 0x1p-40L, 0, 9.094947017733418282213e-13L},
      {"log", 7, 0, 1.945910149055313305105L},
      {"log2", 10, 0, 3.321928094887362347870L},
      {"log10", 7, 0, 0.8450980400142568307122L},
      {"log1p", 0x1p-40L, 0, 9.094947017725146476088e-13L},
      {"sin", 1e22L, 0, -0.8522008497671888017727L},
      {"cos", 0x1p1000L, 0, 0.9872460775989134842399L},
      {"tan", 1.5L, 0, 14.10141994717171938765L},
      {"asin", 0.5L, 0, 0.5235987755982988730771L},
      {"acos", -0.5L, 0, 2.094395102393195492308L},
      {"atan", 3, 0, 1.249045772398254425830L},
      {"atan2", -1, -2, -2.677945044588987122248L},
      {"sinh", 0x1p-30L, 0, 9.313225746154785157596e-10L},
      {"cosh", 3, 0, 10.06766199577776584195L},
      {"tanh", 0.25L, 0, 0.2449186624037091292778L},
      {"erf", 0.5L, 0, 0.5204998778130465376827L},
      {"erfc", 10, 0, 2.088487583762544757001e-45L},
      {"sqrt", 5, 0, 2.236067977499789696409L},
      {"rsqrt", 7, 0, 0.3779644730092272272145L},
      {"pow", 3, -2.5L, 0.06415002990995841827879L},
      {"hypot", 1, 2, 2.236067977499789696409L},
  };
  for (const auto& [function, x, y, expected] : cases) {
    EXPECT_LE(std::fabs(math(function, x, y) - expected), 3e-19L * std::fabs(expected)) << function;
  }
}

TEST(ReferenceMath, ExactFunctions) {
  EXPECT_EQ(math("round", 0.5L), 0);
  EXPECT_EQ(math("round", 1.5L), 2);
  EXPECT_EQ(math("round", -2.5L), -2);
  EXPECT_EQ(math("floor", -0.5L), -1);
  EXPECT_EQ(math("ceil", 0.5L), 1);
  EXPECT_EQ(math("trunc", -1.9L), -1);
  EXPECT_TRUE(std::signbit(math("ceil", -0.5L)));
  EXPECT_EQ(math("copysign", 3, -0.0L), -3);
  EXPECT_EQ(math("signbit", -0.0L), 1);
  EXPECT_EQ(math("signbit", 2), 0);
  EXPECT_EQ(math("isnan", NAN), 1);
  EXPECT_EQ(math("isnan", kInf), 0);
  EXPECT_EQ(math("isinf", -kInf), 1);
  EXPECT_THROW(math("gamma", 1), std::invalid_argument);
}

TEST(ReferenceMath, SpecialValues) {
  EXPECT_EQ(math("exp", -kInf), 0);
  EXPECT_EQ(math("log", 0), -kInf);
  EXPECT_TRUE(std::isnan(math("log", -1)));
  EXPECT_EQ(math("rsqrt", 0.0L), kInf);
  EXPECT_EQ(math("rsqrt", -0.0L), -kInf);
  EXPECT_EQ(math("rsqrt", kInf), 0);
  EXPECT_EQ(math("pow", NAN, 0), 1);
  EXPECT_EQ(math("pow", 1, NAN), 1);
  EXPECT_EQ(math("hypot", NAN, -kInf), kInf);
  EXPECT_EQ(math("tanh", -kInf), -1);
  EXPECT_TRUE(std::isnan(math("sin", kInf)));
  EXPECT_EQ(math("atan2", 0.0L, 1), 0);
}

TEST(ReferenceActivations, AgainstMpmath) {
  const struct {
    long double x, sigmoid, silu, gelu_erf, gelu_tanh, softplus;
  } cases[] = {
      {1, 0.7310585786300048792512L, 0.7310585786300048792512L, 0.8413447460685429485852L, 0.841191990608276704782L,
       1.313261687518222834049L},
      {-1, 0.2689414213699951207488L, -0.2689414213699951207488L, -0.1586552539314570514148L, -0.158808009391723295218L,
       0.313261687518222834049L},
      {0.5L, 0.6224593312018545646389L, 0.3112296656009272823195L, 0.3457312306370065518189L, 0.3457140098251439220378L,
       0.974076984180106680873L},
      {-10, 4.539786870243439450478e-5L, -4.539786870243439450478e-4L, -7.619853024160526065973e-23L,
       -1.2040923482098059937e-37L, 4.539889921686464676949e-5L},
  };
  for (const auto& c : cases) {
    // e^z errs by |z| ulp of z, so the far tail of gelu_tanh has fewer digits.
    const auto near = [&](long double out, long double expected, long double rtol) {
      EXPECT_LE(std::fabs(out - expected), rtol * std::fabs(expected)) << c.x << ": " << out << " " << expected;
    };
    near(sigmoid(c.x), c.sigmoid, 4e-19L);
    near(silu(c.x), c.silu, 4e-19L);
    near(gelu_erf(c.x), c.gelu_erf, 1e-17L);
    near(gelu_tanh(c.x), c.gelu_tanh, 3e-17L);
    near(softplus(c.x), c.softplus, 4e-19L);
  }
}

TEST(ReferenceActivations, Ends) {
  EXPECT_EQ(sigmoid(kInf), 1);
  EXPECT_EQ(sigmoid(-kInf), 0);
  EXPECT_EQ(softplus(kInf), kInf);
  EXPECT_EQ(softplus(-kInf), 0);
  EXPECT_EQ(silu(kInf), kInf);
  EXPECT_EQ(gelu_erf(kInf), kInf);
  EXPECT_EQ(gelu_tanh(kInf), kInf);
  EXPECT_EQ(relu(-3), 0);
  EXPECT_EQ(relu(3), 3);
  EXPECT_TRUE(std::isnan(relu(NAN)));
  EXPECT_TRUE(std::isnan(softplus(NAN)));
  EXPECT_TRUE(std::isnan(silu(-kInf)) && std::isnan(gelu_erf(-kInf)) && std::isnan(gelu_tanh(-kInf)));
}

}  // namespace
}  // namespace kiln::reference
