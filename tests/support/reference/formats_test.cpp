// The formats against second sources: the compiler's _Float16, float and double, the upper half of an f32 for bf16, and
// the values printed in the OFP8 specification. All codes of the formats of at most 16 bits are tried.
#include "reference/formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>

#include "reference/inputs.h"

namespace kiln::reference {
namespace {

constexpr long double kInf = INFINITY;

// Numbers where rounding to a type may go wrong: each value, the midpoint to the next, and either side of that, as near
// as a double comes.
std::vector<double> pitfalls(Type type) {
  std::vector<double> out;
  const Bits end = format(type).largest();
  for (Bits bits = 0; bits < end; ++bits) {
    const auto low = static_cast<double>(to_real(type, bits)), high = static_cast<double>(to_real(type, bits + 1));
    const double middle = (low + high) / 2;
    for (const double value : {low, middle, std::nextafter(middle, 0.0), std::nextafter(middle, 1e300)}) {
      out.insert(out.end(), {value, -value});
    }
  }
  const auto largest = static_cast<double>(to_real(type, end));
  for (const double factor : {1.0, 1.0001, 1.01, 1.03, 1.0357, 1.036, 1.05, 1.07, 1.125, 1.2, 2.0, 1e30, 1e200}) {
    out.insert(out.end(), {largest * factor, -largest * factor});
  }
  return out;
}

TEST(ReferenceFormats, F16OfAllCodesAndPitfallsIsTheCompilers) {
#ifdef __FLT16_MAX__
  for (const Bits bits : all_values(Type::kF16)) {
    const auto value = std::bit_cast<_Float16>(static_cast<uint16_t>(bits));
    if (is_nan(Type::kF16, bits)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(value))) << bits;
    } else {
      ASSERT_EQ(to_real(Type::kF16, bits), static_cast<float>(value)) << bits;
      ASSERT_EQ(from_real(Type::kF16, static_cast<float>(value)), bits);
    }
  }
  for (const double value : pitfalls(Type::kF16)) {
    ASSERT_EQ(from_real(Type::kF16, value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
  }
#else
  GTEST_SKIP() << "no _Float16";
#endif
}

// Nearest even of the upper half of an f32, by the well known trick; only for what an f32 holds exactly.
Bits bf16_by_trick(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

TEST(ReferenceFormats, Bf16IsTheUpperHalfOfF32) {
  for (const Bits bits : all_values(Type::kBF16)) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    ASSERT_EQ(is_nan(Type::kBF16, bits), std::isnan(value));
    if (std::isnan(value)) continue;
    ASSERT_EQ(to_real(Type::kBF16, bits), value) << bits;
    for (const uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const auto near = std::bit_cast<float>(static_cast<uint32_t>(bits) << 16 | low);
      if (std::isnan(near)) continue;
      ASSERT_EQ(from_real(Type::kBF16, near), bf16_by_trick(near)) << near;
    }
  }
}

TEST(ReferenceFormats, F32AndF64AreTheHosts) {
  for (const Bits bits : random_bits(Type::kF32, 20000, 1)) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(to_real(Type::kF32, bits), value);
    ASSERT_EQ(from_real(Type::kF32, value), bits);
  }
  for (const Bits bits : random_bits(Type::kF64, 20000, 2)) {
    const auto value = std::bit_cast<double>(bits);
    if (std::isnan(value)) continue;
    ASSERT_EQ(to_real(Type::kF64, bits), value);
    ASSERT_EQ(from_real(Type::kF64, value), bits);
    ASSERT_EQ(from_real(Type::kF32, value), std::bit_cast<uint32_t>(static_cast<float>(value))) << value;
  }
  // Binades where f32 is subnormal, and long doubles that two roundings would get wrong.
  for (const Bits bits : random_bits(Type::kU64, 20000, 3)) {
    const double small = std::ldexp(static_cast<double>(bits >> 11), -53 - 120 - static_cast<int>(bits % 40));
    ASSERT_EQ(from_real(Type::kF32, small), std::bit_cast<uint32_t>(static_cast<float>(small)));
    const long double wide = std::ldexp(static_cast<long double>(bits), static_cast<int>(bits % 300) - 200);
    ASSERT_EQ(from_real(Type::kF32, wide), std::bit_cast<uint32_t>(static_cast<float>(wide)));
    ASSERT_EQ(from_real(Type::kF64, wide), std::bit_cast<uint64_t>(static_cast<double>(wide)));
  }
}

TEST(ReferenceFormats, F8E4M3HasThePublishedValues) {
  constexpr Type kType = Type::kF8E4M3;
  EXPECT_EQ(to_real(kType, 0x7e), 448);
  EXPECT_EQ(to_real(kType, 0x08), 0x1p-6L);
  EXPECT_EQ(to_real(kType, 0x07), 0.875L * 0x1p-6L);
  EXPECT_EQ(to_real(kType, 0x01), 0x1p-9L);
  EXPECT_EQ(to_real(kType, 0x38), 1);
  EXPECT_EQ(to_real(kType, 0xb8), -1);
  int nans = 0;
  for (const Bits bits : all_values(kType)) {
    if (is_nan(kType, bits)) {
      ++nans;
      EXPECT_EQ(bits & 0x7f, 0x7fu);
      continue;
    }
    // By the formula of the specification.
    const int field = static_cast<int>(bits >> 3) & 15, mantissa = static_cast<int>(bits) & 7;
    const double size = field == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, field - 10);
    EXPECT_EQ(to_real(kType, bits), bits & 0x80 ? -size : size);
    EXPECT_EQ(from_real(kType, to_real(kType, bits)), bits);
  }
  EXPECT_EQ(nans, 2);
}

