// Decimals of floats: each is rounded once, to nearest even, and the smallest numbers of a type are numbers.
#include "kiln/dsl/decimal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

namespace kiln::dsl {
namespace {

const ElementType kSmall[] = {ElementType::kF16, ElementType::kBF16, ElementType::kF8E4M3, ElementType::kF8E5M2};

// All digits of a double between the numbers of a small type.
std::string exact(double value) {
  char buffer[400];
  return {buffer, static_cast<size_t>(std::snprintf(buffer, sizeof buffer, "%.200f", value))};
}

// The number one unit of its last digit below.
std::string just_below(std::string text) {
  for (size_t i = text.size(); i-- > 0;) {
    if (text[i] == '.') continue;
    if (text[i] != '0') {
      --text[i];
      break;
    }
    text[i] = '9';
  }
  return text;
}

TEST(Decimal, MidpointsOfSmallFloatsRoundOnceAndToEven) {
  for (ElementType element : kSmall) {
    const uint64_t sign = uint64_t{1} << (info(element).bits - 1);
    for (uint64_t bits = 0; bits + 1 < sign; ++bits) {
      const double low = double_from_bits(element, bits), high = double_from_bits(element, bits + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const std::string middle = exact((low + high) / 2);
      ASSERT_EQ(float_from_decimal(element, middle), bits + (bits & 1)) << info(element).name << " " << middle;
      ASSERT_EQ(float_from_decimal(element, "-" + middle), (bits + (bits & 1)) | sign) << middle;
      // A double is nearest to these that is the middle itself.
      ASSERT_EQ(float_from_decimal(element, middle + "0001"), bits + 1) << info(element).name << " " << middle;
      ASSERT_EQ(float_from_decimal(element, just_below(middle)), bits) << info(element).name << " " << middle;
    }
  }
}

TEST(Decimal, TheEndsOfSmallFloats) {
  EXPECT_EQ(float_from_decimal(ElementType::kF16, "65519.99999999999999999999"), 0x7bffu);
  EXPECT_EQ(float_from_decimal(ElementType::kF16, "65520"), 0x7c00u);
  EXPECT_EQ(float_from_decimal(ElementType::kF8E4M3, "1000"), 0x7eu);  // saturates, as a conversion does
  EXPECT_EQ(float_from_decimal(ElementType::kF16, "-inf"), 0xfc00u);
}

TEST(Decimal, TheSmallestNumbersAreNoZeros) {
  for (int i = 0; i < kElementTypeCount; ++i) {
    const auto element = static_cast<ElementType>(i);
    if (!is_float(element)) continue;
    for (uint64_t bits = 1; bits < 8; ++bits) {
      for (int digits : {17, 40, 200, 800}) {
        char text[1000];
        std::snprintf(text, sizeof text, "%.*e", digits, double_from_bits(element, bits));
        EXPECT_EQ(float_from_decimal(element, text), bits) << info(element).name << " " << text;
      }
    }
    EXPECT_EQ(float_from_decimal(element, "1e-400"), 0u) << info(element).name;
    EXPECT_EQ(float_from_decimal(element, "0.0e99999999999999999999"), 0u) << info(element).name;
  }
  EXPECT_EQ(float_from_decimal(ElementType::kF64, "5e-324"), 1u);
  EXPECT_EQ(float_from_decimal(ElementType::kF32, "1e-45"), 1u);
}

TEST(Decimal, WhatIsNoNumberIsNone) {
  for (const char* text : {"", "-", "--1", "1x", "e5", "1e", "1e400", "0x1p3"}) {
    EXPECT_FALSE(float_from_decimal(ElementType::kF16, text)) << text;
    EXPECT_FALSE(float_from_decimal(ElementType::kF64, text)) << text;
  }
}

}  // namespace
}  // namespace kiln::dsl
