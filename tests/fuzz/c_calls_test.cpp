// Random calls of kiln.h for a second, or for KILN_FUZZ_SECONDS: in any build, so that sanitizers see them too.
// libFuzzer has no part in it; what it would learn of the library's branches these do without.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "check.h"

namespace {

TEST(FuzzCalls, AnySequenceIsSurvived) {
  const char* asked = std::getenv("KILN_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(asked != nullptr ? std::stoi(asked) : 1);
  const unsigned seed = asked != nullptr ? std::random_device()() : 1;
  std::mt19937 random(seed);
  size_t sequences = 0;
  for (; std::chrono::steady_clock::now() < end; ++sequences) {
    std::vector<uint8_t> bytes(64 + random() % 4000);
    for (uint8_t& each : bytes) each = static_cast<uint8_t>(random());
    SCOPED_TRACE("seed " + std::to_string(seed) + ", sequence " + std::to_string(sequences));
    ASSERT_EQ(LLVMFuzzerTestOneInput(bytes.data(), bytes.size()), 0);
  }
  EXPECT_GT(sequences, 3u);
  std::cout << sequences << " sequences of calls, seed " << seed << std::endl;
}

}  // namespace
