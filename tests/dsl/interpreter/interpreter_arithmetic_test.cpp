// Arithmetic and bit operations of the interpreter against formulas written apart from it.
#include "interpreter_helpers.h"

namespace kiln::dsl::testing {
namespace {

using E = ElementType;

// All pairs of the values of an 8-bit type.
struct Pairs {
  Elements a, b;
};
Pairs all_pairs(E type) {
  Pairs out{{type, {}}, {type, {}}};
  for (uint64_t x = 0; x < 256; ++x) {
    for (uint64_t y = 0; y < 256; ++y) {
      out.a.bits.push_back(x);
      out.b.bits.push_back(y);
    }
  }
  return out;
}

template <class T, class Function>
void expect_8bit(const std::string& op, E type, Function expected) {
  const Pairs pairs = all_pairs(type);
  const Elements got =
      run_op(op + " %x0, %x1" + (op == "min" || op == "max" ? " {numeric = 0}" : ""), {pairs.a, pairs.b}, type);
  for (size_t i = 0; i < got.bits.size(); ++i) {
    const T x = static_cast<T>(pairs.a.bits[i]), y = static_cast<T>(pairs.b.bits[i]);
    ASSERT_EQ(static_cast<T>(got.bits[i]), static_cast<T>(expected(x, y))) << op << " " << int(x) << " " << int(y);
  }
}

TEST(InterpreterInts, SignedArithmeticOfAllPairsOf8Bits) {
  expect_8bit<int8_t>("add", E::kI8, [](int x, int y) { return x + y; });
  expect_8bit<int8_t>("sub", E::kI8, [](int x, int y) { return x - y; });
  expect_8bit<int8_t>("mul", E::kI8, [](int x, int y) { return x * y; });
  expect_8bit<int8_t>("div", E::kI8, [](int x, int y) { return y == 0 ? 0 : x / y; });
  expect_8bit<int8_t>("rem", E::kI8, [](int x, int y) { return y == 0 ? x : x % y; });
  expect_8bit<int8_t>("min", E::kI8, [](int x, int y) { return std::min(x, y); });
  expect_8bit<int8_t>("max", E::kI8, [](int x, int y) { return std::max(x, y); });
}

TEST(InterpreterInts, UnsignedArithmeticOfAllPairsOf8Bits) {
  expect_8bit<uint8_t>("add", E::kU8, [](unsigned x, unsigned y) { return x + y; });
  expect_8bit<uint8_t>("sub", E::kU8, [](unsigned x, unsigned y) { return x - y; });
  expect_8bit<uint8_t>("div", E::kU8, [](unsigned x, unsigned y) { return y == 0 ? 0 : x / y; });
  expect_8bit<uint8_t>("rem", E::kU8, [](unsigned x, unsigned y) { return y == 0 ? x : x % y; });
  expect_8bit<uint8_t>("max", E::kU8, [](unsigned x, unsigned y) { return std::max(x, y); });
}

TEST(InterpreterInts, BitsAndShiftsOfAllPairsOf8Bits) {
  expect_8bit<uint8_t>("and", E::kU8, [](unsigned x, unsigned y) { return x & y; });
  expect_8bit<uint8_t>("or", E::kU8, [](unsigned x, unsigned y) { return x | y; });
  expect_8bit<uint8_t>("xor", E::kU8, [](unsigned x, unsigned y) { return x ^ y; });
  expect_8bit<uint8_t>("shl", E::kU8, [](unsigned x, unsigned y) { return y >= 8 ? 0 : x << y; });
  expect_8bit<uint8_t>("shr", E::kU8, [](unsigned x, unsigned y) { return y >= 8 ? 0 : x >> y; });
  // A negative amount counts as unsigned, so it is above the width.
  expect_8bit<int8_t>("shr", E::kI8, [](int x, int y) { return y < 0 || y >= 8 ? (x < 0 ? -1 : 0) : x >> y; });
  expect_8bit<int8_t>("shl", E::kI8, [](int x, int y) { return y < 0 || y >= 8 ? 0 : x * (1 << y); });
}

TEST(InterpreterInts, ExtremesOf32And64Bits) {
  constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min(), kMax64 = std::numeric_limits<int64_t>::max();
  const Elements a = ints(E::kI64, {kMin64, kMin64, kMax64, kMin64, 7, -7, kMax64});
  const Elements b = ints(E::kI64, {-1, 0, 2, 3, -2, 2, kMax64});
  EXPECT_EQ(run_op("div %x0, %x1", {a, b}, E::kI64).bits,
            ints(E::kI64, {kMin64, 0, kMax64 / 2, kMin64 / 3, -3, -3, 1}).bits);
  EXPECT_EQ(run_op("rem %x0, %x1", {a, b}, E::kI64).bits, ints(E::kI64, {0, kMin64, 1, -2, 1, -1, 0}).bits);
  EXPECT_EQ(run_op("mul %x0, %x1", {a, b}, E::kI64).bits, ints(E::kI64, {kMin64, 0, -2, kMin64, -14, -14, 1}).bits);
  EXPECT_EQ(run_op("abs %x0", {a}, E::kI64).bits, ints(E::kI64, {kMin64, kMin64, kMax64, kMin64, 7, 7, kMax64}).bits);
  EXPECT_EQ(run_op("neg %x0", {a}, E::kI64).bits,
            ints(E::kI64, {kMin64, kMin64, -kMax64, kMin64, -7, 7, -kMax64}).bits);
  const Elements c = ints(E::kU64, {-1, -1}), d = ints(E::kU64, {2, -1});
  EXPECT_EQ(run_op("div %x0, %x1", {c, d}, E::kU64).bits, (std::vector<uint64_t>{~uint64_t{0} / 2, 1}));
  const Elements e = ints(E::kI32, {INT32_MIN, INT32_MIN}), f = ints(E::kI32, {-1, 1});
  EXPECT_EQ(run_op("sub %x0, %x1", {e, f}, E::kI32).bits, ints(E::kI32, {INT32_MIN + 1, INT32_MAX}).bits);
}

// Same bits, or both NaN.
template <class T>
void expect_same(T got, T expected, const std::string& what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(got)) << what << " is " << got;
  } else {
    EXPECT_EQ(got, expected) << what;
    EXPECT_EQ(std::signbit(got), std::signbit(expected)) << what;
  }
}

