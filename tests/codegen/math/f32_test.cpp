// Accuracy of the elementary functions of f32 and below on every target: a sample over all bit patterns, four times as
// large with KILN_TEST_ALL, and all patterns with KILN_MATH_EXHAUSTIVE=1 in the environment. The reference is the C
// library's double.
#include <algorithm>
#include <cstdlib>

#include "cuda_device.h"
#include "functions.h"
#include "sampled.h"
#include "vector_reference.h"

namespace kiln::test {
namespace {

struct Worst {
  double error = 0;
  float x = 0, y = 0, actual = 0;
  double expected = 0;

  void take(const Worst& other) {
    if (other.error > error) *this = other;
  }
};

// Distance in units of the last place of `expected` as an f32; infinite where a NaN, an infinity or the sign of a zero
// is wrong.
double ulps(float actual, double expected) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual) ? 0 : INFINITY;
  const auto rounded = static_cast<float>(expected);
  if (actual == rounded && (expected != 0 || std::signbit(actual) == std::signbit(expected))) return 0;
  if (std::isinf(actual) || std::isinf(expected)) return INFINITY;
  if (expected == 0) return INFINITY;
  const int exponent = std::max(std::ilogb(expected), -126);
  return std::fabs(static_cast<double>(actual) - expected) / std::ldexp(1.0, exponent - 23);
}

// An overflow one ulp early or late: the bound cannot tell it from the largest number.
bool at_overflow(float actual, double expected) {
  constexpr double kNearLargest = 3.402821e38;
  return std::fabs(expected) > kNearLargest && std::fabs(expected) < 3.402825e38 &&
         std::fabs(static_cast<double>(actual)) > kNearLargest;
}

Worst worst_of(const float* x, const float* y, const float* actual, const double* expected, size_t count) {
  Worst worst;
  for (size_t i = 0; i < count; ++i) {
    const double error = ulps(actual[i], expected[i]);
    if (error > worst.error && !at_overflow(actual[i], expected[i]))
      worst = {error, x[i], y[i], actual[i], expected[i]};
  }
  return worst;
}

// The same with references that may be off by some ulp of a double, or none: the C library's function says what counts.
Worst worst_of_many(const MathFunction& fn, const float* x, const float* actual, const double* near, size_t count) {
  Worst worst;
  for (size_t i = 0; i < count; ++i) {
    if (near) {
      if (std::bit_cast<uint32_t>(static_cast<float>(near[i])) == std::bit_cast<uint32_t>(actual[i])) continue;
      if (std::isnan(near[i]) && std::isnan(actual[i])) continue;
      if (ulps(actual[i], near[i]) <= worst.error) continue;
    }
    const double expected = math_reference(fn.fn, x[i], x[i]);
    worst.take(worst_of(&x[i], &x[i], &actual[i], &expected, 1));
  }
  return worst;
}

void expect_within(double bound, const Worst& worst, const MathFunction& fn, const std::string& target) {
  EXPECT_LE(worst.error, bound) << fn.name << "(" << worst.x << ", " << worst.y << ") = " << worst.actual
                                << " instead of " << worst.expected << " on " << (target.empty() ? "native" : target);
}

std::pair<std::vector<float>, std::vector<float>> f32_arguments(const MathFunction& fn) {
  std::mt19937_64 random(5);
  const int fraction_bits = runs_all_cases() ? 20 : 18;
  const size_t count = size_t{1} << fraction_bits;
  if (dsl::math_arity(fn.fn) == 2) return pair_arguments<float>(count / 10, random);
  std::vector<float> x = special_arguments<float>();
  append_grid_arguments(x);
  const uint32_t step = uint32_t{1} << (32 - fraction_bits);
  for (uint32_t i = 0; i < count; ++i) {
    x.push_back(std::bit_cast<float>(i * step | static_cast<uint32_t>(random() & (step - 1))));
  }
  // Just below 3/4 a logarithm is a power of two's less that of nearly 3/2: what remains is a third of either.
  for (int i = 0; i < 4096; ++i) x.push_back(0.75f - static_cast<float>(i) * 0x1p-24f);
  append_ordinary_arguments(x, count / 4, random);
  pad_arguments(x);
  return {x, x};
}

class MathOfF32 : public testing::TestWithParam<MathFunction> {};

TEST_P(MathOfF32, StaysInItsBound) {
  const MathFunction& fn = GetParam();
  const auto [x, y] = f32_arguments(fn);
  std::vector<double> expected(x.size());
  for (size_t i = 0; i < x.size(); ++i) expected[i] = math_reference(fn.fn, x[i], y[i]);
  std::string errors;
  for (const std::string& target : cpu_targets()) {
    const std::vector<float> actual = MathKernel<float>(fn, "f32", target)(x, y);
    const Worst worst = worst_of(x.data(), y.data(), actual.data(), expected.data(), x.size());
    const bool by_unit = on_cuda() && (fn.fn == dsl::MathFn::kExp || fn.fn == dsl::MathFn::kExp2);
    expect_within(by_unit ? 2.1 : fn.ulp_f32, worst, fn, target);
    errors += (target.empty() ? "native" : target.substr(4)) + " " + std::to_string(worst.error) + " ";
  }
  RecordProperty("ulp", errors);
}