TEST(ReferenceFormats, F8E5M2IsTheUpperHalfOfF16) {
  for (const Bits bits : all_values(Type::kF8E5M2)) {
    ASSERT_EQ(is_nan(Type::kF8E5M2, bits), is_nan(Type::kF16, bits << 8));
    if (is_nan(Type::kF8E5M2, bits)) continue;
    const long double value = to_real(Type::kF8E5M2, bits);
    ASSERT_EQ(value, to_real(Type::kF16, bits << 8));
    ASSERT_EQ(from_real(Type::kF8E5M2, value, Overflow::kSpecial), bits);
  }
  EXPECT_EQ(to_real(Type::kF8E5M2, 0x7b), 57344);
  EXPECT_EQ(to_real(Type::kF8E5M2, 0x7c), kInf);
  EXPECT_EQ(to_real(Type::kF8E5M2, 0x01), 0x1p-16L);
}

// Rounding by search: the nearest of all finite values, of two the one with the even code.
Bits nearest_by_search(Type type, double value) {
  // Above the largest value all distances grow alike, so cut there, or they would all round to one number.
  const long double target = std::min<long double>(std::fabs(value), to_real(type, format(type).largest()));
  Bits best = 0;
  for (Bits bits = 0; bits <= format(type).largest(); ++bits) {
    const long double distance = std::fabs(to_real(type, bits) - target);
    const long double least = std::fabs(to_real(type, best) - target);
    if (distance < least || (distance == least && bits % 2 == 0)) best = bits;
  }
  return best | (std::signbit(value) ? 0x80 : 0);
}

TEST(ReferenceFormats, F8RoundsToTheNearest) {
  for (const Type type : {Type::kF8E4M3, Type::kF8E5M2}) {
    for (const double value : pitfalls(type)) {
      ASSERT_EQ(from_real(type, value), nearest_by_search(type, value)) << name(type) << " " << value;
    }
  }
}

TEST(ReferenceFormats, Overflow) {
  using enum Overflow;
  // 464 is half way from 448 to 480, whose code would be odd (and is NaN's).
  EXPECT_EQ(from_real(Type::kF8E4M3, 464, kSpecial), 0x7eu);
  EXPECT_EQ(from_real(Type::kF8E4M3, 464.5, kSpecial), 0x7fu);
  EXPECT_EQ(from_real(Type::kF8E4M3, -1e9, kSpecial), 0xffu);
  EXPECT_EQ(from_real(Type::kF8E4M3, -kInf, kSpecial), 0xffu);
  EXPECT_EQ(from_real(Type::kF8E4M3, -1e9), 0xfeu);
  EXPECT_EQ(from_real(Type::kF8E4M3, kInf), 0x7eu);
  EXPECT_EQ(from_real(Type::kF8E4M3, NAN), 0x7fu);
  // 61440 is half way from 57344 to 65536; the code of 57344 is odd.
  EXPECT_EQ(from_real(Type::kF8E5M2, 61439, kSpecial), 0x7bu);
  EXPECT_EQ(from_real(Type::kF8E5M2, 61440, kSpecial), 0x7cu);
  EXPECT_EQ(from_real(Type::kF8E5M2, 61440), 0x7bu);
  EXPECT_EQ(from_real(Type::kF8E5M2, -kInf), 0xfbu);
  EXPECT_EQ(from_real(Type::kF8E5M2, -kInf, kSpecial), 0xfcu);
  EXPECT_EQ(from_real(Type::kF16, 65519.99), 0x7bffu);
  EXPECT_EQ(from_real(Type::kF16, 65520), 0x7c00u);
  EXPECT_EQ(from_real(Type::kF16, 65520, kSaturate), 0x7bffu);
  EXPECT_EQ(from_real(Type::kF16, kInf, kSaturate), 0x7bffu);
  EXPECT_EQ(from_real(Type::kBF16, 3.4e38), 0x7f80u);
  EXPECT_EQ(from_real(Type::kF32, LDBL_MAX), 0x7f800000u);
  EXPECT_EQ(from_real(Type::kF32, LDBL_MIN), 0u);
  EXPECT_EQ(from_real(Type::kF32, -LDBL_MIN), 0x80000000u);
  for (const Type type : kFloatTypes) {
    for (const Overflow overflow : {kDefault, kSaturate, kSpecial}) {
      EXPECT_EQ(from_real(type, NAN, overflow), format(type).quiet_nan()) << name(type);
      EXPECT_EQ(from_real(type, -0.0L, overflow), format(type).sign_bit()) << name(type);
    }
  }
}

TEST(ReferenceFormats, QuadsKeepAllTheirBits) {
  const Quad third = Quad{1} / 3;
  const Dyadic value = dyadic_of_quad(third);
  if (sizeof(Quad) > sizeof(long double) || LDBL_MANT_DIG == 113) {
    EXPECT_EQ(bit_width(value.magnitude), 113);
  }
  EXPECT_EQ(to_long_double(value), static_cast<long double>(third));
  EXPECT_TRUE(dyadic_of_quad(Quad{-0.0}).negative);
  EXPECT_TRUE(dyadic_of_quad(static_cast<Quad>(kInf)).is_infinite());
  EXPECT_TRUE(dyadic_of_quad(static_cast<Quad>(NAN)).is_nan());
  EXPECT_EQ(dyadic_of_int(-(Wide{1} << 126) - (Wide{1} << 126)).magnitude, UWide{1} << 127);
  // Rounds to 1 in two steps through f32 or f64, and up in one.
  const Dyadic above_tie = dyadic_of_quad(Quad{1} + static_cast<Quad>(0x1p-11) + static_cast<Quad>(0x1p-100));
  EXPECT_EQ(encode(Type::kF16, above_tie), 0x3c01u);
}

}  // namespace
}  // namespace kiln::reference
