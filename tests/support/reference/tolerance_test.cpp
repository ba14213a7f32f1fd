// The rules of agreement at their edges, and that inputs are what they promise.
#include "reference/tolerance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "reference/cast.h"
#include "reference/inputs.h"
#include "reference/ints.h"

namespace kiln::reference {
namespace {

constexpr long double kInf = INFINITY;

bool close_value(Type type, long double out, long double ref) { return close(type, element_of(type, out), ref); }

TEST(ReferenceTolerance, CloseIsAbsolutePlusRelative) {
  EXPECT_TRUE(close_value(Type::kF32, 100.0001L, 100));
  EXPECT_FALSE(close_value(Type::kF32, 100.0002L, 100));
  EXPECT_TRUE(close_value(Type::kF32, 9e-6L, 0));
  EXPECT_FALSE(close_value(Type::kF32, 1.1e-5L, 0));
  EXPECT_TRUE(close_value(Type::kF16, 1.0009765625L, 1));
  EXPECT_FALSE(close_value(Type::kF16, 1.001953125L, 1));
  EXPECT_TRUE(close_value(Type::kBF16, 1.0078125L, 1));
  EXPECT_FALSE(close_value(Type::kBF16, 1.0234375L, 1));
  EXPECT_TRUE(close_value(Type::kF64, 1 + 1e-13L, 1));
  EXPECT_FALSE(close_value(Type::kF64, 1 + 3e-13L, 1));
  EXPECT_TRUE(close_value(Type::kI32, -5, -5));
  EXPECT_FALSE(close_value(Type::kI32, -5, -4));
  EXPECT_TRUE(close_value(Type::kF8E4M3, 1.125L, 1));
  EXPECT_FALSE(close_value(Type::kF8E4M3, 1.25L, 1));
}

TEST(ReferenceTolerance, NanInfinityAndOverflow) {
  EXPECT_TRUE(close_value(Type::kF16, NAN, NAN));
  EXPECT_FALSE(close_value(Type::kF16, NAN, 1));
  EXPECT_FALSE(close_value(Type::kF16, 1, NAN));
  EXPECT_TRUE(close_value(Type::kF16, -kInf, -kInf));
  EXPECT_FALSE(close_value(Type::kF16, kInf, -kInf));
  EXPECT_FALSE(close_value(Type::kF16, 65504, kInf));
  EXPECT_TRUE(close_value(Type::kF16, kInf, 70000));
  EXPECT_FALSE(close_value(Type::kF16, 65504, 70000));
  EXPECT_FALSE(close_value(Type::kF16, -kInf, 70000));
  EXPECT_TRUE(close_value(Type::kF16, kInf, 65504));  // 65504 + 0.1% rounds to infinity
  EXPECT_FALSE(close_value(Type::kF16, kInf, 60000));
  EXPECT_TRUE(close_value(Type::kF8E4M3, 448, 1000));
  EXPECT_FALSE(close_value(Type::kF8E4M3, 416, 1000));
  EXPECT_FALSE(close_value(Type::kF8E4M3, -448, 1000));
}

TEST(ReferenceTolerance, SameAndMismatches) {
  EXPECT_TRUE(same(Type::kF16, 0x7e00, 0xfe01));
  EXPECT_FALSE(same(Type::kF16, 0, 0x8000));
  EXPECT_TRUE(same(Type::kF16, 0, 0x8000, true));
  EXPECT_FALSE(same(Type::kI16, 0, 0x8000, true));
  EXPECT_EQ(mismatches(Type::kI32, {1, 2, 3}, {1, 5, 3}), (std::vector<size_t>{1}));
  EXPECT_EQ(mismatches(Type::kI32, {1}, {1, 5}), (std::vector<size_t>{1}));
}

TEST(ReferenceTolerance, UlpError) {
  EXPECT_EQ(ulp_error(Type::kF32, 0x3f800001, 1), 1);
  EXPECT_EQ(ulp_error(Type::kF32, 0x3f7fffff, 1), 0.5L);
  EXPECT_EQ(ulp_error(Type::kF32, 0x3f800001, 1 + 0x1p-24L), 0.5L);
  EXPECT_EQ(ulp_error(Type::kF32, 3, 0), 3);
  EXPECT_EQ(ulp_error(Type::kF32, 0x80000000, 0), 0);
  EXPECT_EQ(ulp_error(Type::kF32, 0x7f800000, 1e40L), 0);
  EXPECT_EQ(ulp_error(Type::kF32, 0x7f800000, 1), kInf);
  EXPECT_EQ(ulp_error(Type::kF32, 0x7fc00000, NAN), 0);
  EXPECT_EQ(ulp_error(Type::kF32, 0, NAN), kInf);
  EXPECT_EQ(ulp_error(Type::kF64, 0x3ff0000000000002, 1), 2);
}

TEST(ReferenceTolerance, DotErrorIsOfTheWhole) {
  const auto f32 = [](const std::vector<long double>& values) { return elements_of(Type::kF32, values); };
  EXPECT_EQ(dot_error(Type::kF32, f32({3, 4}), {3, 4}), 0);
  EXPECT_EQ(dot_error(Type::kF32, f32({3, 4.5L}), {3, 4}), 0.1L);
  EXPECT_EQ(dot_error(Type::kF32, f32({0}), {0}), 0);
  EXPECT_EQ(dot_error(Type::kF32, f32({1}), {0}), kInf);
  EXPECT_EQ(dot_error(Type::kF32, f32({NAN, 1}), {NAN, 1}), 0);
  EXPECT_EQ(dot_error(Type::kF32, f32({1, 1}), {NAN, 1}), kInf);
  EXPECT_EQ(dot_error(Type::kF32, f32({-kInf, 1}), {kInf, 1}), kInf);
  EXPECT_EQ(dot_error(Type::kF32, f32({1}), {1, 2}), kInf);
  EXPECT_EQ(dot_error(Type::kI32, {5}, {5}), 0);
}

TEST(ReferenceTolerance, DotTolerances) {
  EXPECT_EQ(dot_tolerance(Type::kI8, Type::kI32, 99), 0);
  EXPECT_EQ(dot_tolerance(Type::kF32, Type::kF32, 100), 3e-8L * 10 + 1e-7L);
  EXPECT_EQ(dot_tolerance(Type::kF32, Type::kF32, 100, DotPrecision::kTf32), 1e-3L);
  EXPECT_EQ(dot_tolerance(Type::kBF16, Type::kF32, 100), 1e-5L);
  EXPECT_EQ(dot_tolerance(Type::kBF16, Type::kBF16, 100), 1e-2L);
  EXPECT_EQ(dot_tolerance(Type::kF8E4M3, Type::kF32, 100), 5e-3L);
  EXPECT_LT(dot_tolerance(Type::kF64, Type::kF64, 100), 1e-15L);
}

TEST(ReferenceInputs, SpecialsAndRandomElements) {
  for (const Type type : kAllTypes) {
    const std::vector<Bits> special = specials(type);
    EXPECT_EQ(std::set<Bits>(special.begin(), special.end()).size(), special.size()) << name(type);
    const std::vector<Bits> elements = random_elements(type, 5000, 1);
    EXPECT_EQ(elements, random_elements(type, 5000, 1));
    EXPECT_NE(elements, random_elements(type, 5000, 2));
    for (const Bits bits : special) {
      EXPECT_NE(std::find(elements.begin(), elements.end(), bits), elements.end()) << name(type) << " " << bits;
    }
    for (const Bits bits : elements) ASSERT_EQ(bits & ~mask(type), 0u);
    for (const Bits bits : plain_elements(type, 5000, 1)) ASSERT_FALSE(is_nan(type, bits));
  }
  EXPECT_EQ(specials(Type::kI1), (std::vector<Bits>{0, 1}));
  EXPECT_EQ(specials(Type::kU8), (std::vector<Bits>{0, 1, 2, 254, 255}));
  EXPECT_EQ(specials(Type::kF16),
            (std::vector<Bits>{0, 1, 0x3ff, 0x400, 0x3bff, 0x3c00, 0x3c01, 0x7bff, 0x7c00, 0x8000, 0x8001, 0x83ff,
                               0x8400, 0xbbff, 0xbc00, 0xbc01, 0xfbff, 0xfc00, 0x7e00}));
  for (const Bits bits : random_ints(Type::kI32, 1000, -3, 3, 9)) {
    ASSERT_TRUE(int_value(Type::kI32, bits) >= -3 && int_value(Type::kI32, bits) <= 3);
  }
}

TEST(ReferenceInputs, ExtentsAndShapes) {
  EXPECT_EQ(extents(9), (std::vector<int64_t>{1, 2, 3, 4, 5, 7, 8, 9}));
  const std::vector<int64_t> all = extents(1000);
  for (const int64_t extent : {15, 16, 17, 31, 32, 33, 37, 63, 64, 65, 67, 511, 512, 513, 521}) {
    EXPECT_NE(std::find(all.begin(), all.end(), extent), all.end()) << extent;
  }
  EXPECT_EQ(all.back(), 521);
  EXPECT_EQ(shapes(0, 9, 1), (std::vector<Shape>{{}}));
  EXPECT_EQ(shapes(1, 4, 100), (std::vector<Shape>{{1}, {2}, {3}, {4}}));
  std::set<Shape> pairs;
  for (const Shape& shape : shapes(2, 64, 2000)) {
    EXPECT_EQ(shape.size(), 2u);
    EXPECT_LE(count(shape), 2000);
    pairs.insert(shape);
  }
  EXPECT_TRUE(pairs.contains({1, 64}) && pairs.contains({31, 64}) && pairs.contains({64, 31}));
}

}  // namespace
}  // namespace kiln::reference
