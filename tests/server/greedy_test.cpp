// Processes of the user that take what they can get: places, descriptors, the tuner's memory, room for words.
#include <boost/asio/io_context.hpp>
#include <fstream>

#include "kiln/wire/json.h"
#include "service_fixture.h"
#include "tuner_process.h"

namespace kiln::service_test {
namespace {

using GreedyTest = ServiceTest;

// A tuner that reads nothing.
struct Tuner {
  TempDir temp;
  boost::asio::io_context io;
  server::Config config;
  server::Log log{temp / "log", "info"};
  server::Metrics metrics;
  server::History history{"test"};
  std::shared_ptr<server::Bytes> scratch = std::make_shared<server::Bytes>(4096);
  uint64_t requests = 0;
  int refused = 0;
  std::unique_ptr<server::TunerProcess> process;

  Tuner() {
    config.tuner_path = temp / "tuner";
    std::ofstream(config.tuner_path) << "#!/bin/sh\nexec sleep 1000\n";
    std::filesystem::permissions(config.tuner_path, std::filesystem::perms::owner_all);
    process = std::make_unique<server::TunerProcess>(io, config, scratch, log, metrics, history);
  }
  // The number of those that were taken, of so many of a process.
  int submit(uint64_t owner, int count, size_t size) {
    refused = 0;
    for (int i = 0; i < count; ++i) {
      process->submit({.requester = {owner, ++requests},
                       .owner = owner,
                       .trace_id = "t",
                       .json = "{}",
                       .body = std::make_shared<const server::Bytes>(size)},
                      [this](const Result<std::string>& answer) {
                        if (answer.error().code == ErrorCode::kDraining) return;  // the end of the test
                        EXPECT_EQ(answer.error().code, ErrorCode::kResourceExhausted) << answer.error().message;
                        EXPECT_TRUE(answer.error().retryable);
                        ++refused;
                      });
    }
    io.poll();
    return count - refused;
  }
};

TEST(TunerShares, WhatAProcessAsksTheTunerForLeavesRoomForOthers) {
  Tuner tuner;
  tuner.config.queue_bytes = 4 << 20;
  EXPECT_EQ(tuner.submit(1, 10, 1 << 20), 4);
  EXPECT_EQ(tuner.submit(2, 10, 1 << 20), 2) << "half of what is left";
  EXPECT_EQ(tuner.submit(3, 10, 100), 10);
  EXPECT_EQ(tuner.metrics.queue_rejected, 14u);
  EXPECT_EQ(tuner.process->stats()["tuner_running"], 1);
  // What left is here until the tuner has read it.
  tuner.process->forget_client(1);
  EXPECT_EQ(tuner.process->stats()["tune_waiters"], 12);
  EXPECT_LE(tuner.submit(1, 10, 1 << 20), 1);
  EXPECT_EQ(tuner.metrics.tuner_deaths, 0u);
}

TEST(TunerShares, AreOfRequestsToo) {
  Tuner tuner;
  tuner.config.queue_jobs = 20;
  EXPECT_EQ(tuner.submit(1, 50, 10), 20);
  EXPECT_EQ(tuner.submit(2, 50, 10), 10);
  EXPECT_EQ(tuner.submit(3, 1, 10), 1);
}

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
