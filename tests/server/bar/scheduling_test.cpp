// Statements 12 to 17: many who want the same, more than there is room for, and those who leave.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <thread>

#include "bar.h"

namespace kiln::service_test {
namespace {

class BarScheduling : public Bar {
 protected:
  // Requests that are sent and not waited for, over as many connections as it takes.
  void flood(std::vector<std::unique_ptr<RawPeer>>& peers, int jobs, const std::string& what, uint64_t number,
             const std::string& header) {
    constexpr int kPerConnection = 250;
    for (int i = 0; i < jobs; ++i) {
      if (i % kPerConnection == 0) {
        peers.push_back(std::make_unique<RawPeer>(runtime()));
        ASSERT_TRUE(peers.back()->read());
        peers.back()->hello();
      }
      RequestBytes request = order(what, number, "flood" + std::to_string(next_salt_++));
      const uint32_t size = static_cast<uint32_t>(request.canonical.size());
      peers.back()->send({.type = wire::Type::kCompile,
                          .request_id = static_cast<uint64_t>(i % kPerConnection + 1),
                          .json = header,
                          .body = {std::as_bytes(std::span(&size, 1)), request.canonical}});
    }
  }
  int figure_of(const char* name) { return stats()[name].get<int>(); }

 private:
  int next_salt_ = 0;
};

TEST_F(BarScheduling, Statement12SixtyFourClientsShareOneCompile) {
  start();
  const int rounds = count(3, 100);
  int right = 0;
  for (int round = 0; round < rounds; ++round) {
    std::atomic<int> good{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 64; ++i) {
      threads.emplace_back([&] {
        const std::string salt = "round" + std::to_string(round);
        auto daemon = connect();
        good += judge(daemon->compile(order("sleep", 100, salt)), salt, 64) == Answer::kRight;
      });
    }
    threads.clear();
    right += good;
    ASSERT_EQ(figure_of("compiles_total"), round + 1);
  }
  EXPECT_EQ(right, 64 * rounds);
  figure(12, "%d rounds of 64 clients and a cold key: %d compiles, %d identical answers", rounds, rounds, right);
}

TEST_F(BarScheduling, Statement12LeadersMayDieAndTheLastToLeaveEndsTheCompile) {
  start();
  std::vector<std::unique_ptr<RawPeer>> leaders;
  flood(leaders, 1, "waits", 0, "");
  ASSERT_TRUE(eventually([&] { return figure_of("waiters") == 1; }));
  std::atomic<int> good{0};
  std::vector<std::jthread> followers;
  constexpr int kFollowers = 63;
  for (int i = 0; i < kFollowers; ++i) {
    followers.emplace_back([&] { good += connect()->compile(order("waits", 0, "flood0")).ok(); });
  }
  ASSERT_TRUE(eventually([&] { return figure_of("waiters") == kFollowers + 1; }));
  leaders.clear();  // as if it were killed
  ASSERT_TRUE(eventually([&] { return figure_of("waiters") == kFollowers && busy_workers().size() == 1; }));
  let_go(busy_workers());
  followers.clear();
  EXPECT_EQ(good, kFollowers);
  EXPECT_EQ(figure_of("compiles_total"), 1);
  std::vector<double> gone;
  const int rounds = count(2, 20);
  for (int round = 0; round < rounds; ++round) {
    flood(leaders, 1, "hang", 0, "");
    ASSERT_TRUE(eventually([&] { return figure_of("workers_busy") == 1; }));
    Stopwatch took;
    leaders.clear();
    ASSERT_TRUE(eventually([&] { return figure_of("jobs") == 0; }));
    gone.push_back(took.ms());
    ASSERT_TRUE(eventually([&] { return figure_of("workers_busy") == 0; }));
  }
  EXPECT_EQ(figure_of("jobs_cancelled_total"), rounds);
  judge_time("ms until a compile nobody waits for is cancelled", percentile(gone, 1), 100);
  figure(12,
         "leader killed: %d of %d others answered by the same compile; last waiter gone, %d times: cancelled %.1f ms "
         "later at most",
         good.load(), kFollowers, rounds, percentile(gone, 1));
}

// By default it is cancelled; with the option a compile that is nearly done is finished and kept, and one that hangs is
// not waited for.
TEST_F(BarScheduling, Statement12WithFinishLateACompileThatIsNearlyDoneIsKept) {
  std::ofstream(temp_ / "kilnd.toml") << "finish-late = true\n";
  start({"--workers", "1", "--config", temp_ / "kilnd.toml"});
  auto daemon = connect();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(daemon->compile(order("sleep", 300, "usual" + std::to_string(i))));
  const double usual = stats()["average_compile_ms"];
  ASSERT_GT(usual, 200);
  auto left_after = [&](const char* what, uint64_t number, const std::string& salt, double ms) {
    return !daemon->compile(order(what, number, salt), {.deadline_ms = static_cast<uint32_t>(ms)});
  };
  // On a busy machine a deadline may be seen to have passed when the compile is nearly done, or has ended.
  int before = 0;
  bool early = false;
  for (int attempt = 0; attempt < 20 && !early; ++attempt) {
    before = figure_of("finished_late_total");
    EXPECT_TRUE(left_after("sleep", 10'000, "early" + std::to_string(attempt), usual / 10));
    ASSERT_TRUE(eventually([&] { return figure_of("jobs") == 0; }));
    early = figure_of("finished_late_total") == before;
  }
  EXPECT_TRUE(early) << "what has only begun is finished";
  const auto slow = static_cast<uint64_t>(1.5 * usual);
  std::string late;
  for (int attempt = 0; attempt < 20 && figure_of("finished_late_total") == before; ++attempt) {
    late = "late" + std::to_string(attempt);
    left_after("sleep", slow, late, usual);
    ASSERT_TRUE(eventually([&] { return figure_of("jobs") == 0; }));
  }
  EXPECT_EQ(figure_of("finished_late_total"), before + 1);
  auto kept = daemon->compile(order("sleep", slow, late));
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->metadata.served_from, "memory");
  // Where it has not even begun at its deadline it is ended there.
  for (int attempt = 0; attempt < 20 && figure_of("finished_late_total") == before + 1; ++attempt) {
    EXPECT_TRUE(left_after("hang", 0, "hangs" + std::to_string(attempt), usual));
    ASSERT_TRUE(eventually([&] { return figure_of("jobs") == 0; })) << "a compile that hangs goes on without anybody";
  }
  EXPECT_EQ(figure_of("finished_late_total"), before + 2);
  figure(12, "--finish-late: a compile left after the average time was finished and is a hit; one that hangs is ended");
}

TEST_F(BarScheduling, Statement13AKilledWorkerIsRetriedOnceForAll) {
  start({"--workers", "1"});
  const int rounds = count(2, 20);
  for (int round = 0; round < rounds; ++round) {
    const std::string salt = std::to_string(round);
    std::atomic<int> good{0}, structured{0};
    std::vector<std::jthread> threads;
    const bool twice = round % 2;
    for (int i = 0; i < 64; ++i) {
      threads.emplace_back([&] {
        auto artifact = connect()->compile(order("waits", 0, salt), {.deadline_ms = 60'000});
        if (artifact) ++good;
        if (!artifact && artifact.error().code == ErrorCode::kWorkerCrashed) ++structured;
      });
    }
    for (int kill = 0; kill <= twice; ++kill) {
      ASSERT_TRUE(eventually([&] {
        auto list = stats();
        if (list["waiters"] != 64 || list["worker_list"].size() != 1 || list["worker_list"][0]["phase"] != "obey")
          return false;
        ::kill(list["worker_list"][0]["pid"].get<pid_t>(), SIGKILL);
        return true;
      }));
      ASSERT_TRUE(eventually(
          [&] { return stats()["worker_deaths_total"]["signal 9"] == round / 2 * 3 + (twice ? 1 : 0) + kill + 1; }));
    }
    EXPECT_TRUE(eventually([&] {
      if (!twice) let_go(busy_workers());
      return good + structured == 64;
    }));
    threads.clear();
    EXPECT_EQ(good, twice ? 0 : 64);
    EXPECT_EQ(structured, twice ? 64 : 0);
  }
  EXPECT_EQ(figure_of("retries_total"), rounds);
  figure(13,
         "%d workers killed under 64 waiters: one retry each, 64 results after one death, 64 WORKER_CRASHED after two",
         rounds / 2 * 3);
}

TEST_F(BarScheduling, Statement13NobodyWaitsBeyondTheDeadline) {
  start({"--workers", "1"});
  std::vector<double> late;
  std::mutex mutex;
  const int rounds = count(1, 5);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 64; ++i) {
      threads.emplace_back([&, i] {
        auto daemon = connect();
        Stopwatch waited;
        auto artifact = daemon->compile(order("hang"), {.deadline_ms = static_cast<uint32_t>(200 + i)});
        ASSERT_FALSE(artifact);
        EXPECT_EQ(artifact.error().code, ErrorCode::kDeadlineExceeded);
        std::lock_guard lock(mutex);
        late.push_back(waited.ms() - (200 + i));
      });
    }
  }
  EXPECT_GE(percentile(late, 0), -1);
  judge_time("ms after the deadline", percentile(late, 1), 50);
  figure(13, "%d times 64 waiters of a compile that hangs: answered %.1f ms after their deadlines at most (p50 %.1f)",
         rounds, percentile(late, 1), percentile(late, 0.5));
}

TEST_F(BarScheduling, Statement14AFullQueueRefusesAtOnceAndServesHits) {
  const int limit = count(400, 4096);
  start({"--workers", "1", "--queue-limit", std::to_string(limit), "--user-limit", "5000"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  std::vector<double> idle, full, refused;
  auto hit = [&](std::vector<double>& into) {
    Stopwatch took;
    ASSERT_TRUE(daemon->fetch(order("bytes")));
    into.push_back(took.ms() * 1000);
  };
  for (int i = 0; i < 500; ++i) hit(idle);
  std::vector<std::unique_ptr<RawPeer>> peers;
  flood(peers, limit + 1, "hang", 0, "");
  ASSERT_TRUE(eventually([&] { return jobs_queued() == limit; }));
  const auto before = stats()["rss_bytes"].get<int64_t>();
  for (int i = 0; i < 500; ++i) {
    Stopwatch took;
    auto more = daemon->compile(order("bytes", 7, "more" + std::to_string(i)));
    refused.push_back(took.ms());
    ASSERT_FALSE(more);
    ASSERT_EQ(more.error().code, ErrorCode::kResourceExhausted);
    ASSERT_GT(more.error().retry_after_ms, 0u);
    hit(full);
  }
  const auto grown = stats()["rss_bytes"].get<int64_t>() - before;
  if (!kSanitized) {
    EXPECT_LT(grown, 4 << 20);
  }
  judge_time("ms until a full queue refuses", percentile(refused, 1), 10);
  judge_time("us for a hit while the queue is full", percentile(full, 0.5), 2 * percentile(idle, 0.5));
  judge_time("us for a hit while the queue is full (p99)", percentile(full, 0.99), 2 * percentile(idle, 0.99));
  figure(
      14,
      "%d jobs queued: refusal p50 %.2f ms, max %.2f ms; hits p50 %.0f us (p99 %.0f) against %.0f (%.0f) idle; memory "
      "+%d KiB over 500 refusals",
      limit, percentile(refused, 0.5), percentile(refused, 1), percentile(full, 0.5), percentile(full, 0.99),
      percentile(idle, 0.5), percentile(idle, 0.99), static_cast<int>(grown / 1024));
}

TEST_F(BarScheduling, Statement14QueuedBytesAreBounded) {
  start({"--workers", "1"});
  std::vector<std::unique_ptr<RawPeer>> peers;
  flood(peers, 1, "hang", 0, "");
  ASSERT_TRUE(eventually([&] { return figure_of("workers_busy") == 1; }));
  // Requests of 60 MiB each: of six, four are within 256 MiB.
  const std::vector<std::byte> debug(60u << 20);
  std::atomic<int> refused{0};
  std::stop_source stop;
  std::vector<std::jthread> threads;  // last: they use what is above until they have ended
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      RequestBytes request = order("bytes", 8, "large" + std::to_string(i));
      request.debug = debug;
      auto artifact = connect()->compile(request, {.cancel = stop.get_token()});
      if (stop.stop_requested()) return;
      EXPECT_TRUE(!artifact && artifact.error().code == ErrorCode::kResourceExhausted)
          << (artifact ? "compiled" : artifact.error().message);
      ++refused;
    });
  }
  ASSERT_TRUE(eventually([&] { return refused == 2; })) << refused;
  EXPECT_LE(stats()["queue_bytes"], 256 << 20);
  stop.request_stop();
  threads.clear();
  // Nor do those that left the queue keep what they asked for.
  auto daemon = connect();
  for (int i = 0; i < 12; ++i) {
    RequestBytes request = order("bytes", 8, "late" + std::to_string(i));
    request.debug = debug;
    EXPECT_EQ(daemon->compile(request, {.deadline_ms = 1}).error().code, ErrorCode::kDeadlineExceeded);
  }
  if (!kSanitized) {
    EXPECT_LT(stats()["rss_bytes"], 256 << 20);
  }
  figure(14, "six queued requests of 60 MiB: 4 kept, %d refused; resident %d MiB", refused.load(),
         static_cast<int>(stats()["rss_bytes"].get<int64_t>() >> 20));
}

// The background job that runs ends when it is told to, which it is not: whatever is compiled has passed all of them.
TEST_F(BarScheduling, Statement15InteractiveStartsBeforeTenThousandInBackground) {
  const int jobs = count(1000, 10'000);
  start({"--workers", "2", "--queue-limit", "20000"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes", 8, "warm")));
  std::vector<std::unique_ptr<RawPeer>> peers;
  flood(peers, jobs, "waits", 0, R"({"priority":"background"})");
  ASSERT_TRUE(eventually([&] { return jobs_queued() == jobs - 1 && busy_workers().size() == 1; }));
  const auto at_the_first = busy_workers();
  std::vector<double> waits;
  for (int i = 0; i < 50; ++i) {
    Stopwatch took;
    auto artifact = daemon->compile(order("bytes", 8, "now" + std::to_string(i)), {.deadline_ms = 60'000});
    ASSERT_TRUE(artifact) << artifact.error().message;
    waits.push_back(took.ms());
  }
  EXPECT_EQ(jobs_queued(), jobs - 1);
  EXPECT_EQ(busy_workers(), at_the_first) << "one worker is reserved";
  judge_time("ms for an interactive compile while a worker is reserved (p99)", percentile(waits, 0.99), 5);
  figure(15, "%d background jobs queued, the reserved worker free: interactive compile p50 %.2f ms, max %.2f ms", jobs,
         percentile(waits, 0.5), percentile(waits, 1));
}

// Where no worker is reserved, for there is one: no more than what the running job still takes. One that had to let
// another pass would wait for ever.
TEST_F(BarScheduling, Statement15InteractiveStartsAfterTheOneThatRuns) {
  constexpr int kJobs = 200, kInteractive = 10;
  start({"--workers", "1"});
  std::vector<std::unique_ptr<RawPeer>> peers;
  flood(peers, kJobs, "waits", 0, R"({"priority":"background"})");
  auto daemon = connect();
  std::vector<double> waits;
  for (int i = 0; i < kInteractive; ++i) {
    const int queued = kJobs - 1 - i;
    ASSERT_TRUE(eventually([&] { return jobs_queued() == queued && busy_workers().size() == 1; }));
    auto soon = std::async(std::launch::async, [&] {
      return daemon->compile(order("bytes", 8, "soon" + std::to_string(i)), {.deadline_ms = 60'000});
    });
    ASSERT_TRUE(eventually([&] { return jobs_queued() == queued + 1; }));
    Stopwatch since_the_end;
    let_go(busy_workers());
    auto artifact = soon.get();
    waits.push_back(since_the_end.ms());
    ASSERT_TRUE(artifact) << artifact.error().message;
  }
  judge_time("ms for an interactive compile once the running job has ended (max)", percentile(waits, 1), 20);
  figure(
      15,
      "one worker, %d background jobs: interactive compile p50 %.1f ms, max %.1f ms after the end of the running one",
      kJobs, percentile(waits, 0.5), percentile(waits, 1));
}

// Every job ends when it is told to, one after the other: with the third at the latest another client's is done, two of
// the flood before it.
TEST_F(BarScheduling, Statement16AFloodDelaysOthersByAJobOrTwo) {
  start({"--workers", "1"});
  constexpr int kJobs = 1000, kEnds = 3;
  // Another process, which counts as one client however many connections it has.
  const pid_t flooder = ::fork();
  if (flooder == 0) {
    std::vector<std::unique_ptr<RawPeer>> peers;
    flood(peers, kJobs, "waits", 0, "");
    ::pause();
  }
  ASSERT_TRUE(eventually([&] { return jobs_queued() == kJobs - 1 && busy_workers().size() == 1; }));
  auto other = connect();
  const int requests = count(5, 100);
  for (int i = 0, ended = 0; i < requests; ++i) {
    const int queued = jobs_queued();
    auto polite = std::async(std::launch::async, [&] {
      return other->compile(order("waits", 0, "polite" + std::to_string(i)), {.deadline_ms = 60'000});
    });
    ASSERT_TRUE(eventually([&] { return jobs_queued() == queued + 1; }));
    for (int end = 0; end < kEnds; ++end) {
      let_go(busy_workers());
      ++ended;
      ASSERT_TRUE(eventually([&] { return figure_of("compiles_total") == ended && busy_workers().size() == 1; }));
    }
    auto artifact = polite.get();
    ASSERT_TRUE(artifact) << artifact.error().message;
  }
  EXPECT_EQ(jobs_queued(), kJobs - 1 - requests * (kEnds - 1)) << "all else was of the flood";
  ::kill(flooder, SIGKILL);
  ::waitpid(flooder, nullptr, 0);
  figure(16, "one client floods %d jobs: each of %d requests of another was answered before the third of them ended",
         kJobs, requests);
}

// A process with twelve jobs beside processes that come for one each, two for every job that ends, so that one is
// always new: of each five turns one is of the process that stays.
TEST_F(BarScheduling, Statement44ShortLivedProcessesStarveNobody) {
  start({"--workers", "1"});
  constexpr int kJobs = 12, kTurns = 5 * kJobs;
  std::vector<std::unique_ptr<RawPeer>> mine;
  flood(mine, kJobs, "waits", 0, R"({"trace_id":"stays"})");
  ASSERT_TRUE(eventually([&] { return jobs_queued() == kJobs - 1 && busy_workers().size() == 1; }));
  std::vector<pid_t> processes;
  const auto bring_another = [&] {
    const std::string salt = std::to_string(processes.size());
    processes.push_back(::fork());
    if (processes.back() != 0) return;
    (void)connect()->compile(order("waits", 0, salt), {.trace_id = "comes"});
    ::_exit(0);
  };
  int of_mine = 0;
  for (int turn = 0; turn < kTurns && of_mine < kJobs; ++turn) {
    const int queued = jobs_queued();
    bring_another();
    bring_another();
    ASSERT_TRUE(eventually([&] { return jobs_queued() == queued + 2; }));
    nlohmann::json list;
    ASSERT_TRUE(eventually([&] {
      list = stats();
      return list["compiles_total"] == turn && list["worker_list"][0]["phase"] == "obey";
    }));
    for (const auto& job : list["job_list"]) of_mine += job["state"] == "running" && job["trace_id"] == "stays";
    let_go({list["worker_list"][0]["pid"].get<pid_t>()});
    ASSERT_TRUE(eventually([&] { return figure_of("compiles_total") == turn + 1; }));
  }
  EXPECT_EQ(of_mine, kJobs) << "of so many turns: " << kTurns;
  for (const pid_t process : processes) {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
  figure(44, "12 jobs of one process beside %zu processes of one job each: all done within %d turns", processes.size(),
         kTurns);
}

TEST_F(BarScheduling, Statement16AConnectionsRequestsAreLimited) {
  start({"--workers", "1"});
  std::vector<std::unique_ptr<RawPeer>> peers;
  flood(peers, 250, "hang", 0, "");
  RawPeer& full = *peers.front();
  RequestBytes more = order("bytes", 9, "more");
  const uint32_t size = static_cast<uint32_t>(more.canonical.size());
  constexpr uint64_t kLimit = 256;
  for (uint64_t id = 251; id <= kLimit + 1; ++id) {
    full.send(
        {.type = wire::Type::kCompile, .request_id = id, .body = {std::as_bytes(std::span(&size, 1)), more.canonical}});
  }
  auto answer = full.read();
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->id(), kLimit + 1);
  const Error refused = wire::parse_error(answer->json);
  EXPECT_EQ(refused.code, ErrorCode::kResourceExhausted);
  EXPECT_GT(refused.retry_after_ms, 0u);
  EXPECT_EQ(figure_of("waiters"), static_cast<int>(kLimit));
  EXPECT_EQ(stats()["rejected_total"]["in_flight"], 1);
  EXPECT_TRUE(connect()->ping()) << "others are not concerned";
  figure(16, "request %d in flight of a connection: refused at once", static_cast<int>(kLimit) + 1);
}

TEST_F(BarScheduling, Statement16AUsersRequestsAreLimited) {
  start({"--workers", "2", "--user-limit", "5"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  std::vector<std::unique_ptr<RawPeer>> peers;
  flood(peers, 5, "hang", 0, "");
  ASSERT_TRUE(eventually([&] { return figure_of("interactive_waiters") == 5; }));
  auto refused = daemon->compile(order("bytes", 9, "more"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("5 (--user-limit)"), std::string::npos) << refused.error().message;
  EXPECT_GT(refused.error().retry_after_ms, 0u);
  EXPECT_TRUE(daemon->fetch(order("bytes"))) << "hits go on";
  flood(peers, 20, "sleep", 1, R"({"priority":"background"})");
  EXPECT_TRUE(eventually([&] { return figure_of("waiters") == 25; })) << "background requests are the queue's to limit";
  peers.clear();
  ASSERT_TRUE(eventually([&] { return figure_of("waiters") == 0; }));
  EXPECT_EQ(figure_of("interactive_waiters"), 0);
  EXPECT_TRUE(daemon->compile(order("bytes", 9, "more")));
  figure(16, "more than --user-limit interactive requests: refused at once; hits and background requests go on");
}

TEST_F(BarScheduling, Statement17DeadlinesAndCancelsAreKept) {
  start({"--workers", "1", "--kill-after", "2"});
  std::vector<std::unique_ptr<RawPeer>> occupant;
  flood(occupant, 1, "stubborn", 0, "");
  ASSERT_TRUE(eventually([&] { return figure_of("workers_busy") == 1; }));
  auto daemon = connect();
  std::vector<double> off, cancels;
  const int rounds = count(10, 200);
  for (int i = 0; i < rounds; ++i) {
    Stopwatch took;
    auto late = daemon->compile(order("bytes", 8, std::to_string(i)), {.deadline_ms = 40});
    ASSERT_FALSE(late);
    ASSERT_EQ(late.error().code, ErrorCode::kDeadlineExceeded);
    off.push_back(took.ms() - 40);
    // A CANCEL is answered by the request's own error.
    RawPeer peer(runtime());
    ASSERT_TRUE(peer.read());
    peer.hello();
    RequestBytes request = order("bytes", 8, "cancel" + std::to_string(i));
    const uint32_t size = static_cast<uint32_t>(request.canonical.size());
    peer.send({.type = wire::Type::kCompile,
               .request_id = 1,
               .body = {std::as_bytes(std::span(&size, 1)), request.canonical}});
    ASSERT_TRUE(eventually([&] { return jobs_queued() == 1; }));
    Stopwatch cancel;
    peer.send({.type = wire::Type::kCancel, .request_id = 1});
    auto reply = peer.read();
    cancels.push_back(cancel.ms());
    ASSERT_TRUE(reply);
    ASSERT_EQ(wire::parse_error(reply->json).code, ErrorCode::kCancelled);
  }
  // Its client hangs up: TERM, which it ignores, and KILL.
  const pid_t worker = stats()["worker_list"][0]["pid"].get<pid_t>();
  Stopwatch dying;
  occupant.clear();
  ASSERT_TRUE(eventually([&] { return !alive(worker); }));
  EXPECT_GE(percentile(off, 0), -1);
  judge_time("ms after a queued job's deadline", percentile(off, 1), 20);
  judge_time("ms for a CANCEL", percentile(cancels, 1), 5);
  judge_time("ms until a worker that ignores TERM is dead", dying.ms(), 2500);
  figure(17,
         "deadline of queued jobs met %.1f ms late at most (p50 %.1f); CANCEL p50 %.2f ms, max %.2f; a worker that "
         "ignores TERM dead after %.0f ms",
         percentile(off, 1), percentile(off, 0.5), percentile(cancels, 0.5), percentile(cancels, 1), dying.ms());
}

}  // namespace
}  // namespace kiln::service_test
