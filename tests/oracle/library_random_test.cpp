// The library's random numbers: the words of Philox, and what is made of them.
#include <cmath>
#include <set>

#include "reference/cast.h"
#include "reference/inputs.h"
#include "reference/random.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

namespace lang = dsl::lang;
using lang::Value;
using Values = std::vector<Value>;

constexpr int64_t kCount = 4000;

Input seed_input(uint64_t seed) { return {Type::kU64, {{}, {seed}}}; }

// fn(seed, offsets 0, 1, …) of kCount lanes.
template <class Function>
Tile drawn(uint64_t seed, Type type, Function fn) {
  return run_traced([&](const Values& v) { return Values{fn(v[0], lang::arange(0, kCount))}; }, {seed_input(seed)},
                    {{type, {kCount}}})[0];
}

TEST(LibraryRandom, RandIsTheHighBitsOfTheFirstWord) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{42}, uint64_t{0x123456789abcdef0}}) {
    const Tile out = drawn(seed, Type::kF32, [](Value s, Value o) { return lang::rand(s, o); });
    for (int64_t i = 0; i < kCount; ++i) {
      const float expected = reference::rand(reference::philox(seed, static_cast<uint64_t>(i))[0]);
      ASSERT_EQ(out.data[static_cast<size_t>(i)], std::bit_cast<uint32_t>(expected)) << i;
    }
  }
}

TEST(LibraryRandom, RandnIsBoxAndMullersOfTwoWords) {
  const Tile out = drawn(7, Type::kF32, [](Value s, Value o) { return lang::randn(s, o); });
  reference::Array<long double> expected{{kCount}, {}};
  long double sum = 0, squares = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const reference::Counter words = reference::philox(7, static_cast<uint64_t>(i));
    expected.data.push_back(reference::randn(words[0], words[1]).cosine);
    const long double value = reference::real_value(Type::kF32, out.data[static_cast<size_t>(i)]);
    sum += value, squares += value * value;
  }
  expect_close(Type::kF32, out, expected, "randn");
  EXPECT_NEAR(static_cast<double>(sum / kCount), 0, 0.06);
  EXPECT_NEAR(static_cast<double>(squares / kCount), 1, 0.1);
}

TEST(LibraryRandom, RandintLiesInItsRangeAndReachesAllOfIt) {
  const Tile out = drawn(3, Type::kI32, [](Value s, Value o) { return lang::randint(s, o, -7, 13); });
  std::vector<int> counts(20);
  for (const Bits bits : out.data) {
    const auto value = static_cast<int32_t>(bits);
    ASSERT_TRUE(value >= -7 && value < 13) << value;
    ++counts[static_cast<size_t>(value + 7)];
  }
  for (const int count : counts) EXPECT_NEAR(count, 200, 5 * std::sqrt(200.0));
}

TEST(LibraryRandom, RandintOfWideEmptyAndSingleRanges) {
  const auto bounds = [](Type type, int64_t low, int64_t high) {
    const Input a = {type, {{}, {static_cast<uint32_t>(low)}}}, b = {type, {{}, {static_cast<uint32_t>(high)}}};
    return run_traced([](const Values& v) { return Values{lang::randint(v[0], lang::arange(0, kCount), v[1], v[2])}; },
                      {seed_input(9), a, b}, {{type, {kCount}}})[0];
  };
  for (const Bits bits : bounds(Type::kI32, 5, 6).data) ASSERT_EQ(bits, 5u);
  for (const Bits bits : bounds(Type::kI32, 5, 5).data) ASSERT_EQ(bits, 5u);
  for (const Bits bits : bounds(Type::kI32, 5, -5).data) ASSERT_EQ(bits, 5u);
  int negative = 0;
  for (const Bits bits : bounds(Type::kI32, INT32_MIN, INT32_MAX).data) {
    negative += static_cast<int32_t>(bits) < 0;
    ASSERT_NE(static_cast<int32_t>(bits), INT32_MAX);
  }
  EXPECT_NEAR(negative, kCount / 2, 5 * std::sqrt(kCount / 4.0));
  std::set<Bits> high_half;
  for (const Bits bits : bounds(Type::kU32, 0x80000000, 0xffffffff).data) {
    ASSERT_GE(bits, 0x80000000u);
    high_half.insert(bits);
  }
  EXPECT_GT(high_half.size(), size_t{kCount - 10});
}

TEST(LibraryRandom, DropoutScalesWhatItKeeps) {
  for (const Type type : {Type::kF32, Type::kF16, Type::kBF16, Type::kF64}) {
    const Input x = random_input(type, {kCount}, 1, false);
    for (const float p : {0.0f, 0.25f, 0.5f, 1.0f}) {
      const Tile out =
          run_traced([&](const Values& v) { return Values{lang::dropout(v[0], p, v[1], lang::arange(0, kCount))}; },
                     {x, seed_input(11)}, {{type, {kCount}}})[0];
      reference::Array<long double> expected{{kCount}, {}};
      int kept = 0;
      for (size_t i = 0; i < out.data.size(); ++i) {
        const bool keep = out.data[i] != 0;
        kept += keep;
        expected.data.push_back(keep ? reference::real_value(type, x.tile.data[i]) / (1 - static_cast<long double>(p))
                                     : 0);
      }
      expect_close(type, out, expected, "dropout");
      EXPECT_NEAR(kept, kCount * (1 - p), p == 0.0f || p == 1.0f ? 5 : 5 * std::sqrt(kCount * p * (1 - p)));
    }
  }
}

TEST(LibraryRandom, WhatDropoutDropsLeavesNoTrace) {
  const Input x = {Type::kF32, {{kCount}, Column(kCount, reference::element_of(Type::kF32, NAN))}};
  const Tile out =
      run_traced([](const Values& v) { return Values{lang::dropout(v[0], 0.5f, v[1], lang::arange(0, kCount))}; },
                 {x, seed_input(11)}, {{Type::kF32, {kCount}}})[0];
  EXPECT_NEAR(static_cast<double>(std::count(out.data.begin(), out.data.end(), 0)), kCount / 2.0,
              5 * std::sqrt(kCount / 4.0));
}

}  // namespace
}  // namespace kiln::oracle
