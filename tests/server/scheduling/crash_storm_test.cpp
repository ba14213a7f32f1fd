// How long workers that die one after the other rest. Time is an argument.
#include "scheduling/crash_storm.h"

#include <gtest/gtest.h>

namespace kiln::server {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

TEST(CrashStorm, RestsEverLongerUpToAMinute) {
  CrashStorm storm;
  CrashStorm::TimePoint now{};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(storm.died(now, 3), 0s);
  EXPECT_FALSE(storm.rests(now));
  for (auto rest : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
    EXPECT_EQ(storm.died(now, 3), rest);
    EXPECT_TRUE(storm.rests(now + rest - 1ms));
    EXPECT_FALSE(storm.rests(now + rest));
    now += 1s;
  }
  // A quiet minute ends it.
  now += 61s;
  EXPECT_EQ(storm.died(now, 3), 0s);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(storm.died(now, 3), 0s);
  EXPECT_EQ(storm.died(now, 3), 1s);
}

}  // namespace
}  // namespace kiln::server
