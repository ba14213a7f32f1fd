#include "kiln/dsl/facts.h"

#include <gtest/gtest.h>

namespace kiln::dsl {
namespace {

using enum ParamFact;

TEST(Facts, NamesAreReadAsTheyAreWritten) {
  for (const ParamFact fact : {kNone, kAlign16, kMultiple16, kOne, kMultiple8}) {
    EXPECT_EQ(parse_fact(fact_name(fact)), fact) << fact_name(fact);
  }
  EXPECT_EQ(parse_fact("x4"), std::nullopt);
  EXPECT_EQ(parse_fact(""), std::nullopt);
}

TEST(Facts, TheMostThatHoldsOfAnInt) {
  EXPECT_EQ(fact_of_int(0), kMultiple16);
  EXPECT_EQ(fact_of_int(1), kOne);
  EXPECT_EQ(fact_of_int(8), kMultiple8);
  EXPECT_EQ(fact_of_int(1000), kMultiple8);
  EXPECT_EQ(fact_of_int(-24), kMultiple8);
  EXPECT_EQ(fact_of_int(4096), kMultiple16);
  EXPECT_EQ(fact_of_int(12), kNone);
}

TEST(Facts, WhatFollowsFromWhat) {
  EXPECT_TRUE(implies(kMultiple16, kMultiple8));
  EXPECT_FALSE(implies(kMultiple8, kMultiple16));
  EXPECT_TRUE(implies(kOne, kNone));
  EXPECT_FALSE(implies(kNone, kOne));
  EXPECT_FALSE(implies(kAlign16, kMultiple16));
}

TEST(Facts, FitTheTypesThatTheySpeakOf) {
  const Type pointer = {ElementType::kF32, true, {}}, index = {ElementType::kI64, false, {}},
             flag = {ElementType::kI1, false, {}};
  EXPECT_TRUE(fits(kAlign16, pointer) && fits(kMultiple8, index) && fits(kNone, flag));
  EXPECT_FALSE(fits(kAlign16, index) || fits(kMultiple8, pointer) || fits(kOne, flag));
}

}  // namespace
}  // namespace kiln::dsl
