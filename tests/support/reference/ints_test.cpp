// Ints against the host's arithmetic on all pairs of 8-bit values, and against known extremes of the wider types.
#include "reference/ints.h"

#include <gtest/gtest.h>

#include <limits>

#include "reference/inputs.h"

namespace kiln::reference {
namespace {

template <class T, class Function, class Expected>
void expect_all_pairs(Type type, Function function, Expected expected) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const T x = static_cast<T>(a), y = static_cast<T>(b);
      const Bits bits = function(type, static_cast<Bits>(a), static_cast<Bits>(b));
      ASSERT_LE(bits, 0xffu);
      ASSERT_EQ(static_cast<T>(bits), static_cast<T>(expected(x, y))) << int{x} << " " << int{y};
    }
  }
}

template <class T>
void expect_arithmetic(Type type) {
  expect_all_pairs<T>(type, ints::add, [](int x, int y) { return x + y; });
  expect_all_pairs<T>(type, ints::sub, [](int x, int y) { return x - y; });
  expect_all_pairs<T>(type, ints::mul, [](int x, int y) { return x * y; });
  expect_all_pairs<T>(type, ints::mulhi, [](int x, int y) { return (x * y) >> 8; });
  expect_all_pairs<T>(type, ints::div, [](int x, int y) { return y == 0 ? 0 : x / y; });
  expect_all_pairs<T>(type, ints::rem, [](int x, int y) { return y == 0 ? x : x % y; });
  expect_all_pairs<T>(type, ints::min, [](int x, int y) { return x < y ? x : y; });
  expect_all_pairs<T>(type, ints::max, [](int x, int y) { return x > y ? x : y; });
  expect_all_pairs<T>(type, ints::bit_and, [](int x, int y) { return x & y; });
  expect_all_pairs<T>(type, ints::bit_or, [](int x, int y) { return x | y; });
  expect_all_pairs<T>(type, ints::bit_xor, [](int x, int y) { return x ^ y; });
  expect_all_pairs<T>(type, ints::shl, [](int x, int y) {
    const int amount = y & 0xff;
    return amount >= 8 ? 0 : x * (1 << amount);
  });
  expect_all_pairs<T>(type, ints::shr, [](int x, int y) {
    const int amount = y & 0xff;
    return amount >= 8 ? (x < 0 ? -1 : 0) : x >> amount;
  });
  expect_all_pairs<T>(type, [](Type t, Bits a, Bits) { return ints::neg(t, a); }, [](int x, int) { return -x; });
  expect_all_pairs<T>(
      type, [](Type t, Bits a, Bits) { return ints::abs(t, a); }, [](int x, int) { return x < 0 ? -x : x; });
}

TEST(ReferenceInts, AllPairsOfI8) { expect_arithmetic<int8_t>(Type::kI8); }

TEST(ReferenceInts, AllPairsOfU8) { expect_arithmetic<uint8_t>(Type::kU8); }

TEST(ReferenceInts, FloorDivisionHasTheDivisorsSign) {
  for (const Type type : {Type::kI8, Type::kU8}) {
    for (const Bits a : all_values(type)) {
      for (const Bits b : all_values(type)) {
        const Wide x = int_value(type, a), y = int_value(type, b);
        const Wide remainder = int_value(type, ints::floor_mod(type, a, b));
        ASSERT_EQ(ints::add(type, ints::mul(type, ints::floor_div(type, a, b), b), wrap(type, remainder)), a);
        if (y == 0) {
          ASSERT_EQ(remainder, x);
        } else {
          ASSERT_TRUE(y > 0 ? remainder >= 0 && remainder < y : remainder <= 0 && remainder > y);
        }
      }
    }
  }
  // Python's -7 // 2, 7 // -2, -7 % 2 and 7 % -2.
  const auto i32 = [](int value) { return wrap(Type::kI32, value); };
  EXPECT_EQ(ints::floor_div(Type::kI32, i32(-7), i32(2)), i32(-4));
  EXPECT_EQ(ints::floor_div(Type::kI32, i32(7), i32(-2)), i32(-4));
  EXPECT_EQ(ints::floor_mod(Type::kI32, i32(-7), i32(2)), i32(1));
  EXPECT_EQ(ints::floor_mod(Type::kI32, i32(7), i32(-2)), i32(-1));
}

