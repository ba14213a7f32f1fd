// Configs as text.
#include <gtest/gtest.h>

#include "kiln/autotune/space.h"

namespace kiln::autotune {
namespace {

TEST(ConfigText, ReadsBackWhatItWrites) {
  const Config config = {{"BM", 128}, {"num_warps", 8}, {"shift", -3}};
  EXPECT_EQ(to_string(config), "BM=128,num_warps=8,shift=-3");
  auto back = parse_config(to_string(config));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, config);
  EXPECT_TRUE(parse_config("")->empty());
}

TEST(ConfigText, TakesTheNamesOfSchedules) {
  EXPECT_EQ(*parse_config("warp_specialise=ping_pong"), (Config{{"warp_specialise", 4}}));
  EXPECT_EQ(parse_config("BM=queue").error().message, "the config `BM=queue`: `BM=queue` has no integer");
}

TEST(ConfigText, NamesWhatItCannotRead) {
  EXPECT_EQ(parse_config("BM").error().message, "the config `BM`: write NAME=VALUE");
  EXPECT_EQ(parse_config("BM=4x").error().message, "the config `BM=4x`: `BM=4x` has no integer");
  EXPECT_EQ(parse_config("BM=4,BM=5").error().message, "the config `BM=4,BM=5`: `BM` stands twice");
}

}  // namespace
}  // namespace kiln::autotune
