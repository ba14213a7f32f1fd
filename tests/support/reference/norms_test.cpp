// Normalisations of one line against values computed with 30 digits by mpmath, and their behaviour at infinities.
#include "reference/norms.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kiln::reference {
namespace {

const Line kLine{1.5L, -2, 0.25L, 3};
constexpr long double kInf = INFINITY;

void expect_near(const Line& out, const Line& expected) {
  ASSERT_EQ(out.size(), expected.size());
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_LE(std::fabs(out[i] - expected[i]), 4e-19L * std::fabs(expected[i])) << i << ": " << out[i];
  }
}

TEST(ReferenceNorms, AgainstMpmath) {
  expect_near(softmax(kLine), {0.1724616288859388190666L, 0.005207889933106294380173L, 0.04941108395014339447875L,
                               0.7729193972308114920745L});
  expect_near({logsumexp(kLine)}, {3.257580508495379238653L});
  expect_near(log_softmax(kLine), {-1.757580508495379238653L, -5.257580508495379238653L, -3.007580508495379238653L,
                                   -0.257580508495379238653L});
  expect_near({mean(kLine), var(kLine), var(kLine, 1)}, {0.6875L, 3.35546875L, 4.473958333333333333333L});
  expect_near(layer_norm(kLine, {}, {}, 1e-5L), {0.4435536151168447291695L, -1.467138880771101796484L,
                                                 -0.2388365619859933157066L, 1.262421827640250383021L});
  expect_near(rms_norm(kLine, {}, 1e-5L), {0.7666508766606612949583L, -1.022201168880881726611L,
                                           0.1277751461101102158264L, 1.533301753321322589917L});
}

TEST(ReferenceNorms, WeightsAndBiases) {
  const Line plain = layer_norm(kLine, {}, {}, 0), scaled = layer_norm(kLine, {2, 0, 1, -1}, {1, 5, 0, 0}, 0);
  expect_near(scaled, {2 * plain[0] + 1, 5, plain[2], -plain[3]});
  const Line rms = rms_norm(kLine, {}, 0);
  expect_near(rms_norm(kLine, {1, 2, 3, 4}, 0), {rms[0], 2 * rms[1], 3 * rms[2], 4 * rms[3]});
}

TEST(ReferenceNorms, ScansInBothDirections) {
  EXPECT_EQ(cumsum({1, 2, 3}), (Line{1, 3, 6}));
  EXPECT_EQ(cumsum({1, 2, 3}, true), (Line{6, 5, 3}));
  EXPECT_EQ(cumprod({2, 3, -4}), (Line{2, 6, -24}));
  EXPECT_EQ(cumprod({2, 3, -4}, true), (Line{-24, -12, -4}));
  EXPECT_EQ(sum({1e25L, 1, -1e25L}), 1);
  EXPECT_EQ(prod({0.5L, 8}), 4);
}

TEST(ReferenceNorms, LargeAndInfinite) {
  expect_near(softmax({1e4L, 1e4L}), {0.5L, 0.5L});
  EXPECT_EQ(logsumexp({-2e4L}), -2e4L);
  EXPECT_EQ(logsumexp({-kInf, -kInf}), -kInf);
  EXPECT_EQ(logsumexp({kInf, 1}), kInf);
  EXPECT_EQ(softmax({-kInf, 0}), (Line{0, 1}));
  EXPECT_EQ(log_softmax({-kInf, 0}), (Line{-kInf, 0}));
  for (const Line& line : {Line{-kInf, -kInf}, Line{kInf, 0}, Line{NAN, 0}, Line{0, NAN}}) {
    for (const long double value : softmax(line)) EXPECT_TRUE(std::isnan(value));
  }
  EXPECT_TRUE(std::isnan(logsumexp({0, NAN})));
  EXPECT_TRUE(std::isnan(logsumexp({NAN, 0})));
}

TEST(ReferenceNorms, OneElement) {
  EXPECT_EQ(softmax({-7}), (Line{1}));
  EXPECT_EQ(layer_norm({5}, {}, {}, 1e-5L), (Line{0}));
  EXPECT_EQ(var({5}), 0);
}

}  // namespace
}  // namespace kiln::reference
