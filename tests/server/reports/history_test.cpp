// The requests that are remembered.
#include "reports/history.h"

#include <gtest/gtest.h>

namespace kiln::server {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using Time = std::chrono::steady_clock::time_point;

Passage passage(const std::string& trace_id, std::chrono::milliseconds took) {
  Passage out;
  out.trace_id = trace_id;
  out.asked = Time(1s);
  out.ended = out.asked + took;
  return out;
}

TEST(History, TheSlowLogHasTheLast128) {
  History history;
  for (int i = 0; i < 200; ++i) {
    history.add(passage(std::to_string(i), 1001ms));
    history.add(passage("fast", 1000ms));
  }
  const auto slow = history.slow();
  ASSERT_EQ(slow.size(), 128u);
  EXPECT_EQ(slow.front()["trace_id"], "72");
  EXPECT_EQ(slow.back()["trace_id"], "199");
  history.add(Lookup{.connection = 1, .request = 2, .outcome = "disk", .asked = Time(1s), .ended = Time(2001ms)});
  history.add(Lookup{.connection = 1, .request = 3, .outcome = "disk", .asked = Time(1s), .ended = Time(2s)});
  EXPECT_EQ(history.slow().back()["trace_id"], "0-1-2") << "a lookup that the disk held up";
}

TEST(History, TheTraceHasAsManyAsWanted) {
  History history;
  for (size_t i = 0; i < History::kPassages + 10; ++i) history.add(passage(std::to_string(i), 1ms));
  auto requests = [&](size_t last) {
    std::vector<std::string> out;
    const auto events = nlohmann::json::parse(history.trace(last))["traceEvents"];
    for (const auto& event : events) {
      if (event["name"] != "lookup") out.push_back(event["args"]["trace_id"]);
    }
    return out;
  };
  EXPECT_EQ(requests(SIZE_MAX).size(), History::kPassages);
  EXPECT_EQ(requests(SIZE_MAX).front(), "10");
  const std::string newest = std::to_string(History::kPassages + 9), before = std::to_string(History::kPassages + 8);
  EXPECT_EQ(requests(2), (std::vector<std::string>{before, newest}));
}

// However many are served from memory, the compiles before them stay to be seen.
TEST(History, LookupsAreBesideTheCompilesInTheOrderOfTheirEnds) {
  History history("start");
  history.add(passage("compiled", 5ms));
  for (uint64_t i = 0; i < History::kLookups + 3; ++i) {
    const auto asked = Time(1s) + (i < 10 ? 1ms : 6ms);
    history.add(Lookup{.connection = 7, .request = i, .outcome = "memory", .asked = asked, .ended = asked});
  }
  const auto events = nlohmann::json::parse(history.trace(SIZE_MAX))["traceEvents"];
  ASSERT_EQ(events.size(), History::kLookups + 2);  // the compile has its lookup beside it
  EXPECT_EQ(events[0]["args"]["trace_id"], "start-7-3") << "the oldest that is remembered";
  EXPECT_EQ(events[0]["cat"], "GET");
  EXPECT_EQ(events[7]["args"]["trace_id"], "compiled");
  EXPECT_EQ(events[7]["cat"], "COMPILE");
  const auto last = nlohmann::json::parse(history.trace(1))["traceEvents"];
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0]["args"]["trace_id"], "start-7-" + std::to_string(History::kLookups + 2));
}

}  // namespace
}  // namespace kiln::server
