// Sorting and searching against each other, by hand where specials decide.
#include "reference/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reference/cast.h"
#include "reference/inputs.h"
#include "reference/ints.h"

namespace kiln::reference {
namespace {

using Positions = std::vector<size_t>;

std::vector<Bits> f32(const std::vector<long double>& values) { return elements_of(Type::kF32, values); }

TEST(ReferenceOrder, SortIsStableAndNanIsGreatest) {
  const std::vector<Bits> keys = f32({NAN, 0.0L, -INFINITY, -0.0L, -NAN, INFINITY, 1, 0.0L});
  EXPECT_EQ(sort_order(Type::kF32, keys), (Positions{2, 1, 3, 7, 6, 5, 0, 4}));
  EXPECT_EQ(sort_order(Type::kF32, keys, true), (Positions{0, 4, 5, 6, 1, 3, 7, 2}));
}

TEST(ReferenceOrder, TopkTakesTheLowestOfEqualKeys) {
  const std::vector<Bits> keys = f32({3, 1, 3, NAN, 2, 1, NAN});
  EXPECT_EQ(topk(Type::kF32, keys, 4), (Positions{3, 6, 0, 2}));
  EXPECT_EQ(topk(Type::kF32, keys, 3, false), (Positions{1, 5, 4}));
  EXPECT_EQ(topk(Type::kI8, {0x80, 0x7f, 0xff}, 2), (Positions{1, 2}));
  EXPECT_EQ(topk(Type::kU8, {0x80, 0x7f, 0xff}, 9), (Positions{2, 0, 1}));
}

TEST(ReferenceOrder, ArgOfNanAndTies) {
  EXPECT_EQ(argmax(Type::kF32, f32({1, NAN, INFINITY, NAN})), 1u);
  EXPECT_EQ(argmin(Type::kF32, f32({1, -INFINITY, NAN, NAN})), 2u);
  EXPECT_EQ(argmax(Type::kF32, f32({-0.0L, 0.0L, -1})), 0u);
  EXPECT_EQ(argmin(Type::kF32, f32({1, 0.0L, -0.0L})), 1u);
  EXPECT_EQ(argmax(Type::kI32, {5, 7, 7, wrap(Type::kI32, -1)}), 1u);
  EXPECT_EQ(argmin(Type::kI32, {5, wrap(Type::kI32, -1), 7, wrap(Type::kI32, -1)}), 1u);
}

// Arbitrary keys of every type, against the definitions by pairs.
TEST(ReferenceOrder, AgreesWithItsDefinitionForEveryType) {
  for (const Type type : kAllTypes) {
    std::vector<Bits> keys = random_elements(type, 150, 11);
    const std::vector<Bits> again(keys.begin(), keys.begin() + 30);
    keys.insert(keys.end(), again.begin(), again.end());
    const Positions order = sort_order(type, keys);
    for (size_t i = 1; i < order.size(); ++i) {
      const Bits a = keys[order[i - 1]], b = keys[order[i]];
      ASSERT_FALSE(before(type, b, a));
      ASSERT_TRUE(before(type, a, b) || order[i - 1] < order[i]) << name(type);
    }
    const std::vector<Bits> sorted = take(keys, order);
    for (const Bits value : keys) {
      const auto less = [&](Bits a, Bits b) { return before(type, a, b); };
      ASSERT_EQ(searchsorted(type, sorted, value),
                static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), value, less) - sorted.begin()));
      ASSERT_EQ(searchsorted(type, sorted, value, true),
                static_cast<size_t>(std::upper_bound(sorted.begin(), sorted.end(), value, less) - sorted.begin()));
    }
    ASSERT_EQ(argmax(type, keys), topk(type, keys, 1)[0]);
    if (std::none_of(keys.begin(), keys.end(), [&](Bits bits) { return is_nan(type, bits); })) {
      ASSERT_EQ(argmin(type, keys), topk(type, keys, 1, false)[0]);
    }
  }
}

TEST(ReferenceOrder, SearchsortedLeftAndRight) {
  // numpy.searchsorted([1, 2, 2, 3, nan], [0, 2, 3, nan, 4])
  const std::vector<Bits> sorted = f32({1, 2, 2, 3, NAN});
  const std::vector<Bits> values = f32({0, 2, 3, NAN, 4});
  Positions left, right;
  for (const Bits value : values) {
    left.push_back(searchsorted(Type::kF32, sorted, value));
    right.push_back(searchsorted(Type::kF32, sorted, value, true));
  }
  EXPECT_EQ(left, (Positions{0, 1, 3, 4, 4}));
  EXPECT_EQ(right, (Positions{0, 3, 4, 5, 4}));
}

TEST(ReferenceOrder, HistogramIgnoresWhatIsOutOfRange) {
  std::vector<Bits> values;
  for (const int value : {0, 3, 3, -1, 4, 100, 2}) values.push_back(wrap(Type::kI32, value));
  EXPECT_EQ(histogram(Type::kI32, values, 4), (std::vector<int64_t>{1, 0, 1, 2}));
  EXPECT_EQ(histogram(Type::kU64, {~Bits{0}, 0}, 1), (std::vector<int64_t>{1}));
  const std::vector<Bits> many = random_ints(Type::kI16, 5000, -3, 20, 5);
  std::map<Wide, int64_t> counts;
  for (const Bits bits : many) ++counts[int_value(Type::kI16, bits)];
  const std::vector<int64_t> bins = histogram(Type::kI16, many, 17);
  for (size_t i = 0; i < bins.size(); ++i) EXPECT_EQ(bins[i], counts[static_cast<Wide>(i)]);
}

TEST(ReferenceOrder, CompareIsOrderedButForNe) {
  using enum Predicate;
  const auto results = [](Bits a, Bits b) {
    std::vector<bool> out;
    for (const Predicate predicate : {kEq, kNe, kLt, kLe, kGt, kGe}) {
      out.push_back(compare(predicate, Type::kF32, a, b));
    }
    return out;
  };
  const std::vector<Bits> v = f32({1, 2, NAN, 0.0L, -0.0L});
  EXPECT_EQ(results(v[0], v[1]), (std::vector<bool>{false, true, true, true, false, false}));
  EXPECT_EQ(results(v[1], v[0]), (std::vector<bool>{false, true, false, false, true, true}));
  EXPECT_EQ(results(v[3], v[4]), (std::vector<bool>{true, false, false, true, false, true}));
  for (const Bits other : {v[0], v[2]}) {
    EXPECT_EQ(results(v[2], other), (std::vector<bool>{false, true, false, false, false, false}));
    EXPECT_EQ(results(other, v[2]), (std::vector<bool>{false, true, false, false, false, false}));
  }
  EXPECT_TRUE(compare(kLt, Type::kI1, 0, 1));
  EXPECT_TRUE(compare(kLt, Type::kI64, ~Bits{0}, 0));
  EXPECT_FALSE(compare(kLt, Type::kU64, ~Bits{0}, 0));
}

}  // namespace
}  // namespace kiln::reference
