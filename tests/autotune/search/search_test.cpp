// What each search proposes.
#include "search/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "search/surrogate.h"

namespace kiln::autotune {
namespace {

// Eight places on a line; the model says that the last is the best.
struct Line {
  Space space{{{"A", {1, 2, 4, 8, 16, 32, 64, 128}}}, {}};
  std::vector<Config> configs;
  std::vector<double> predicted, measured;
  std::vector<char> open;
  std::vector<Config> transferred;
  size_t champion = 0;

  Line() {
    for (int64_t value : space.axes[0].values) configs.push_back({{"A", value}});
    for (int i = 0; i < 8; ++i) predicted.push_back(100 - i);
    measured.assign(8, std::nan(""));
    open.assign(8, 1);
  }
  void measure(size_t config, double us) {
    measured[config] = us;
    open[config] = 0;
  }
  std::vector<size_t> ask(Search search, size_t count, size_t limit = 8, uint64_t seed = 0) const {
    size_t tried = 0;
    for (char one : open) tried += !one;
    return propose(search, {space, configs, predicted, measured, open, champion, tried, limit, transferred, {}}, seed,
                   count);
  }
};

TEST(Search, ExhaustiveGoesInOrder) {
  Line line;
  line.measure(0, 10);
  EXPECT_EQ(line.ask(Search::kExhaustive, 3), (std::vector<size_t>{1, 2, 3}));
}

TEST(Search, RandomDependsOnTheSeedAlone) {
  Line line;
  line.measure(0, 10);
  EXPECT_EQ(line.ask(Search::kRandom, 7, 8, 1), line.ask(Search::kRandom, 7, 8, 1));
  EXPECT_NE(line.ask(Search::kRandom, 7, 8, 1), line.ask(Search::kRandom, 7, 8, 2));
}

TEST(Search, HalvingProposesAllAtOnce) {
  Line line;
  line.measure(0, 10);
  const std::vector<size_t> all = line.ask(Search::kHalving, 2, 5);
  EXPECT_EQ(all.size(), 4u);
  EXPECT_EQ(all.front(), 7u);
}

TEST(Search, LocalDescendsFromTheModelsBestAndStartsAnew) {
  Line line;
  line.measure(0, 10);
  EXPECT_EQ(line.ask(Search::kLocal, 4), (std::vector<size_t>{7}));
  line.measure(7, 5);
  line.champion = 7;
  EXPECT_EQ(line.ask(Search::kLocal, 4), (std::vector<size_t>{6}));
  line.measure(6, 9);
  EXPECT_EQ(line.ask(Search::kLocal, 4).size(), 1u);
}

TEST(Search, AutoBeginsWithTheNeighboursBestAndTheModels) {
  Line line;
  line.measure(0, 10);
  line.transferred = {{{"A", 4}}};
  const std::vector<size_t> first = line.ask(Search::kAuto, 2);
  EXPECT_EQ(first, (std::vector<size_t>{2, 7}));
}

TEST(Search, NoneProposesBeyondTheLimit) {
  Line line;
  line.measure(0, 10);
  line.measure(1, 9);
  for (Search search : {Search::kAuto, Search::kExhaustive, Search::kRandom, Search::kHalving, Search::kLocal}) {
    EXPECT_LE(line.ask(search, 6, 3).size(), 1u);
    EXPECT_TRUE(line.ask(search, 6, 2).empty());
  }
  EXPECT_EQ(search_limit(Search::kAuto, 0.25, 80), 20u);
  EXPECT_EQ(search_limit(Search::kAuto, 0.25, 9), 3u);
  EXPECT_EQ(search_limit(Search::kAuto, 0.25, 3), 3u);
  EXPECT_EQ(search_limit(Search::kExhaustive, 0.25, 80), 80u);
}

TEST(Surrogate, LearnsThatTheModelIsBackwards) {
  Line line;
  for (size_t i = 0; i < 4; ++i) line.measure(i, 100.0 + 20 * static_cast<double>(i));
  const Surrogate surrogate(line.space, line.configs, line.predicted, line.measured);
  EXPECT_NEAR(surrogate.expected_us(1), 120, 3);
  EXPECT_GT(surrogate.expected_us(4), surrogate.expected_us(2));
}

TEST(Surrogate, AFailureTellsOfItsNeighbours) {
  Line line;
  line.predicted.assign(8, 1);
  line.measure(0, 100);
  line.measure(3, 90);
  const double before = Surrogate(line.space, line.configs, line.predicted, line.measured).improvement(6);
  line.measure(7, INFINITY);
  EXPECT_LT(Surrogate(line.space, line.configs, line.predicted, line.measured).improvement(6), before);
}

TEST(Surrogate, WhatIsAssumedIsNoNews) {
  Line line;
  line.measure(0, 100);
  line.measure(2, 90);
  Surrogate surrogate(line.space, line.configs, line.predicted, line.measured);
  const double before = surrogate.improvement(5), expected = surrogate.expected_us(5);
  surrogate.assume(5);
  EXPECT_LT(surrogate.improvement(5), before);
  EXPECT_NEAR(surrogate.expected_us(5), expected, 1e-6);
}

}  // namespace
}  // namespace kiln::autotune