template <class T, class Function>
void expect_floats(const std::string& op, Function expected) {
  std::vector<T> x, y;
  for (double a : special_values()) {
    for (double b : special_values()) {
      x.push_back(static_cast<T>(a));
      y.push_back(static_cast<T>(b));
    }
  }
  Elements a, b;
  if constexpr (sizeof(T) == 4)
    a = f32s(x), b = f32s(y);
  else
    a = f64s(x), b = f64s(y);
  const Elements got = run_op(op, {a, b}, a.type);
  for (size_t i = 0; i < x.size(); ++i) {
    T value;
    if constexpr (sizeof(T) == 4)
      value = float_of(got.bits[i]);
    else
      value = double_of(got.bits[i]);
    expect_same(value, static_cast<T>(expected(x[i], y[i])),
                op + " of " + std::to_string(x[i]) + ", " + std::to_string(y[i]));
  }
}

TEST(InterpreterFloats, ArithmeticIsIeee) {
  expect_floats<float>("add %x0, %x1", [](float x, float y) { return x + y; });
  expect_floats<float>("sub %x0, %x1", [](float x, float y) { return x - y; });
  expect_floats<float>("mul %x0, %x1", [](float x, float y) { return x * y; });
  expect_floats<float>("div %x0, %x1", [](float x, float y) { return x / y; });
  expect_floats<float>("rem %x0, %x1", [](float x, float y) { return std::fmod(x, y); });
  expect_floats<float>("fma %x0, %x1, %x0", [](float x, float y) { return std::fma(x, y, x); });
  expect_floats<double>("add %x0, %x1", [](double x, double y) { return x + y; });
  expect_floats<double>("mul %x0, %x1", [](double x, double y) { return x * y; });
  expect_floats<double>("div %x0, %x1", [](double x, double y) { return x / y; });
  expect_floats<double>("fma %x0, %x1, %x0", [](double x, double y) { return std::fma(x, y, x); });
}

TEST(InterpreterFloats, MinAndMaxPropagateNanUnlessNumeric) {
  const float nan = std::nanf("");
  const Elements a = f32s({1, nan, 2, nan}), b = f32s({2, 1, nan, nan});
  auto values = [&](const char* op) {
    std::vector<float> out;
    for (uint64_t bits : run_op(op, {a, b}, E::kF32).bits) out.push_back(float_of(bits));
    return out;
  };
  auto min = values("min %x0, %x1 {numeric = 0}"), max = values("max %x0, %x1 {numeric = 0}");
  EXPECT_EQ(min[0], 1);
  EXPECT_EQ(max[0], 2);
  for (size_t i = 1; i < 4; ++i) EXPECT_TRUE(std::isnan(min[i]) && std::isnan(max[i]));
  auto low = values("min %x0, %x1 {numeric = 1}"), high = values("max %x0, %x1 {numeric = 1}");
  EXPECT_EQ(low[1], 1);
  EXPECT_EQ(high[2], 2);
  EXPECT_TRUE(std::isnan(low[3]) && std::isnan(high[3]));
}

