// Kernels that killed workers or could not be compiled. Time is an argument.
#include "scheduling/refusals.h"

#include <gtest/gtest.h>

namespace kiln::server {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using Time = Refusals::TimePoint;

TEST(Refusals, PoisonAfterTwoDeathsForAWhile) {
  Refusals refusals(2, 10s, 1s);
  Time begin = Time{} + 100s;
  Refusals::Asked asked{{}, 5}, other = asked;
  other.key[0] = 1;
  EXPECT_FALSE(refusals.worker_killed(asked, "signal 11", begin));
  EXPECT_FALSE(refusals.poisoned(asked, begin));
  EXPECT_TRUE(refusals.worker_killed(asked, "signal 6", begin + 1s));
  auto refused = refusals.poisoned(asked, begin + 2s);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, ErrorCode::kPoisoned);
  EXPECT_NE(refused->message.find("signal 6"), std::string::npos);
  EXPECT_EQ(refused->retry_after_ms, 9000u);
  EXPECT_FALSE(refusals.poisoned(other, begin + 2s));
  EXPECT_FALSE(refusals.poisoned(asked, begin + 11s));
  EXPECT_FALSE(refusals.worker_killed(asked, "signal 11", begin + 12s)) << "counting starts anew";
}

TEST(Refusals, KnownFailuresExpireAndDependOnTheDebugSection) {
  Refusals refusals(2, 10s, 1s);
  Time begin = Time{} + 100s;
  Refusals::Asked asked{{}, 5};
  refusals.compile_failed(asked, 5, error(ErrorCode::kCompileFailed, "no"), begin);
  EXPECT_TRUE(refusals.known_failure(asked, 5, begin + 900ms));
  EXPECT_FALSE(refusals.known_failure(asked, 6, begin + 900ms));
  EXPECT_FALSE(refusals.known_failure(asked, 5, begin + 1s));
}

// Who asks for more memory is not refused for what became of those with less; who asks for less is.
TEST(Refusals, WhatIsRememberedIsOfItsLimit) {
  Refusals refusals(2, 10s, 10s);
  Time begin = Time{} + 100s;
  const Refusals::Asked less{{}, 200}, more{{}, 4000}, same{{}, 300};
  for (int i = 0; i < 2; ++i) refusals.worker_killed(same, "signal 11", begin);
  refusals.compile_failed(same, 5, error(ErrorCode::kCompileFailed, "no"), begin);
  EXPECT_TRUE(refusals.poisoned(less, begin));
  EXPECT_TRUE(refusals.poisoned(same, begin));
  EXPECT_FALSE(refusals.poisoned(more, begin));
  EXPECT_TRUE(refusals.known_failure(less, 5, begin));
  EXPECT_FALSE(refusals.known_failure(more, 5, begin));
  EXPECT_EQ(refusals.poisoned_keys(begin), 1u);
  EXPECT_EQ(refusals.list(begin).at(0).at("memory_bytes"), 300);
}

// Either limit alone is enough to be another case.
TEST(Refusals, WhatIsRememberedIsOfItsProcessorTime) {
  Refusals refusals(2, 10s, 10s);
  const Time begin = Time{} + 100s;
  const Refusals::Asked same{{}, 300, 10};
  for (int i = 0; i < 2; ++i) refusals.worker_killed(same, "signal 24", begin);
  refusals.compile_failed(same, 5, error(ErrorCode::kCompileFailed, "no"), begin);
  for (const auto& [memory, seconds, refused] : {std::tuple{300, 10, true},
                                                 {200, 10, true},
                                                 {300, 9, true},
                                                 {300, 11, false},
                                                 {200, 11, false},
                                                 {400, 9, false}}) {
    const Refusals::Asked asked{{}, static_cast<uint64_t>(memory), static_cast<uint64_t>(seconds)};
    EXPECT_EQ(refusals.poisoned(asked, begin).has_value(), refused) << memory << " " << seconds;
    EXPECT_EQ(refusals.known_failure(asked, 5, begin).has_value(), refused) << memory << " " << seconds;
  }
  EXPECT_EQ(refusals.list(begin).at(0).at("cpu_seconds"), 10);
}

}  // namespace
}  // namespace kiln::server
