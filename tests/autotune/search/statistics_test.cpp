// Medians, their intervals, and how often a race is wrong.
#include "search/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kiln::autotune {
namespace {

std::vector<double> numbers(int n) {
  std::vector<double> out;
  for (int i = 1; i <= n; ++i) out.push_back(i);
  return out;
}

// The ranks of the tables for 99 %.
TEST(MedianInterval, LiesBetweenTheOrderStatisticsOfTheTable) {
  for (auto [n, low, high] : {std::tuple(5, 1, 5), {8, 1, 8}, {20, 4, 17}, {50, 16, 35}, {100, 37, 64}}) {
    const MedianInterval interval = median_interval(numbers(n));
    EXPECT_EQ(interval.low, low) << n;
    EXPECT_EQ(interval.high, high) << n;
    EXPECT_EQ(interval.samples, n);
  }
}

TEST(MedianInterval, HoldsTheMedianOfASkewedDistribution) {
  std::mt19937_64 random(1);
  int inside = 0;
  for (int run = 0; run < 2000; ++run) {
    std::vector<double> samples;
    for (int i = 0; i < 30; ++i) samples.push_back(std::exp(std::normal_distribution<double>()(random)));
    const MedianInterval interval = median_interval(samples);
    inside += interval.low <= 1 && 1 <= interval.high;
  }
  EXPECT_GE(inside, 1975);
}

TEST(MedianInterval, LeavesOutWhatIsNoNumber) {
  const MedianInterval interval = median_interval({3, std::nan(""), 1, 2});
  EXPECT_EQ(interval.median, 2);
  EXPECT_EQ(interval.samples, 3);
  EXPECT_TRUE(std::isnan(median_interval({}).median));
}

// By quadrature of the integral that the closed form stands for.
TEST(CoinEvidence, IsTheAverageOverAllOdds) {
  for (auto [hits, tosses] : {std::pair(0, 0), {3, 3}, {5, 10}, {2, 9}, {40, 50}}) {
    double sum = 0;
    constexpr int kSteps = 200000;
    for (int i = 0; i < kSteps; ++i) {
      const double p = 0.5 + 0.5 * (i + 0.5) / kSteps;
      sum += std::exp(hits * std::log(2 * p) + (tosses - hits) * std::log(2 * (1 - p)));
    }
    EXPECT_NEAR(coin_evidence(hits, tosses), sum / kSteps, 1e-3 * sum / kSteps) << hits << " of " << tosses;
  }
}

// Looked at after every one of 300 rounds.
TEST(PairedRace, RarelyCallsAnEqualSlowerHoweverOftenItIsAsked) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> noise(0, 0.05);
  std::uniform_real_distribution<double> share(0, 1);
  int wrong = 0;
  constexpr int kRaces = 400;
  for (int i = 0; i < kRaces; ++i) {
    PairedRace race;
    bool slower = false;
    for (int round = 0; round < 300 && !slower; ++round) {
      auto time = [&] { return std::exp(noise(random)) * (share(random) < 0.05 ? 5 : 1); };
      race.add(time(), time());
      slower = race.verdict() == Verdict::kSlower;
    }
    wrong += slower;
  }
  EXPECT_LE(wrong, kRaces / 50);  // 1 % is promised; the test itself is noisy
}

TEST(PairedRace, SeesADifferenceThroughNoiseAndDrift) {
  std::mt19937_64 random(6);
  std::normal_distribution<double> noise(0, 0.05);
  PairedRace race;
  for (int round = 0; round < 100; ++round) {
    const double drift = 1 + 0.02 * round;
    race.add(drift * std::exp(noise(random)), 0.93 * drift * std::exp(noise(random)));
  }
  EXPECT_EQ(race.verdict(), Verdict::kFaster);
  EXPECT_NEAR(race.ratio(), 0.93, 0.03);
}

TEST(PairedRace, NeedsNineRoundsOrThreeOfTwiceTheTime) {
  PairedRace slower, far, near;
  for (int round = 1; round <= 9; ++round) {
    slower.add(100, 101);
    EXPECT_EQ(slower.verdict(), round < 9 ? Verdict::kOpen : Verdict::kSlower) << round;
  }
  for (int round = 1; round <= 3; ++round) {
    far.add(100, 205);
    EXPECT_EQ(far.verdict(), round < 3 ? Verdict::kOpen : Verdict::kSlower) << round;
    near.add(100, 49);
    EXPECT_EQ(near.verdict(), round < 3 ? Verdict::kOpen : Verdict::kFaster) << round;
  }
}

}  // namespace
}  // namespace kiln::autotune
