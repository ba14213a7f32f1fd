// Element types: names, widths, and conversions between numbers and bits.
#include "kiln/dsl/types.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace kiln::dsl {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Types, NamesRoundTrip) {
  for (int i = 0; i < kElementTypeCount; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(parse_element_type(info(type).name), type);
    EXPECT_EQ(info(type).bytes, (info(type).bits + 7) / 8);
  }
  EXPECT_FALSE(parse_element_type("f33"));
  EXPECT_FALSE(parse_element_type(""));
}

TEST(Types, EveryNarrowFloatComesBack) {
  for (ElementType type : {ElementType::kF8E4M3, ElementType::kF8E5M2, ElementType::kF16, ElementType::kBF16}) {
    for (uint64_t bits = 0; bits < uint64_t{1} << info(type).bits; ++bits) {
      const double value = double_from_bits(type, bits);
      if (std::isnan(value)) continue;
      // Conversion to f8 saturates, so an infinity does not come back.
      if (std::isinf(value) && type == ElementType::kF8E5M2) continue;
      ASSERT_EQ(bits_from_double(type, value), bits) << info(type).name;
    }
  }
}

TEST(Types, FloatsRoundToNearestEvenAndOverflow) {
  EXPECT_EQ(bits_from_double(ElementType::kF16, 1.0), 0x3c00u);
  EXPECT_EQ(bits_from_double(ElementType::kF16, 1.0 + 0x1p-11), 0x3c00u);
  EXPECT_EQ(bits_from_double(ElementType::kF16, 1.0 + 3 * 0x1p-11), 0x3c02u);
  EXPECT_EQ(bits_from_double(ElementType::kF16, 65519.0), 0x7bffu);
  EXPECT_EQ(bits_from_double(ElementType::kF16, 65520.0), 0x7c00u);
  EXPECT_EQ(bits_from_double(ElementType::kF16, 0x1p-24), 1u);
  EXPECT_EQ(bits_from_double(ElementType::kF16, 0x1p-25), 0u);
  EXPECT_EQ(bits_from_double(ElementType::kF16, -0.0), 0x8000u);
  EXPECT_EQ(bits_from_double(ElementType::kBF16, 1e39), 0x7f80u);
  EXPECT_EQ(bits_from_double(ElementType::kF8E4M3, 1e9), 0x7eu);
  EXPECT_EQ(bits_from_double(ElementType::kF8E4M3, kInf), 0x7eu);
  EXPECT_EQ(bits_from_double(ElementType::kF8E4M3, kNan) & 0x7f, 0x7fu);
  EXPECT_EQ(bits_from_double(ElementType::kF8E5M2, 1e9), 0x7bu);
  EXPECT_EQ(double_from_bits(ElementType::kF8E4M3, 0x7e), 448);
  EXPECT_EQ(double_from_bits(ElementType::kF8E5M2, 0x7b), 57344);
}

TEST(Types, FloatsToIntsSaturate) {
  EXPECT_EQ(bits_from_double(ElementType::kI8, 1e9), 127u);
  EXPECT_EQ(bits_from_double(ElementType::kI8, -1e9), 128u);
  EXPECT_EQ(bits_from_double(ElementType::kI8, -1.9), 255u);
  EXPECT_EQ(bits_from_double(ElementType::kU8, -5), 0u);
  EXPECT_EQ(bits_from_double(ElementType::kU8, 255.9), 255u);
  EXPECT_EQ(bits_from_double(ElementType::kI64, kInf), 0x7fffffffffffffffu);
  EXPECT_EQ(bits_from_double(ElementType::kI64, -kInf), 0x8000000000000000u);
  EXPECT_EQ(bits_from_double(ElementType::kU64, 1e30), ~uint64_t{0});
  EXPECT_EQ(bits_from_double(ElementType::kI32, kNan), 0u);
  EXPECT_EQ(bits_from_double(ElementType::kI1, kNan), 1u);
  EXPECT_EQ(bits_from_double(ElementType::kI1, 0.5), 1u);
}

TEST(Types, IntsToBits) {
  EXPECT_EQ(bits_from_int(ElementType::kI8, -1), 255u);
  EXPECT_EQ(bits_from_int(ElementType::kF32, 16777217), std::bit_cast<uint32_t>(16777216.0f));
  EXPECT_EQ(bits_from_int(ElementType::kF32, (int64_t{1} << 62) + (int64_t{1} << 38) + 1),
            std::bit_cast<uint32_t>(0x1p62f + 0x1p39f));  // two roundings would lose the last bit
  EXPECT_EQ(bits_from_int(ElementType::kI1, 2), 1u);
}

TEST(Types, IntFits) {
  EXPECT_TRUE(int_fits(ElementType::kI8, -128));
  EXPECT_FALSE(int_fits(ElementType::kI8, 128));
  EXPECT_TRUE(int_fits(ElementType::kU8, 255));
  EXPECT_FALSE(int_fits(ElementType::kU8, -1));
  EXPECT_TRUE(int_fits(ElementType::kU64, std::numeric_limits<int64_t>::max()));
  EXPECT_TRUE(int_fits(ElementType::kI1, 1));
  EXPECT_FALSE(int_fits(ElementType::kI1, 2));
  EXPECT_TRUE(int_fits(ElementType::kF32, 1 << 24));
  EXPECT_FALSE(int_fits(ElementType::kF32, (1 << 24) + 1));
  EXPECT_FALSE(int_fits(ElementType::kF16, 65536));
  EXPECT_FALSE(int_fits(ElementType::kF8E4M3, 449));
}

}  // namespace
}  // namespace kiln::dsl
