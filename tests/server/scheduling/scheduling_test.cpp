// Single-flight, deadlines, cancellation, back-pressure and priorities, from outside.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "service_fixture.h"

namespace kiln::service_test {
namespace {

using SchedulingTest = ServiceTest;

TEST_F(SchedulingTest, SixtyFourClientsOneCompile) {
  start();
  std::vector<std::jthread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([&] {
      auto artifact = connect()->compile(order("sleep", 200));
      if (artifact && artifact->code.size() == 64) ++good;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 64);
  auto figures = stats();
  EXPECT_EQ(figures["compiles_total"], 1);
  EXPECT_EQ(figures["joins_total"].get<int>() + figures["hits_total"]["memory"].get<int>(), 63);
}

TEST_F(SchedulingTest, LeaderLeavingDoesNotEndTheCompile) {
  start();
  auto leader = connect(), follower = connect();
  std::stop_source stop;
  std::jthread first([&] {
    auto result = leader->compile(order("waits"), {.cancel = stop.get_token()});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  });
  ASSERT_TRUE(eventually([&] { return stats()["waiters"] == 1; }));
  std::jthread second([&] { EXPECT_TRUE(follower->compile(order("waits"))); });
  ASSERT_TRUE(eventually([&] { return stats()["waiters"] == 2 && busy_workers().size() == 1; }));
  stop.request_stop();
  first.join();
  let_go(busy_workers());
  second.join();
  EXPECT_EQ(stats()["compiles_total"], 1);
}

TEST_F(SchedulingTest, KilledLeaderWorkerIsRetriedOnceForAll) {
  start({"--workers", "1"});
  std::vector<std::jthread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      if (connect()->compile(order("waits"))) ++good;
    });
  }
  ASSERT_TRUE(eventually([&] { return stats()["waiters"] == 8 && busy_workers().size() == 1; }));
  const auto first = busy_workers();
  ASSERT_EQ(first.size(), 1u);
  ::kill(first[0], SIGKILL);
  std::vector<pid_t> now;  // seen once: between two looks the first worker may have gone
  ASSERT_TRUE(eventually([&] { return (now = busy_workers()).size() == 1 && now != first; }));
  let_go(now);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 8);
  auto figures = stats();
  EXPECT_EQ(figures["retries_total"], 1);
  EXPECT_EQ(figures["compiles_total"], 1);
  EXPECT_EQ(figures["worker_deaths_total"]["signal 9"], 1);
}

TEST_F(SchedulingTest, LastWaiterLeavingCancelsTheJob) {
  start();
  auto daemon = connect();
  std::stop_source stop;
  std::jthread waiting([&] {
    EXPECT_EQ(daemon->compile(order("hang"), {.cancel = stop.get_token()}).error().code, ErrorCode::kCancelled);
  });
  ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
  stop.request_stop();
  waiting.join();
  EXPECT_TRUE(eventually([&] { return stats()["workers"] == 0; }));
  EXPECT_EQ(stats()["jobs_cancelled_total"], 1);
}

TEST_F(SchedulingTest, DisconnectCancels) {
  start();
  {
    RawPeer peer(runtime());
    ASSERT_TRUE(peer.read());
    peer.hello();
    RequestBytes hang = order("hang");
    uint32_t size = hang.canonical.size();
    peer.send(
        {.type = wire::Type::kCompile, .request_id = 1, .body = {std::as_bytes(std::span(&size, 1)), hang.canonical}});
    ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return stats()["workers"] == 0; }));
  EXPECT_EQ(stats()["jobs"], 0);
}

TEST_F(SchedulingTest, QueuedJobsHonourDeadlineAndCancel) {
  start({"--workers", "1"});
  auto busy = connect(), queued = connect();
  std::stop_source stop, stop_queued;
  std::jthread occupant([&] { (void)busy->compile(order("hang"), {.cancel = stop.get_token()}); });
  ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
  auto begin = std::chrono::steady_clock::now();
  auto late = queued->compile(order("bytes"), {.deadline_ms = 80});
  auto took = std::chrono::steady_clock::now() - begin;
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_NE(late.error().message.find("no worker was free"), std::string::npos) << late.error().message;
  EXPECT_GE(took, 75ms);
  std::jthread cancelled([&] {
    EXPECT_EQ(queued->compile(order("bytes"), {.cancel = stop_queued.get_token()}).error().code, ErrorCode::kCancelled);
  });
  ASSERT_TRUE(eventually([&] { return jobs_queued() == 1; }));
  stop_queued.request_stop();
  cancelled.join();
  EXPECT_EQ(jobs_queued(), 0);
  stop.request_stop();
  occupant.join();
}

