// Float arithmetic: small types against the compiler's _Float16 and exact dyadic results, special values by hand.
#include "reference/floats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "reference/inputs.h"
#include "reference/tolerance.h"

namespace kiln::reference {
namespace {

// One operation on f16 computed in f32 and rounded once is the correctly rounded one: 24 ≥ 2·11 + 2.
TEST(ReferenceFloats, F16IsTheCompilers) {
#ifdef __FLT16_MAX__
  const std::vector<Bits> a = random_bits(Type::kF16, 50000, 1), b = random_bits(Type::kF16, 50000, 2);
  const auto half = [](Bits bits) { return std::bit_cast<_Float16>(static_cast<uint16_t>(bits)); };
  const auto bits = [](_Float16 value) { return Bits{std::bit_cast<uint16_t>(value)}; };
  for (size_t i = 0; i < a.size(); ++i) {
    const _Float16 x = half(a[i]), y = half(b[i]);
    ASSERT_TRUE(same(Type::kF16, floats::add(Type::kF16, a[i], b[i]), bits(x + y))) << a[i] << " " << b[i];
    ASSERT_TRUE(same(Type::kF16, floats::sub(Type::kF16, a[i], b[i]), bits(x - y))) << a[i] << " " << b[i];
    ASSERT_TRUE(same(Type::kF16, floats::mul(Type::kF16, a[i], b[i]), bits(x * y))) << a[i] << " " << b[i];
    ASSERT_TRUE(same(Type::kF16, floats::div(Type::kF16, a[i], b[i]), bits(x / y))) << a[i] << " " << b[i];
  }
#else
  GTEST_SKIP() << "no _Float16";
#endif
}

TEST(ReferenceFloats, AllPairsOfF8AreTheExactResultRoundedOnce) {
  for (const Type type : {Type::kF8E4M3, Type::kF8E5M2}) {
    for (const Bits a : all_values(type)) {
      for (const Bits b : all_values(type)) {
        const long double x = to_real(type, a), y = to_real(type, b);
        ASSERT_TRUE(same(type, floats::add(type, a, b), from_real(type, x + y)));
        ASSERT_TRUE(same(type, floats::mul(type, a, b), from_real(type, x * y)));
        ASSERT_TRUE(same(type, floats::rem(type, a, b), from_real(type, std::fmod(x, y))));
      }
    }
  }
}

TEST(ReferenceFloats, FmaOfF16IsRoundedToF32First) {
  // (1 + 2^-10)·(1 - 2^-10)·2^-11 + (1 + 2^-10): below a tie of f16 by 2^-31, which f32 drops. The tie goes to even,
  // up.
  EXPECT_EQ(floats::fma(Type::kF16, 0x3c01, 0x0ffe, 0x3c01), 0x3c02u);
  EXPECT_EQ(from_real(Type::kF16, (1 - 0x1p-20L) * 0x1p-11L + 1 + 0x1p-10L), 0x3c01u);
  // 2^-24 is the smallest subnormal: nothing is flushed.
  EXPECT_EQ(floats::fma(Type::kF16, 0x0001, 0x3c00, 0x0001), 0x0002u);
}

TEST(ReferenceFloats, SignsAndSpecials) {
  EXPECT_EQ(floats::neg(Type::kF32, 0), 0x80000000u);
  EXPECT_EQ(floats::neg(Type::kF16, 0x7e00), 0xfe00u);
  EXPECT_EQ(floats::abs(Type::kF8E4M3, 0xff), 0x7fu);
  EXPECT_EQ(floats::abs(Type::kF64, Bits{1} << 63), 0u);
  EXPECT_EQ(floats::sqrt(Type::kF32, 0x80000000), 0x80000000u);
  EXPECT_TRUE(is_nan(Type::kF32, floats::sqrt(Type::kF32, 0xbf800000)));
  EXPECT_TRUE(is_nan(Type::kF64, floats::div(Type::kF64, 0, 0)));
  EXPECT_EQ(floats::div(Type::kF32, 0x3f800000, 0x80000000), 0xff800000u);
  EXPECT_EQ(floats::add(Type::kF8E4M3, 0x7e, 0x7e), 0x7eu);  // 448 + 448 saturates
}

TEST(ReferenceFloats, MinAndMax) {
  constexpr Type kType = Type::kF32;
  constexpr Bits kNan = 0x7fc00000, kOne = 0x3f800000, kTwo = 0x40000000;
  for (const auto function : {floats::min, floats::max}) {
    EXPECT_EQ(function(kType, kNan, kOne, false), kNan);
    EXPECT_EQ(function(kType, kOne, kNan, false), kNan);
    EXPECT_EQ(function(kType, kNan, kOne, true), kOne);
    EXPECT_EQ(function(kType, kOne, kNan, true), kOne);
    EXPECT_EQ(function(kType, kNan, kNan, true), kNan);
  }
  EXPECT_EQ(floats::min(kType, kTwo, kOne), kOne);
  EXPECT_EQ(floats::max(kType, kOne, kTwo), kTwo);
  EXPECT_EQ(floats::min(kType, kOne, 0xff800000), 0xff800000u);
}

}  // namespace
}  // namespace kiln::reference
