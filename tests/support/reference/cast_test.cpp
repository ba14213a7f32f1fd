// Casts against the compiler's where it has them, and the places where two roundings differ from one.
#include "reference/cast.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "reference/inputs.h"
#include "reference/ints.h"

namespace kiln::reference {
namespace {

constexpr Bits f64(double value) { return std::bit_cast<uint64_t>(value); }
constexpr Bits f32(float value) { return std::bit_cast<uint32_t>(value); }

TEST(ReferenceCast, F64RoundsOnceToHalf) {
  // Through f32 each of these would first become a tie, which goes to the even neighbour below.
  EXPECT_EQ(cast(Type::kF64, Type::kF16, f64(1 + 0x1p-11 + 0x1p-40)), 0x3c01u);
  EXPECT_EQ(cast(Type::kF64, Type::kBF16, f64(1 + 0x1p-8 + 0x1p-40)), 0x3f81u);
  EXPECT_EQ(cast(Type::kF64, Type::kF8E4M3, f64(1 + 0x1p-4 + 0x1p-40)), 0x39u);
  EXPECT_EQ(cast(Type::kF64, Type::kF8E5M2, f64(1 + 0x1p-3 + 0x1p-40)), 0x3du);
  // And from above: the tie would go up.
  EXPECT_EQ(cast(Type::kF64, Type::kF16, f64(1 + 3 * 0x1p-11 - 0x1p-40)), 0x3c01u);
  EXPECT_EQ(cast(Type::kF64, Type::kF16, f64(65520 - 0x1p-30)), 0x7bffu);
  EXPECT_EQ(cast(Type::kF64, Type::kF16, f64(0x1p-25 + 0x1p-60)), 0x0001u);
  EXPECT_EQ(cast(Type::kF64, Type::kF16, f64(0x1p-25)), 0x0000u);
}

TEST(ReferenceCast, I64RoundsOnce) {
  const auto i64 = [](int64_t value) { return static_cast<Bits>(value); };
  // 2^60 + half a step of the target + 1: through f64 or f32 a tie.
  EXPECT_EQ(cast(Type::kI64, Type::kBF16, i64((int64_t{1} << 60) + (int64_t{1} << 52) + 1)), 0x5d81u);
  EXPECT_EQ(cast(Type::kI64, Type::kBF16, i64((int64_t{1} << 60) + (int64_t{1} << 52))), 0x5d80u);
  EXPECT_EQ(cast(Type::kI64, Type::kF32, i64((int64_t{1} << 60) + (int64_t{1} << 36) + 1)), f32(0x1.000002p60f));
  EXPECT_EQ(cast(Type::kI32, Type::kF16, 2049), 0x6800u);
  EXPECT_EQ(cast(Type::kI64, Type::kF16, 65519), 0x7bffu);
  EXPECT_EQ(cast(Type::kI64, Type::kF16, 65520), 0x7c00u);
  EXPECT_EQ(cast(Type::kI64, Type::kF8E4M3, i64(std::numeric_limits<int64_t>::min())), 0xfeu);
  EXPECT_EQ(cast(Type::kI64, Type::kF8E5M2, i64(-57344)), 0xfbu);
  EXPECT_EQ(cast(Type::kU64, Type::kF32, ~Bits{0}), f32(0x1p64f));
  for (const Bits bits : random_elements(Type::kI64, 20000, 4)) {
    const Bits shifted = bits >> (bits % 64);
    ASSERT_EQ(cast(Type::kU64, Type::kF32, shifted), f32(static_cast<float>(shifted)));
    ASSERT_EQ(cast(Type::kU64, Type::kF64, shifted), f64(static_cast<double>(shifted)));
    ASSERT_EQ(cast(Type::kI64, Type::kF32, bits), f32(static_cast<float>(static_cast<int64_t>(bits))));
    ASSERT_EQ(cast(Type::kI64, Type::kF64, bits), f64(static_cast<double>(static_cast<int64_t>(bits))));
  }
}

TEST(ReferenceCast, FloatToIntTruncatesAndSaturates) {
  EXPECT_EQ(cast(Type::kF32, Type::kI32, f32(-1.9f)), wrap(Type::kI32, -1));
  EXPECT_EQ(cast(Type::kF32, Type::kI32, f32(-0.9f)), 0u);
  EXPECT_EQ(cast(Type::kF32, Type::kU8, f32(-3)), 0u);
  EXPECT_EQ(cast(Type::kF32, Type::kU8, f32(255.9f)), 255u);
  EXPECT_EQ(cast(Type::kF32, Type::kU8, f32(256)), 255u);
  EXPECT_EQ(cast(Type::kF64, Type::kU64, f64(0x1p64)), ~Bits{0});
  EXPECT_EQ(cast(Type::kF64, Type::kU64, f64(0x1.fffffffffffffp63)), 0xfffffffffffff800u);
  EXPECT_EQ(cast(Type::kF64, Type::kI64, f64(0x1p63)), Bits{1} << 63 ^ ~Bits{0});
  EXPECT_EQ(cast(Type::kF64, Type::kI64, f64(-0x1p63)), Bits{1} << 63);
  for (const Type type : kIntTypes) {
    EXPECT_EQ(cast(Type::kF64, type, f64(INFINITY)), wrap(type, int_max(type)));
    EXPECT_EQ(cast(Type::kF64, type, f64(-INFINITY)), wrap(type, int_min(type)));
    EXPECT_EQ(cast(Type::kF64, type, f64(1e300)), wrap(type, int_max(type)));
    EXPECT_EQ(cast(Type::kF64, type, f64(NAN)), 0u);
    EXPECT_EQ(cast(Type::kF64, type, f64(5e-324)), 0u);
    EXPECT_EQ(cast(Type::kF64, type, f64(-0.0)), 0u);
  }
  for (const Bits bits : random_bits(Type::kF64, 20000, 5)) {
    const double value = std::fmod(std::bit_cast<double>(bits), 0x1p62);
    if (std::isnan(value)) continue;
    ASSERT_EQ(cast(Type::kF64, Type::kI64, f64(value)), static_cast<Bits>(static_cast<int64_t>(value)));
  }
}

TEST(ReferenceCast, ToI1IsWhetherNotZero) {
  for (const Type type : kAllTypes) {
    EXPECT_EQ(cast(type, Type::kI1, 0), 0u);
    EXPECT_EQ(cast(type, Type::kI1, 1), 1u) << name(type);  // the smallest subnormal of a float
    EXPECT_EQ(cast(Type::kI1, type, 0), 0u);
    EXPECT_EQ(real_value(type, cast(Type::kI1, type, 1)), 1);
    if (is_float(type)) {
      EXPECT_EQ(cast(type, Type::kI1, format(type).sign_bit()), 0u);
      EXPECT_EQ(cast(type, Type::kI1, format(type).quiet_nan()), 1u);
    }
  }
  EXPECT_EQ(cast(Type::kI64, Type::kI1, Bits{1} << 63), 1u);
}

TEST(ReferenceCast, IntToIntWrapsAndExtends) {
  EXPECT_EQ(cast(Type::kI8, Type::kI32, 0x80), 0xffffff80u);
  EXPECT_EQ(cast(Type::kU8, Type::kI32, 0x80), 0x80u);
  EXPECT_EQ(cast(Type::kI8, Type::kU64, 0xff), ~Bits{0});
  EXPECT_EQ(cast(Type::kI64, Type::kU8, 0x1234), 0x34u);
  EXPECT_EQ(cast(Type::kI32, Type::kU32, 0xffffffff), 0xffffffffu);
}

// Every pair of types: what a narrower type holds survives the way there and back.
TEST(ReferenceCast, WideningIsExact) {
  for (const Type from : kAllTypes) {
    for (const Type to : kAllTypes) {
      const std::vector<Bits> values = width(from) <= 16 ? all_values(from) : random_elements(from, 2000, 6);
      for (const Bits bits : values) {
        const Bits there = cast(from, to, bits, Overflow::kSpecial);
        ASSERT_LE(there, mask(to));
        if (is_nan(from, bits)) {
          ASSERT_TRUE(is_float(to) ? is_nan(to, there) : there == (to == Type::kI1)) << name(from) << name(to);
        } else if (real_value(to, there) == real_value(from, bits) && !is_zero(from, bits)) {
          ASSERT_EQ(cast(to, from, there, Overflow::kSpecial), bits) << name(from) << " " << name(to) << " " << bits;
        }
        const bool widens = is_float(from) == is_float(to) && is_signed(from) == is_signed(to) &&
                            width(to) > width(from) && to != Type::kI1;
        if (widens && !is_nan(from, bits)) {
          ASSERT_EQ(real_value(to, there), real_value(from, bits));
        }
      }
    }
  }
}

TEST(ReferenceCast, F32ToHalfIsTheCompilers) {
#ifdef __FLT16_MAX__
  for (const Bits bits : random_bits(Type::kF32, 200000, 7)) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(cast(Type::kF32, Type::kF16, bits), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
  }
#else
  GTEST_SKIP() << "no _Float16";
#endif
}

}  // namespace
}  // namespace kiln::reference