TEST_F(SchedulingTest, FullQueueRefusesButServesHits) {
  start({"--workers", "1", "--queue-limit", "2"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  std::stop_source stop;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] { (void)daemon->compile(order("hang", i), {.cancel = stop.get_token()}); });
    ASSERT_TRUE(eventually([&] { return stats()["jobs"] == i + 1 && stats()["workers_busy"] == 1; }));
  }
  ASSERT_TRUE(eventually([&] { return jobs_queued() == 2; }));
  auto refused = daemon->compile(order("bytes", 7, "more"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(refused.error().retryable);
  EXPECT_GT(refused.error().retry_after_ms, 0u);
  EXPECT_TRUE(daemon->fetch(order("bytes")));
  stop.request_stop();
  for (auto& thread : threads) thread.join();
}

// Another process has all that one may have waiting; whoever comes is taken in, and waits as others do.
TEST_F(SchedulingTest, AFloodLeavesRoomForOthers) {
  start({"--workers", "1", "--user-limit", "10", "--queue-limit", "30"});
  const pid_t flooder = ::fork();
  if (flooder == 0) {
    RawPeer peer(runtime());
    peer.hello();
    for (uint64_t i = 1; i <= 60; ++i) {
      const RequestBytes request = order("hang", i);
      const uint32_t size = static_cast<uint32_t>(request.canonical.size());
      peer.send({.type = wire::Type::kCompile,
                 .request_id = i,
                 .json = i % 2 ? R"({"priority":"background"})" : "{}",
                 .body = {std::as_bytes(std::span(&size, 1)), request.canonical}});
    }
    ::pause();
  }
  EXPECT_TRUE(eventually([&] { return stats()["queue_rejected_total"].get<int>() > 0 && jobs_queued() == 30; }));
  auto daemon = connect();
  for (auto priority : {client::Priority::kInteractive, client::Priority::kBackground}) {
    auto late = daemon->compile(order("bytes", 9, "mine"), {.deadline_ms = 200, .priority = priority});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded) << late.error().message;
  }
  ::kill(flooder, SIGKILL);
  ::waitpid(flooder, nullptr, 0);
  EXPECT_TRUE(daemon->compile(order("bytes", 9, "mine"), {.deadline_ms = 60'000}));
}

TEST_F(SchedulingTest, InteractiveOvertakesBackground) {
  start({"--workers", "2"});
  auto daemon = connect();
  std::vector<std::jthread> threads;
  std::atomic<int> finished{0};
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_TRUE(daemon->compile(order("waits", 0, std::to_string(i)), {.priority = client::Priority::kBackground}));
      ++finished;
    });
  }
  ASSERT_TRUE(eventually([&] { return stats()["jobs"] == 3; }));
  // One of the two workers is never given to background jobs.
  EXPECT_TRUE(daemon->compile(order("bytes", 7, "now")));
  EXPECT_EQ(finished, 0);
  EXPECT_TRUE(eventually([&] {
    let_go(busy_workers());
    return finished == 3;
  }));
}

TEST_F(SchedulingTest, TooManyRequestsInFlight) {
  start({"--workers", "1"});
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.hello();
  for (uint64_t i = 1; i <= 257; ++i) {
    RequestBytes request = order("hang", i);
    uint32_t size = request.canonical.size();
    peer.send({.type = wire::Type::kCompile,
               .request_id = i,
               .body = {std::as_bytes(std::span(&size, 1)), request.canonical}});
  }
  auto refused = peer.read();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->id(), 257u);
  EXPECT_EQ(wire::parse_error(refused->json).code, ErrorCode::kResourceExhausted);
}

TEST_F(SchedulingTest, JobsAreListedOldestFirst) {
  start({"--workers", "1"});
  std::stop_source stop;
  std::vector<std::jthread> threads;
  auto ask = [&](uint64_t number, client::Priority priority) {
    threads.emplace_back([&, number, priority] {
      (void)connect()->compile(order("hang", number),
                               {.priority = priority, .cancel = stop.get_token(), .trace_id = std::to_string(number)});
    });
  };
  ask(0, client::Priority::kInteractive);
  ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
  for (uint64_t i = 1; i < 40; ++i) ask(i, client::Priority::kBackground);
  ASSERT_TRUE(eventually([&] { return stats()["jobs"] == 40; }));
  const auto list = stats()["job_list"];
  ASSERT_EQ(list.size(), 32u);
  EXPECT_EQ(list[0]["state"], "running");
  EXPECT_EQ(list[0]["class"], "interactive");
  EXPECT_EQ(list[0]["trace_id"], "0");
  EXPECT_EQ(list[0]["client"], "service_tests");
  EXPECT_EQ(list[0]["waiters"], 1);
  EXPECT_EQ(list[1]["state"], "queued");
  EXPECT_EQ(list[31]["class"], "background");
  stop.request_stop();
}

}  // namespace
}  // namespace kiln::service_test
