// Figures that clients and workers could make ever more of.
#include "reports/metrics.h"

#include <gtest/gtest.h>

namespace kiln::server {
namespace {

using std::chrono_literals::operator""ms;

// A worker says what it compiled for.
TEST(Metrics, KindsOfTargetsAreFewAndShort) {
  Metrics metrics;
  for (int i = 0; i < 1000; ++i) metrics.record_compile(std::to_string(i) + std::string(60'000, 'x'), 1ms);
  EXPECT_LE(metrics.compile_ms.size(), 17u);
  for (const auto& [kind, each] : metrics.compile_ms) EXPECT_LE(kind.size(), 32u);
  EXPECT_EQ(metrics.compiles, 1000u);
}

}  // namespace
}  // namespace kiln::server
