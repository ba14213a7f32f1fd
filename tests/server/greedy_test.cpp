// Processes of the user that take what they can get: places, descriptors, the tuner's memory, room for words.
#include "kiln/wire/json.h"
#include "service_fixture.h"

namespace kiln::service_test {
namespace {

using GreedyTest = ServiceTest;

// What a worker says is kept as far as somebody may read it.
TEST_F(GreedyTest, WordsOfAWorkerAreCut) {
  start();
  auto daemon = connect();
  auto talks = daemon->compile(order("talks", 60'000, "x"));
  EXPECT_TRUE(talks || talks.error().code == ErrorCode::kInternal);
  auto trace = daemon->stats_text("trace", 10);
  ASSERT_TRUE(trace);
  int phases = 0;
  const auto told = nlohmann::json::parse(*trace);
  for (const auto& event : told["traceEvents"]) {
    const std::string name = event["name"];
    EXPECT_LE(name.size(), 32u);
    phases += name == std::string(32, 'p');
  }
  EXPECT_EQ(phases, 1);
  const auto figures = stats();
  ASSERT_TRUE(figures.contains("compile_ms"));
  for (const auto& [kind, each] : figures["compile_ms"].items()) EXPECT_LE(kind.size(), 32u);
  for (int i = 0; i < 2; ++i) {  // the second is remembered
    auto complains = daemon->compile(order("complains", 60'000, "x"));
    ASSERT_FALSE(complains);
    EXPECT_EQ(complains.error().code, ErrorCode::kCompileFailed);
    EXPECT_EQ(complains.error().message.size(), 8192u);
  }
  EXPECT_EQ(stats()["negative_hits_total"], 1);
}

}  // namespace
}  // namespace kiln::service_test
