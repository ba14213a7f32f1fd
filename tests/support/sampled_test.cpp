// Parts of a test's cases: each has its length, and one after another they have everything.
#include "sampled.h"

#include <numeric>
#include <set>

namespace kiln::test {
namespace {

// Parts are taken whatever the variable says.
class Sampled : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* set = std::getenv("KILN_TEST_ALL")) before_ = set;
    unsetenv("KILN_TEST_ALL");
  }
  void TearDown() override {
    if (before_.empty()) {
      unsetenv("KILN_TEST_ALL");
    } else {
      setenv("KILN_TEST_ALL", before_.c_str(), 1);
    }
  }

 private:
  std::string before_;
};

std::vector<int> numbers(int count) {
  std::vector<int> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST_F(Sampled, PartsFollowEachOtherUntilAllCameUp) {
  for (const size_t most : {1, 3, 5, 16}) {
    std::set<int> seen;
    for (size_t parts = 0; parts < (16 + most - 1) / most; ++parts) {
      const std::vector<int> part = sampled(numbers(16), most);
      EXPECT_EQ(part.size(), most);
      seen.insert(part.begin(), part.end());
    }
    EXPECT_EQ(seen.size(), 16u) << most;
  }
}

TEST_F(Sampled, ShortListsAreWhole) {
  EXPECT_EQ(sampled(numbers(3), 3), numbers(3));
  EXPECT_EQ(sampled(numbers(3), 4), numbers(3));
  EXPECT_EQ(sampled(numbers(0), 4), numbers(0));
}

TEST_F(Sampled, WithTheVariableListsAreWhole) {
  setenv("KILN_TEST_ALL", "1", 1);
  EXPECT_EQ(sampled(numbers(16), 3), numbers(16));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(is_sampled(4));
}

TEST_F(Sampled, OneCallInSoMany) {
  std::vector<int> chosen;
  for (int i = 0; i < 40; ++i) {
    if (is_sampled(4)) chosen.push_back(i);
  }
  ASSERT_EQ(chosen.size(), 10u);
  for (const int i : chosen) EXPECT_EQ(i % 4, chosen[0]);
}

TEST_F(Sampled, TheFirstCallInATest) {
  std::vector<bool> first;
  for (int i = 0; i < 3; ++i) first.push_back(is_first_call());
  EXPECT_EQ(first, (std::vector<bool>{true, false, false}));
  EXPECT_TRUE(is_first_call()) << "another line";
}

// A case inside of another: what is taken at one line says nothing of another one.
TEST_F(Sampled, LinesCountByThemselves) {
  int inner = 0;
  for (int i = 0; i < 9; ++i) {
    if (is_sampled(3)) inner += is_sampled(3);
  }
  EXPECT_EQ(inner, 1);
}

// Or some targets would never come up in a suite whose tests have one list each.
TEST_F(Sampled, TestsBeginAtDifferentPlaces) {
  std::set<size_t> places;
  for (int i = 0; i < 40; ++i) places.insert(first_part("Suite.Test" + std::to_string(i), 5));
  EXPECT_EQ(places.size(), 5u);
}

}  // namespace
}  // namespace kiln::test
