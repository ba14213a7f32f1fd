// What each client has of something that all share.
#include "scheduling/shares.h"

#include <gtest/gtest.h>

namespace kiln::server {
namespace {

TEST(Shares, AGreedyProcessLeavesRoomForOthers) {
  Shares shares;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(shares.admits(1, 1, 100));
    shares.take(1, 1);
  }
  EXPECT_FALSE(shares.admits(1, 1, 100));
  for (uint64_t greedy = 2; greedy < 5; ++greedy) {
    for (int i = 0; shares.admits(greedy, 1, 100); ++i) shares.take(greedy, 1);
    EXPECT_TRUE(shares.admits(99, 1, 100)) << greedy;
  }
  EXPECT_LT(shares.total(), 200u);
  shares.give_back(1, 60);
  EXPECT_TRUE(shares.admits(4, 20, 100));
  EXPECT_FALSE(shares.admits(99, 101, 100));
}

TEST(Shares, TheLargestIsKnownAndRoomIsGivenBack) {
  auto shares = std::make_shared<Shares>();
  EXPECT_EQ(shares->largest(), 0u);
  auto room = take_room(shares, 7, 30);
  const auto copy = room;
  shares->take(8, 20);
  EXPECT_EQ(shares->largest(), 30u);
  room = nullptr;
  EXPECT_EQ(shares->held(7), 30u);
  shares->take(8, 20);
  EXPECT_EQ(shares->largest(), 40u);
}

}  // namespace
}  // namespace kiln::server