TEST(InterpreterFloats, NegAndAbsTouchTheSignBitAlone) {
  const Elements x = f32s({0.0f, -0.0f, 1.5f, -1.5f, std::nanf("")});
  const Elements neg = run_op("neg %x0", {x}, E::kF32), abs = run_op("abs %x0", {x}, E::kF32);
  for (size_t i = 0; i < x.bits.size(); ++i) {
    EXPECT_EQ(neg.bits[i], x.bits[i] ^ 0x80000000u);
    EXPECT_EQ(abs.bits[i], x.bits[i] & 0x7fffffffu);
  }
  EXPECT_EQ(run_op("neg %x0", {{E::kF16, {0, 0x3c00}}}, E::kF16).bits, (std::vector<uint64_t>{0x8000, 0xbc00}));
}

TEST(InterpreterFloats, SmallFloatsComputeInF32AndRoundOnce) {
  // 2048 + 1 is no f16: halfway, to even. 65504 + 32 overflows to inf. In bf16 256 + 1 stays 256.
  auto f16 = [](double value) { return bits_from_double(E::kF16, value); };
  auto bf16 = [](double value) { return bits_from_double(E::kBF16, value); };
  const Elements a{E::kF16, {f16(2048), f16(2048), f16(65504), f16(-0.0)}},
      b{E::kF16, {f16(1), f16(3), f16(32), f16(0)}};
  EXPECT_EQ(run_op("add %x0, %x1", {a, b}, E::kF16).bits,
            (std::vector<uint64_t>{f16(2048), f16(2052), 0x7c00, f16(0.0)}));
  const Elements c{E::kBF16, {bf16(256), bf16(3)}}, d{E::kBF16, {bf16(1), bf16(1.5)}};
  EXPECT_EQ(run_op("add %x0, %x1", {c, d}, E::kBF16).bits, (std::vector<uint64_t>{bf16(256), bf16(4.5)}));
  // f16 products are exact in f32; the fused sum of two is rounded once there and once to f16.
  const Elements e{E::kF16, {f16(1.0009765625)}};
  EXPECT_EQ(run_op("fma %x0, %x0, %x0", {e}, E::kF16).bits[0],
            f16(std::fma(1.0009765625f, 1.0009765625f, 1.0009765625f)));
  const Elements f8{E::kF8E4M3, {bits_from_double(E::kF8E4M3, 448)}};
  EXPECT_EQ(run_op("add %x0, %x0", {f8}, E::kF8E4M3).bits[0], f8.bits[0]);  // saturates
}

// Distance in units of the last place of the expected f32.
double ulps(float got, long double expected) {
  if (std::isnan(expected)) return std::isnan(got) ? 0 : 1e9;
  if (got == static_cast<float>(expected)) return 0;
  const float near = static_cast<float>(expected);
  const long double unit = std::fabs(static_cast<long double>(std::nextafterf(near, INFINITY)) - near);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - expected) / unit);
}

TEST(InterpreterMath, FunctionsAreWithinHalfAnUlpAndABit) {
  struct Case {
    const char* name;
    long double (*reference)(long double);
  };
  const Case cases[] = {{"exp", std::exp},   {"exp2", std::exp2},   {"log", std::log},   {"log2", std::log2},
                        {"sin", std::sin},   {"cos", std::cos},     {"tanh", std::tanh}, {"erf", std::erf},
                        {"sqrt", std::sqrt}, {"floor", std::floor}, {"ceil", std::ceil}, {"trunc", std::trunc}};
  std::vector<float> x;
  for (double value : special_values()) x.push_back(static_cast<float>(value));
  for (float value = -30; value < 30; value += 0.37f) x.push_back(value);
  for (const Case& item : cases) {
    const Elements got = run_op(std::string("math %x0 {fn = ") + item.name + "}", {f32s(x)}, E::kF32);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(ulps(float_of(got.bits[i]), item.reference(x[i])), 0.51) << item.name << "(" << x[i] << ")";
    }
  }
}

TEST(InterpreterMath, RoundIsToEvenAndRsqrtIsCorrect) {
  const Elements x = f32s({0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 4});
  const float rounded[] = {0, 2, 2, -0.0f, -2, 4};
  const Elements got = run_op("math %x0 {fn = round}", {x}, E::kF32);
  for (size_t i = 0; i < x.bits.size(); ++i) expect_same(float_of(got.bits[i]), rounded[i], "round");
  const Elements root = run_op("math %x0 {fn = rsqrt}", {f32s({4, 0.25f, 0, -1, INFINITY})}, E::kF32);
  const float expected[] = {0.5f, 2, INFINITY, std::nanf(""), 0};
  for (size_t i = 0; i < 5; ++i) expect_same(float_of(root.bits[i]), expected[i], "rsqrt");
  const Elements wide = run_op("math %x0 {fn = exp}", {f64s({1.0})}, E::kF64);
  EXPECT_EQ(double_of(wide.bits[0]), 2.718281828459045235);
}

}  // namespace
}  // namespace kiln::dsl::testing