#ifdef KILN_AMDGCN
TEST_P(MathOfF32, KeepsToItsBoundOnAmdWhereFunctionsChangeTheirWays) {
  const MathFunction& fn = GetParam();
  std::vector<float> x = special_arguments<float>();
  pad_arguments(x);
  std::vector<float> y = x;
  std::rotate(y.begin(), y.begin() + 57, y.end());
  std::vector<double> expected(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    expected[i] = math_reference(fn.fn, x[i], dsl::math_arity(fn.fn) == 2 ? y[i] : x[i]);
  for (const char* target : {"amd:gfx942", "amd:gfx1100"}) {
    const std::vector<float> actual = MathKernel<float>(fn, "f32", target)(x, y);
    expect_within(fn.ulp_f32, worst_of(x.data(), y.data(), actual.data(), expected.data(), x.size()), fn, target);
  }
}
#endif

class OddMathOfF32 : public testing::TestWithParam<MathFunction> {};

TEST_P(OddMathOfF32, IsExactlyOdd) {
  const MathFunction& fn = GetParam();
  const std::vector<float> x = f32_arguments(fn).first;
  std::vector<float> mirrored = x;
  for (float& value : mirrored) value = -value;
  for (const std::string& target : cpu_targets()) {
    const MathKernel<float> kernel(fn, "f32", target);
    const std::vector<float> plus = kernel(x, x), minus = kernel(mirrored, x);
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(plus[i])) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(minus[i]), std::bit_cast<uint32_t>(-plus[i])) << fn.name << " at " << x[i];
    }
  }
}

class MathOfOneOperand : public testing::TestWithParam<MathFunction> {};

// Half precision goes through f32: one rounding of a result that is a little off itself.
TEST_P(MathOfOneOperand, RoundsOnceToSmallFloats) {
  const MathFunction& fn = GetParam();
  for (const char* type : {"f16", "bf16"}) {
    const dsl::ElementType element = *dsl::parse_element_type(type);
    std::vector<uint16_t> x(1u << 16);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i);
    const std::vector<uint16_t> y = MathKernel<uint16_t>(fn, type, "")(x, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = math_reference(fn.fn, dsl::double_from_bits(element, x[i]), 0);
      const double actual = dsl::double_from_bits(element, y[i]);
      const uint64_t wanted = dsl::bits_from_double(element, expected);
      if (std::isnan(expected) ? std::isnan(actual) : actual == dsl::double_from_bits(element, wanted)) continue;
      const auto below = static_cast<uint16_t>(y[i] - 1), above = static_cast<uint16_t>(y[i] + 1);
      ASSERT_TRUE(wanted == below || wanted == above)
          << type << " " << fn.name << "(" << dsl::double_from_bits(element, x[i]) << ") = " << actual;
    }
  }
}

// `fast` may flush subnormals and lose a few ulp, never a special value.
TEST_P(MathOfF32, FastStaysNear) {
  if (!wants_targets("cpu")) GTEST_SKIP() << "on GPUs the error of `fast` grows with the argument";
  const MathFunction& fn = GetParam();
  auto [x, y] = f32_arguments(fn);
  for (const std::string& target : cpu_targets()) {
    const std::vector<float> actual = MathKernel<float>(fn, "f32", target, true)(x, y);
    Worst worst;
    for (size_t i = 0; i < x.size(); i += 3) {
      const double expected = math_reference(fn.fn, x[i], y[i]);
      const bool subnormal = std::fabs(x[i]) < 0x1p-126f || (expected != 0 && std::fabs(expected) < 0x1p-126);
      const double error = ulps(actual[i], expected);
      if (!subnormal && !at_overflow(actual[i], expected) && error > worst.error)
        worst = {error, x[i], y[i], actual[i], expected};
    }
    expect_within(fn.ulp_f32 + 3, worst, fn, target);
  }
}

TEST_P(MathOfOneOperand, StaysInItsBoundForAllArguments) {
  const MathFunction& fn = GetParam();
  if (!std::getenv("KILN_MATH_EXHAUSTIVE")) GTEST_SKIP() << "set KILN_MATH_EXHAUSTIVE=1; a minute a function";
  constexpr size_t kChunk = size_t{1} << 16;
  const MathKernel<float> kernel(fn, "f32", "");
  const VectorReference reference(fn.name);
  std::vector<float> x(kChunk);
  std::vector<double> near(kChunk);
  Worst worst;
  for (uint64_t first = 0; first < (uint64_t{1} << 32); first += kChunk) {
    for (size_t i = 0; i < kChunk; ++i) x[i] = std::bit_cast<float>(static_cast<uint32_t>(first + i));
    const std::vector<float> actual = kernel(x, x);
    if (reference.exists()) reference(x.data(), near.data(), kChunk);
    worst.take(worst_of_many(fn, x.data(), actual.data(), reference.exists() ? near.data() : nullptr, kChunk));
  }
  expect_within(fn.ulp_f32, worst, fn, "");
  std::printf("%s: %.3f ulp at %.9g\n", fn.name, worst.error, static_cast<double>(worst.x));
}

TEST(VectorReference, IsTheFunction) {
  std::vector<float> x = special_arguments<float>();
  append_grid_arguments(x);
  pad_arguments(x);
  std::vector<double> near(x.size());
  for (const MathFunction& fn : math_functions_of_one_operand()) {
    const VectorReference reference(fn.name);
    if (!reference.exists()) continue;
    reference(x.data(), near.data(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = math_reference(fn.fn, x[i], x[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(near[i])) << fn.name << "(" << x[i] << ")";
      } else if (near[i] != expected) {
        EXPECT_LE(std::fabs(near[i] - expected), std::fabs(expected) * 0x1p-50) << fn.name << "(" << x[i] << ")";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, MathOfF32, testing::ValuesIn(math_functions()), name_of_math);
INSTANTIATE_TEST_SUITE_P(Functions, OddMathOfF32, testing::ValuesIn(odd_math_functions()), name_of_math);
INSTANTIATE_TEST_SUITE_P(Functions, MathOfOneOperand, testing::ValuesIn(math_functions_of_one_operand()), name_of_math);

}  // namespace
}  // namespace kiln::test
