// How good the search is on real times: those of every config of bench-autotune's cases on an NVIDIA H200 (driver
// 13000), as its exhaustive search recorded them.
#include "recorded.h"

namespace kiln::autotune {
namespace {

constexpr int kSeeds = 20;

std::vector<recorded::Case> cases() {
  return recorded::read_cases(KILN_SOURCE_DIR "/tests/autotune/h200_times.jsonl",
                              KILN_SOURCE_DIR "/tests/bench/autotune_cuda.jsonl");
}

TEST(OnAnH200, AQuarterOfTheConfigsThatRunHasOneWithinTwoPercentOfTheBest) {
  const auto all = cases();
  EXPECT_EQ(all.size(), 9u);
  for (const recorded::Case& one : all) EXPECT_GE(recorded::count_good(one, kSeeds), kSeeds - 1) << one.name;
}

// What is pruned before it is compiled spills, or was not even tried.
TEST(OnAnH200, NothingThatRunsWellIsPruned) {
  for (const recorded::Case& one : cases()) {
    for (size_t i = 0; i < one.configs.size(); ++i) {
      EXPECT_TRUE(one.open[i] || std::isinf(one.us[i])) << one.name << " " << to_string(one.configs[i]);
    }
  }
}

}  // namespace
}  // namespace kiln::autotune
