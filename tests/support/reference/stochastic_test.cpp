// Stochastic rounding against its definition, in other arithmetic: where |x|/ulp + r·2^-32 is exact in long double, its
// floor is what std::floor says.
#include <gtest/gtest.h>

#include <cmath>

#include "reference/cast.h"
#include "reference/inputs.h"
#include "reference/random.h"

namespace kiln::reference {
namespace {

long double by_definition(Type type, long double x, uint32_t random) {
  const Format f = format(type);
  const int binade = x == 0 ? f.least_unit() : std::ilogb(x);
  const long double ulp = std::ldexp(1.0L, std::max(binade - f.mantissa_bits, f.least_unit()));
  return std::copysign(std::floor(std::fabs(x) / ulp + std::ldexp(static_cast<long double>(random), -32)) * ulp, x);
}

TEST(ReferenceStochastic, IsTheFloorOfItsDefinition) {
  for (const Type type : {Type::kF16, Type::kBF16, Type::kF8E4M3, Type::kF8E5M2}) {
    for (uint64_t i = 0; i < 20000; ++i) {
      const Counter words = philox(7, i);
      // Of 24 bits and in the type's range, subnormals included: the quotient has at most 32 bits below the point.
      const int exponent = static_cast<int>(words[1] % 30) - 40 + (type == Type::kF8E4M3 ? 4 : 10);
      const long double x = std::ldexp(static_cast<long double>(words[0] >> 8), exponent) * (words[1] >> 31 ? -1 : 1);
      const Bits got = encode_stochastic(type, dyadic(x), words[2], Overflow::kSpecial);
      const Bits expected = from_real(type, by_definition(type, x, words[2]), Overflow::kSpecial);
      ASSERT_EQ(got, expected) << name(type) << " " << x << " " << words[2];
    }
  }
}

TEST(ReferenceStochastic, ExactValuesStayAndTheEndsOfRandomDecide) {
  for (const Type type : kFloatTypes) {
    for (const Bits bits : specials(type)) {
      if (is_nan(type, bits) || std::isinf(to_real(type, bits))) continue;
      EXPECT_EQ(encode_stochastic(type, decode(type, bits), 0xffffffff), bits) << name(type);
    }
  }
  // A quarter of the way from 1 to 1 + 2^-10.
  const Dyadic x = dyadic(1 + 0x1p-12L);
  EXPECT_EQ(encode_stochastic(Type::kF16, x, 0), 0x3c00u);
  EXPECT_EQ(encode_stochastic(Type::kF16, x, 0xbfffffff), 0x3c00u);
  EXPECT_EQ(encode_stochastic(Type::kF16, x, 0xc0000000), 0x3c01u);
  // Far below the smallest subnormal not even the largest random word reaches it; within 2^-32 of 1 it does.
  EXPECT_EQ(encode_stochastic(Type::kF16, dyadic(0x1p-1000L), 0xffffffff), 0u);
  EXPECT_EQ(encode_stochastic(Type::kF16, dyadic(-0x1p-56L), 0xffffffff), 0x8001u);
  EXPECT_EQ(encode_stochastic(Type::kF16, dyadic(-0x1p-56L), 0xfffffffe), 0x8000u);
  EXPECT_EQ(encode_stochastic(Type::kF16, dyadic(0x1p-57L), 0xffffffff), 0u);
}

TEST(ReferenceStochastic, OverflowsAfterwards) {
  EXPECT_EQ(encode_stochastic(Type::kF16, dyadic(65535), 0), 0x7bffu);
  EXPECT_EQ(encode_stochastic(Type::kF16, dyadic(65535), 0xffffffff), 0x7c00u);
  EXPECT_EQ(encode_stochastic(Type::kF8E4M3, dyadic(479), 0xffffffff, Overflow::kSpecial), 0x7fu);
  EXPECT_EQ(encode_stochastic(Type::kF8E4M3, dyadic(479), 0, Overflow::kSpecial), 0x7eu);
  EXPECT_EQ(encode_stochastic(Type::kF8E4M3, dyadic(1e30L), 5), 0x7eu);
  EXPECT_EQ(encode_stochastic(Type::kF8E5M2, dyadic(-INFINITY), 5, Overflow::kSpecial), 0xfcu);
  EXPECT_EQ(encode_stochastic(Type::kBF16, dyadic(NAN), 5), 0x7fc0u);
}

TEST(ReferenceStochastic, RoundsUpAsOftenAsTheFractionSays) {
  int up = 0;
  constexpr int kTrials = 1 << 16;
  const auto x = static_cast<Bits>(0x3f804ccd);  // 1 + 0.3·2^-7 as f32
  for (uint64_t i = 0; i < kTrials; ++i) {
    up += cast_stochastic(Type::kF32, Type::kBF16, x, philox(1, i)[0]) == 0x3f81 ? 1 : 0;
  }
  EXPECT_NEAR(up / double{kTrials}, 0.3, 0.01);
}

}  // namespace
}  // namespace kiln::reference
