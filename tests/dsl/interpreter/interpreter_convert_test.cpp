// cast, bitcast, cmp and select of the interpreter.
#include "interpreter_helpers.h"

namespace kiln::dsl::testing {
namespace {

using E = ElementType;

std::vector<uint64_t> cast(const Elements& x, E to) {
  return run_op("cast %x0 {to = " + std::string(info(to).name) + "}", {x}, to).bits;
}

TEST(InterpreterCast, FloatToIntTruncatesSaturatesAndMakesNanZero) {
  const Elements x = f32s({1.9f, -1.9f, 300, -300, 1e20f, -1e20f, INFINITY, -INFINITY, std::nanf("")});
  EXPECT_EQ(cast(x, E::kI8), ints(E::kI8, {1, -1, 127, -128, 127, -128, 127, -128, 0}).bits);
  EXPECT_EQ(cast(x, E::kU8), ints(E::kU8, {1, 0, 255, 0, 255, 0, 255, 0, 0}).bits);
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(cast(x, E::kI64), ints(E::kI64, {1, -1, 300, -300, kMax, kMin, kMax, kMin, 0}).bits);
  EXPECT_EQ(cast(x, E::kU64).at(4), ~uint64_t{0});
}

TEST(InterpreterCast, ToI1IsNotZeroAndNanIsTrue) {
  EXPECT_EQ(cast(f32s({0, -0.0f, 0.1f, std::nanf("")}), E::kI1), (std::vector<uint64_t>{0, 0, 1, 1}));
  EXPECT_EQ(cast(ints(E::kI32, {0, 2, -256}), E::kI1), (std::vector<uint64_t>{0, 1, 1}));
}

TEST(InterpreterCast, IntToFloatRoundsOnceToNearestEven) {
  // Through a double these would round twice.
  const int64_t tricky = (int64_t{1} << 60) + (int64_t{1} << 36) + 1;
  EXPECT_EQ(float_of(cast(ints(E::kI64, {tricky}), E::kF32)[0]), static_cast<float>(tricky));
  EXPECT_EQ(float_of(cast(ints(E::kI64, {-tricky}), E::kF32)[0]), static_cast<float>(-tricky));
  const int64_t half = (int64_t{1} << 60) + (int64_t{1} << 52);  // halfway between two bf16; one more is not
  EXPECT_EQ(double_from_bits(E::kBF16, cast(ints(E::kI64, {half}), E::kBF16)[0]), std::ldexp(1.0, 60));
  EXPECT_EQ(double_from_bits(E::kBF16, cast(ints(E::kI64, {half + 1}), E::kBF16)[0]),
            std::ldexp(1.0, 60) + std::ldexp(1.0, 53));
  EXPECT_EQ(float_of(cast(ints(E::kU64, {-1}), E::kF32)[0]), 18446744073709551616.0f);
  EXPECT_EQ(cast(ints(E::kI32, {70000}), E::kF16)[0], 0x7c00u);  // inf
  EXPECT_EQ(float_of(cast(ints(E::kI1, {1}), E::kF32)[0]), 1.0f);
}

TEST(InterpreterCast, BetweenInts) {
  EXPECT_EQ(cast(ints(E::kI8, {-1, 127}), E::kI32), ints(E::kI32, {-1, 127}).bits);
  EXPECT_EQ(cast(ints(E::kU8, {255}), E::kI32), ints(E::kI32, {255}).bits);
  EXPECT_EQ(cast(ints(E::kI32, {-1, 0x12345}), E::kU16), ints(E::kU16, {-1, 0x2345}).bits);
}

TEST(InterpreterCast, BetweenFloats) {
  EXPECT_EQ(cast(f64s({1.0 + std::ldexp(1.0, -24)}), E::kF32)[0], f32s({1}).bits[0]);  // halfway, to even
  EXPECT_EQ(cast(f32s({65519, 65520, 1e-8f}), E::kF16), (std::vector<uint64_t>{0x7bff, 0x7c00, 0}));
  const auto nan = cast(f32s({std::nanf("")}), E::kBF16);
  EXPECT_TRUE(std::isnan(double_from_bits(E::kBF16, nan[0])));
  EXPECT_EQ(cast(f32s({1000, -1000, INFINITY}), E::kF8E4M3), (std::vector<uint64_t>{0x7e, 0xfe, 0x7e}));
}

TEST(InterpreterCast, BitcastKeepsTheBits) {
  EXPECT_EQ(run_op("bitcast %x0 {to = i32}", {f32s({1.0f, -0.0f})}, E::kI32).bits,
            (std::vector<uint64_t>{0x3f800000, 0x80000000}));
}

TEST(InterpreterCmp, FloatsCompareOrderedButNe) {
  const float nan = std::nanf("");
  const Elements a = f32s({1, 2, nan, 0.0f, nan}), b = f32s({2, 2, 1, -0.0f, nan});
  auto compare = [&](const std::string& predicate) {
    return run_op("cmp %x0, %x1 {pred = " + predicate + "}", {a, b}, E::kI1).bits;
  };
  using Bits = std::vector<uint64_t>;
  EXPECT_EQ(compare("eq"), (Bits{0, 1, 0, 1, 0}));
  EXPECT_EQ(compare("ne"), (Bits{1, 0, 1, 0, 1}));
  EXPECT_EQ(compare("lt"), (Bits{1, 0, 0, 0, 0}));
  EXPECT_EQ(compare("le"), (Bits{1, 1, 0, 1, 0}));
  EXPECT_EQ(compare("gt"), (Bits{0, 0, 0, 0, 0}));
  EXPECT_EQ(compare("ge"), (Bits{0, 1, 0, 1, 0}));
}

TEST(InterpreterCmp, IntsCompareBySignedness) {
  const Elements a = ints(E::kI32, {-1}), b = ints(E::kI32, {1});
  EXPECT_EQ(run_op("cmp %x0, %x1 {pred = lt}", {a, b}, E::kI1).bits[0], 1u);
  const Elements c = ints(E::kU32, {-1}), d = ints(E::kU32, {1});
  EXPECT_EQ(run_op("cmp %x0, %x1 {pred = lt}", {c, d}, E::kI1).bits[0], 0u);
}

TEST(InterpreterSelect, TakesOneAndNeverTheOther) {
  const Elements condition = ints(E::kI1, {1, 0});
  const Elements a = f32s({1, std::nanf("")}), b = f32s({std::nanf(""), 4});
  EXPECT_EQ(run_op("select %x0, %x1, %x2", {condition, a, b}, E::kF32).bits, f32s({1, 4}).bits);
}

}  // namespace
}  // namespace kiln::dsl::testing