TEST(ReferenceInts, WiderTypesWrapAsTheHostsUnsigned) {
  const std::vector<Bits> a = random_elements(Type::kI64, 4000, 1), b = random_elements(Type::kI64, 4000, 2);
  for (const Type type : kIntTypes) {
    for (size_t i = 0; i < a.size(); ++i) {
      const Bits x = a[i] & mask(type), y = b[i] & mask(type);
      ASSERT_EQ(ints::add(type, x, y), (x + y) & mask(type));
      ASSERT_EQ(ints::sub(type, x, y), (x - y) & mask(type));
      ASSERT_EQ(ints::mul(type, x, y), (x * y) & mask(type));
      // The high half by schoolbook halves and, for signed operands, the usual correction.
      const uint64_t m = 0xffffffff;
      const uint64_t low = (x & m) * (y & m), mid1 = (x >> 32) * (y & m) + (low >> 32), mid2 = (x & m) * (y >> 32);
      uint64_t high = (x >> 32) * (y >> 32) + (mid1 >> 32) + (((mid1 & m) + mid2) >> 32);
      if (width(type) < 64) high = (x * y) >> width(type);
      if (is_signed(type)) {
        if (int_value(type, x) < 0) high -= y;
        if (int_value(type, y) < 0) high -= x;
      }
      ASSERT_EQ(ints::mulhi(type, x, y), high & mask(type)) << name(type) << " " << x << " " << y;
    }
  }
}

TEST(ReferenceInts, Extremes) {
  for (const Type type : {Type::kI8, Type::kI16, Type::kI32, Type::kI64}) {
    const Bits min = wrap(type, int_min(type)), minus_one = mask(type);
    EXPECT_EQ(ints::div(type, min, minus_one), min);
    EXPECT_EQ(ints::rem(type, min, minus_one), 0u);
    EXPECT_EQ(ints::div(type, min, 0), 0u);
    EXPECT_EQ(ints::rem(type, min, 0), min);
    EXPECT_EQ(ints::floor_div(type, min, minus_one), min);
    EXPECT_EQ(ints::floor_mod(type, min, minus_one), 0u);
    EXPECT_EQ(ints::abs(type, min), min);
    EXPECT_EQ(ints::neg(type, min), min);
    EXPECT_EQ(ints::shr(type, min, static_cast<Bits>(width(type)) - 1), minus_one);
    EXPECT_EQ(ints::shr(type, min, minus_one), minus_one);
    EXPECT_EQ(ints::shl(type, 1, static_cast<Bits>(width(type)) - 1), min);
    EXPECT_EQ(ints::shl(type, 1, static_cast<Bits>(width(type))), 0u);
    EXPECT_EQ(ints::mulhi(type, min, min), Bits{1} << (width(type) - 2));
  }
  EXPECT_TRUE(int_max(Type::kU64) == Wide{std::numeric_limits<uint64_t>::max()});
  EXPECT_TRUE(int_min(Type::kI64) == Wide{std::numeric_limits<int64_t>::min()});
  EXPECT_EQ(ints::mulhi(Type::kU64, ~Bits{0}, ~Bits{0}), ~Bits{1});
  EXPECT_EQ(ints::shr(Type::kU64, ~Bits{0}, 63), 1u);
  EXPECT_EQ(ints::add(Type::kI1, 1, 1), 0u);
  EXPECT_EQ(ints::bit_xor(Type::kI1, 1, 1), 0u);
  EXPECT_TRUE(int_max(Type::kI1) == 1);
}

}  // namespace
}  // namespace kiln::reference
