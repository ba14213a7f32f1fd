// mulhi and the elementary functions of the interpreter.
#include "interpreter_helpers.h"

namespace kiln::dsl::testing {
namespace {

using E = ElementType;
using Bits = std::vector<uint64_t>;

std::vector<double> values(const Elements& elements) {
  std::vector<double> out;
  for (uint64_t bits : elements.bits) out.push_back(double_from_bits(elements.type, bits));
  return out;
}
std::vector<double> math(const std::string& fn, const std::vector<Elements>& x) {
  return values(run_op("math " + std::string(x.size() == 2 ? "%x0, %x1" : "%x0") + " {fn = " + fn + "}", x, x[0].type));
}

TEST(InterpreterInts, MulhiIsTheHighHalfBySignedness) {
  EXPECT_EQ(run_op("mulhi %x0, %x1", {ints(E::kI8, {-128, 127, -1}), ints(E::kI8, {-128, 127, 1})}, E::kI8).bits,
            ints(E::kI8, {64, 63, -1}).bits);
  EXPECT_EQ(run_op("mulhi %x0, %x1", {ints(E::kU64, {-1}), ints(E::kU64, {-1})}, E::kU64).bits, (Bits{~uint64_t{1}}));
  EXPECT_EQ(run_op("mulhi %x0, %x1", {ints(E::kI64, {INT64_MIN}), ints(E::kI64, {INT64_MIN})}, E::kI64).bits,
            (Bits{uint64_t{1} << 62}));
  EXPECT_EQ(run_op("mulhi %x0, %x1", {ints(E::kU32, {-1}), ints(E::kU32, {-1})}, E::kU32).bits, (Bits{0xfffffffe}));
}

TEST(InterpreterMath, FunctionsOfTwoOperands) {
  const double inf = INFINITY;
  EXPECT_EQ(math("pow", {f32s({2, -2, 0, 1}), f32s({10, 3, -1, NAN})}), (std::vector<double>{1024, -8, inf, 1}));
  EXPECT_EQ(math("pow", {f32s({-1, NAN, -INFINITY}), f32s({INFINITY, 0, -3})}), (std::vector<double>{1, 1, -0.0}));
  EXPECT_EQ(math("hypot", {f32s({3, INFINITY, 3e38f}), f32s({4, NAN, 0})}),
            (std::vector<double>{5, inf, static_cast<float>(3e38)}));
  EXPECT_EQ(math("atan2", {f32s({0, -0.0f}), f32s({-1, -1})}),
            (std::vector<double>{static_cast<float>(M_PI), -static_cast<float>(M_PI)}));
  const Elements copied = run_op("math %x0, %x1 {fn = copysign}", {f32s({1, NAN}), f32s({-0.0f, -1})}, E::kF32);
  EXPECT_EQ(copied.bits, (Bits{0xbf800000, 0xffc00000}));
}

// Exact whatever the exponent: even and odd ones, and those that no int holds.
TEST(InterpreterMath, PowersOfInfinityOfF64) {
  const auto f64s = [](const std::vector<double>& numbers) {
    Elements out{E::kF64, {}};
    for (double number : numbers) out.bits.push_back(std::bit_cast<uint64_t>(number));
    return out;
  };
  for (int exponent = 0; exponent < 80; ++exponent) {
    const double y = std::ldexp(1.0, exponent);
    const bool is_odd = exponent == 0;
    const auto out = math("pow", {f64s({-INFINITY, -INFINITY, INFINITY, INFINITY}), f64s({y, -y, y, -y})});
    EXPECT_EQ(out, (std::vector<double>{is_odd ? -INFINITY : INFINITY, 0, INFINITY, 0})) << y;
    EXPECT_EQ(std::signbit(out[1]), is_odd) << y;
  }
}

TEST(InterpreterMath, FloatTestsGiveI1) {
  const Elements x = f32s({-0.0f, 0, NAN, -INFINITY, 1e-45f});
  auto test = [&](const std::string& fn) { return run_op("math %x0 {fn = " + fn + "}", {x}, E::kI1).bits; };
  EXPECT_EQ(test("signbit"), (Bits{1, 0, 0, 1, 0}));
  EXPECT_EQ(test("isnan"), (Bits{0, 0, 1, 0, 0}));
  EXPECT_EQ(test("isinf"), (Bits{0, 0, 0, 1, 0}));
  EXPECT_EQ(run_op("math %x0 {fn = signbit}", {{E::kF16, {0x8000, 0xfe00, 0x7e00}}}, E::kI1).bits, (Bits{1, 1, 0}));
}

TEST(InterpreterMath, SpecialValues) {
  EXPECT_EQ(math("log", {f32s({0, -0.0f, 1, INFINITY})}), (std::vector<double>{-INFINITY, -INFINITY, 0, INFINITY}));
  EXPECT_TRUE(std::isnan(math("log", {f32s({-1})})[0]));
  EXPECT_EQ(math("rsqrt", {f32s({0, -0.0f, INFINITY})}), (std::vector<double>{INFINITY, -INFINITY, 0}));
  EXPECT_EQ(math("exp2", {f32s({-149, -150, 127, 128})}), (std::vector<double>{0x1p-149, 0, 0x1p127, INFINITY}));
  EXPECT_EQ(math("log10", {f64s({1000})}), (std::vector<double>{3}));
  EXPECT_EQ(math("log1p", {f32s({1e-30f})})[0], 1e-30f);
  EXPECT_EQ(math("expm1", {f32s({1e-30f})})[0], 1e-30f);
}

TEST(InterpreterMath, OddFunctionsAreExactlyOdd) {
  std::vector<float> x, minus;
  for (float value = 1e-40f; value < 1e30f; value *= 3.7f) x.push_back(value), minus.push_back(-value);
  std::vector<double> wide(x.begin(), x.end()), wide_minus(minus.begin(), minus.end());
  for (const char* fn : {"sin", "tan", "asin", "atan", "sinh", "tanh", "erf"}) {
    const auto up = math(fn, {f32s(x)}), down = math(fn, {f32s(minus)});
    const auto up64 = math(fn, {f64s(wide)}), down64 = math(fn, {f64s(wide_minus)});
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_TRUE(up[i] == -down[i] || (std::isnan(up[i]) && std::isnan(down[i]))) << fn << " " << x[i];
      EXPECT_TRUE(up64[i] == -down64[i] || (std::isnan(up64[i]) && std::isnan(down64[i]))) << fn << " " << x[i];
    }
  }
}

TEST(InterpreterFloats, LanesOf16BitsAreThoseOfTheTypes) {
  // Every value there is, and what lies between neighbours, against the plain conversions of types.h.
  for (E type : {E::kF16, E::kBF16}) {
    Elements all{type, {}}, between{E::kF32, {}};
    for (uint64_t bits = 0; bits < 65536; ++bits) {
      all.bits.push_back(bits);
      const double value = double_from_bits(type, bits), next = double_from_bits(type, bits ^ 1);
      for (double x : {value, (value + next) / 2, std::nextafter(static_cast<float>((value + next) / 2), 0.0f) * 1.0}) {
        between.bits.push_back(bits_from_double(E::kF32, x));
      }
    }
    const std::string name(info(type).name);
    const Elements wide = run_op("cast %x0 {to = f32}", {all}, E::kF32);
    const Elements narrow = run_op("cast %x0 {to = " + name + "}", {between}, type);
    for (size_t i = 0; i < all.bits.size(); ++i) {
      const double expected = double_from_bits(type, i), got = float_of(wide.bits[i]);
      ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected))) << name << " " << i;
    }
    for (size_t i = 0; i < between.bits.size(); ++i) {
      const double x = float_of(between.bits[i]);
      const double got = double_from_bits(type, narrow.bits[i]),
                   expected = double_from_bits(type, bits_from_double(type, x));
      ASSERT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected))) << name << " " << x;
      ASSERT_EQ(std::signbit(got), std::signbit(expected)) << name << " " << x;
    }
  }
}

}  // namespace
}  // namespace kiln::dsl::testing
