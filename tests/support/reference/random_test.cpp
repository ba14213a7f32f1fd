// Philox against the known answers of Random123 1.14 (kat_vectors) and of docs/reference/ops.md.
#include "reference/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kiln::reference {
namespace {

TEST(ReferenceRandom, Random123KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // The digits of pi.
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}, 7), (Counter{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
}

TEST(ReferenceRandom, KnownAnswersOfTheOpsPage) {
  EXPECT_EQ(philox(0, 0), (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(42, 0), (Counter{0x9ceaf053, 0x77f5493b, 0x12bf50ad, 0x5742b3d7}));
  EXPECT_EQ(philox(42, 1), (Counter{0xfcdb2127, 0x53ba6cfd, 0x838f5a6e, 0x744e06fb}));
  EXPECT_EQ(philox(0xfcafeb0ba, 0), (Counter{0xf219fb5b, 0xbe9182a4, 0xf573a172, 0x3952307c}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x85a308d3243f6a88), (Counter{0xe69c9c31, 0xb5a3d762, 0xe733bfc1, 0x341a787c}));
}

TEST(ReferenceRandom, RandIsBelowOne) {
  EXPECT_EQ(rand(0), 0.0f);
  EXPECT_EQ(rand(0xff), 0.0f);
  EXPECT_EQ(rand(0x100), 0x1p-24f);
  EXPECT_EQ(rand(0x80000000), 0.5f);
  EXPECT_EQ(rand(0xffffffff), 1 - 0x1p-24f);
}

TEST(ReferenceRandom, RandnHasTheMomentsOfANormal) {
  EXPECT_EQ(randn(0, 0x12345678).cosine, 0);
  // u = 1/2: the radius is sqrt(2·log 2), and v = 1/4 is a right angle.
  EXPECT_NEAR(static_cast<double>(randn(0x80000000, 0x40000000).sine), 1.1774100225154747, 1e-15);
  EXPECT_NEAR(static_cast<double>(randn(0x80000000, 0x40000000).cosine), 0, 1e-15);
  EXPECT_TRUE(std::isfinite(randn(0xffffffff, 0).cosine));
  constexpr int kPairs = 50000;
  long double sums[5] = {}, cross = 0;
  for (uint64_t i = 0; i < kPairs; ++i) {
    const Counter words = philox(3, i);
    const Normals pair = randn(words[0], words[1]);
    cross += pair.cosine * pair.sine;
    for (const long double value : {pair.cosine, pair.sine}) {
      for (int power = 1; power < 5; ++power) sums[power] += std::pow(value, power);
    }
  }
  const auto moment = [&](int power) { return static_cast<double>(sums[power] / (2 * kPairs)); };
  EXPECT_NEAR(moment(1), 0, 0.02);
  EXPECT_NEAR(moment(2), 1, 0.02);
  EXPECT_NEAR(moment(3), 0, 0.05);
  EXPECT_NEAR(moment(4), 3, 0.1);
  EXPECT_NEAR(static_cast<double>(cross / kPairs), 0, 0.02);
}

}  // namespace
}  // namespace kiln::reference
