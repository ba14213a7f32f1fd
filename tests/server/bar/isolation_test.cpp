// Statements 18 to 21: compiles that go wrong, what workers may use, and what the dead leave behind. Of 48: children of
// the daemon that are stopped.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "bar.h"
#include "kiln/wire/json.h"
#include "kiln/wire/process.h"

namespace kiln::service_test {
namespace {

class BarIsolation : public Bar {
 protected:
  int zombies() const {
    int out = 0;
    for (pid_t pid : descendants(daemon_.pid())) out += alive(pid) ? 0 : 1;
    return out;
  }
};

TEST_F(BarIsolation, Statement18MixedCrashesCostTheirOwnRequestsAndNothingElse) {
  start({"--poison-ttl", "0", "--worker-memory", "256MiB", "--kill-after", "0.05", "--memory-size", "100KiB"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  std::atomic<bool> stop{false};
  std::atomic<int> good{0}, bad{0};
  std::jthread other([&] {
    auto peer = connect();
    for (int i = 0; !stop; ++i) {
      const std::string salt = "other" + std::to_string(i);
      // Now and then it waits for the disk: what piles up behind a slow one is memory, too.
      auto answer = peer->compile(order("bytes", 100, salt), {.durable = i % 16 == 0});
      ++(judge(answer, salt, 100) == Answer::kRight ? good : bad);
    }
  });
  std::vector<std::pair<const char*, std::set<ErrorCode>>> mishaps = {
      {"segv", {ErrorCode::kWorkerCrashed}},        {"abort", {ErrorCode::kWorkerCrashed}},
      {"exit", {ErrorCode::kWorkerCrashed}},        {"stack", {ErrorCode::kWorkerCrashed}},
      {"garbage", {ErrorCode::kWorkerCrashed}},     {"half", {ErrorCode::kWorkerCrashed}},
      {"forks", {ErrorCode::kCompileFailed}},       {"hang", {ErrorCode::kDeadlineExceeded}},
      {"stubborn", {ErrorCode::kDeadlineExceeded}}, {"halfhang", {ErrorCode::kDeadlineExceeded}}};
  if (!kSanitized) mishaps.push_back({"memory", {ErrorCode::kOutOfMemory}});
  const int injections = count(22, 1000);
  auto inject = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      const auto& [what, codes] = mishaps[static_cast<size_t>(i) % mishaps.size()];
      const bool hangs = codes.contains(ErrorCode::kDeadlineExceeded);
      auto failed = daemon->compile(order(what, 0, std::to_string(i)), {.deadline_ms = hangs ? 30u : 20'000u});
      ASSERT_FALSE(failed) << what;
      ASSERT_TRUE(codes.contains(failed.error().code)) << what << ": " << failed.error().message;
    }
  };
  // Until the allocator has what it needs: each kind once.
  const int first = std::max(injections / 4, static_cast<int>(mishaps.size()));
  inject(0, first);
  const size_t descriptors = open_descriptors(daemon_.pid());
  const auto resident = stats()["rss_bytes"].get<int64_t>();
  inject(first, injections);
  stop = true;
  other.join();
  EXPECT_EQ(bad, 0);
  EXPECT_GT(good, injections / 4);
  // Each of four workers that live holds a channel and a pidfd.
  EXPECT_TRUE(eventually([&] { return open_descriptors(daemon_.pid()) <= descriptors + 8; }));
  EXPECT_TRUE(eventually([&] { return zombies() == 0 && descendants(daemon_.pid()).size() <= 5; }));
  const auto grown = stats()["rss_bytes"].get<int64_t>() - resident;
  if (!kSanitized) {
    EXPECT_LT(grown, 2 << 20);
  }
  figure(18,
         "%d injections of %zu kinds: as many structured errors; another client: %d of %d right; daemon memory %+d "
         "KiB, descriptors %+d, zombies 0",
         injections, mishaps.size(), good.load(), good + bad, static_cast<int>(grown / 1024),
         static_cast<int>(open_descriptors(daemon_.pid())) - static_cast<int>(descriptors));
}

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) return "cannot be run";
  char some[4096];
  for (size_t size; (size = std::fread(some, 1, sizeof some, pipe)) > 0;) out.append(some, size);
  ::pclose(pipe);
  return out;
}

TEST_F(BarIsolation, Statement19PoisonIsListedAndCanBeCleared) {
  start();
  auto daemon = connect();
  EXPECT_EQ(daemon->compile(order("segv")).error().code, ErrorCode::kWorkerCrashed);
  const int spawned = stats()["workers_spawned_total"];
  for (int i = 0; i < 20; ++i) EXPECT_EQ(daemon->compile(order("segv")).error().code, ErrorCode::kPoisoned);
  auto figures = stats();
  EXPECT_EQ(figures["workers_spawned_total"], spawned) << "a poisoned key cost a worker";
  ASSERT_EQ(figures["poison"].size(), 1u);
  EXPECT_EQ(figures["poison"][0]["key"], to_hex(daemon->key_of(order("segv"))));
  EXPECT_EQ(figures["poison"][0]["kills"], 2);
  EXPECT_GT(figures["poison"][0]["left_ms"], 500'000);
  const std::string listed = output_of("KILN_RUNTIME_DIR=" + runtime() + " " KILN_TEST_KILN " stats --poison");
  EXPECT_TRUE(listed.starts_with(to_hex(daemon->key_of(order("segv"))) + "  killed 2 workers, last: signal 11; "))
      << listed;
  ASSERT_TRUE(daemon->clear_poison());
  EXPECT_TRUE(stats()["poison"].empty());
  EXPECT_EQ(daemon->compile(order("segv")).error().code, ErrorCode::kWorkerCrashed);
  figure(
      19,
      "a key that killed 2 workers: refused 20 of 20 times without one, listed for 10 min, tried again once cleared");
}

TEST_F(BarIsolation, Statement19ACrashStormRestsSpawningButNotHits) {
  start({"--crash-storm", "10", "--poison-ttl", "0"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  for (int i = 0; i < 6; ++i)
    EXPECT_FALSE(daemon->compile(order("segv", 0, std::to_string(i)), {.deadline_ms = 60'000}));
  ASSERT_EQ(stats()["spawn_backoff"], 1);
  Stopwatch rest;
  int hits = 0;
  while (stats()["spawn_backoff"] == 1 && rest.ms() < 60'000) hits += daemon->fetch(order("bytes")).ok();
  EXPECT_GT(hits, 10);
  EXPECT_TRUE(daemon->compile(order("bytes", 5, "after"), {.deadline_ms = 60'000}));
  figure(19, "more deaths than the limit: no worker for %.1f s, %d hits served meanwhile", rest.ms() / 1000, hits);
}

TEST_F(BarIsolation, Statement20WorkersAreLimitedAndReplaced) {
  start({"--workers", "1"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  const auto worker = std::to_string(stats()["worker_list"][0]["pid"].get<pid_t>());
  std::ifstream limits("/proc/" + worker + "/limits");
  const std::string text((std::istreambuf_iterator<char>(limits)), {});
  auto limit = [&](const std::string& name) {
    const size_t at = text.find(name);
    return at == std::string::npos ? 0ull : std::strtoull(text.c_str() + at + name.size(), nullptr, 10);
  };
  EXPECT_EQ(limit("Max open files"), 64u);
  EXPECT_EQ(limit("Max core file size"), 0u);
  EXPECT_GE(limit("Max cpu time"), 300u);
  if (!kSanitized) {
    EXPECT_EQ(limit("Max address space"), 4ull << 30);
    // 600 MiB resident after its job: the next one has another worker.
    ASSERT_TRUE(daemon->compile(order("grow", 600)));
    ASSERT_TRUE(daemon->compile(order("bytes", 8, "next")));
    EXPECT_EQ(stats()["workers_recycled_total"], 1);
  }
  const int recycled = stats()["workers_recycled_total"];
  for (int i = 0; i < 210; ++i) ASSERT_TRUE(daemon->compile(order("bytes", 8, std::to_string(i))));
  EXPECT_EQ(stats()["workers_recycled_total"], recycled + 2) << "after a hundred jobs each";
  EXPECT_TRUE(stats()["worker_deaths_total"].empty());
}

TEST_F(BarIsolation, Statement20ARequestMayHaveAnotherMemoryLimit) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory has no limit";
  start({"--workers", "1", "--worker-memory", "600MiB"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("grow", 300, "default")));
  auto less = daemon->compile(order("grow", 300, "less"), {.memory_bytes = 200 << 20});
  ASSERT_FALSE(less);
  EXPECT_EQ(less.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(less.error().message.find("200 MiB"), std::string::npos) << less.error().message;
  EXPECT_EQ(daemon->compile(order("grow", 1000, "too much")).error().code, ErrorCode::kOutOfMemory);
  EXPECT_TRUE(daemon->compile(order("grow", 1000, "more"), {.memory_bytes = 2048u << 20}));
  ASSERT_TRUE(daemon->compile(order("grow", 300, "default again")));
  figure(20, "memory limits of single requests: 200 MiB is too little, 2 GiB enough, where 600 MiB are the default");
}

TEST_F(BarIsolation, Statement20WhoJoinsTakesNoMemoryFromTheOthers) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory has no limit";
  start({"--workers", "1", "--worker-memory", "2GiB"});
  auto daemon = connect();
  std::stop_source enough;
  std::jthread busy([&] { (void)connect()->compile(order("sleep", 60'000, "busy"), {.cancel = enough.get_token()}); });
  ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
  std::jthread first([&] { EXPECT_TRUE(connect()->compile(order("grow", 300, "shared"))); });
  ASSERT_TRUE(eventually([&] { return stats()["jobs"] == 2; }));
  std::jthread second(
      [&] { EXPECT_TRUE(connect()->compile(order("grow", 300, "shared"), {.memory_bytes = 200 << 20})); });
  std::jthread small([&] { EXPECT_TRUE(connect()->compile(order("grow", 300, "more"), {.memory_bytes = 200 << 20})); });
  ASSERT_TRUE(eventually([&] { return stats()["jobs"] == 3; }));
  std::jthread large([&] { EXPECT_TRUE(connect()->compile(order("grow", 300, "more"))); });
  EXPECT_TRUE(eventually([&] { return stats()["joins_total"] == 2; }));
  enough.request_stop();
}

// SPAWN to SPAWNED, which is the fork and everything that the zygote does about it.
std::vector<double> fork_times(const std::string& worker_path, int forks) {
  auto pair = wire::make_channel_pair().value();
  wire::Program program{.command = {worker_path, "--zygote"}, .descriptors = {{.number = 3, .fd = pair.theirs.get()}}};
  auto pid = wire::spawn(program);
  EXPECT_TRUE(pid);
  pair.theirs.reset();
  wire::Channel zygote(std::move(pair.ours));
  EXPECT_TRUE(zygote.read(wire::Clock::now() + 60s));  // its hello
  std::vector<double> out;
  for (int i = 1; i <= forks; ++i) {
    auto ends = wire::make_channel_pair().value();
    Stopwatch took;
    EXPECT_TRUE(zygote.write(
        {.type = wire::Type::kSpawn, .request_id = static_cast<uint64_t>(i), .json = "{}", .fd = ends.theirs.get()}));
    auto spawned = zygote.read(wire::Clock::now() + 60s);
    out.push_back(took.ms());
    EXPECT_TRUE(spawned && spawned->type() == wire::Type::kSpawned);
    ends.theirs.reset();
    ends.ours.reset();                                   // the worker reads end-of-file
    EXPECT_TRUE(zygote.read(wire::Clock::now() + 60s));  // EXITED
  }
  ::kill(*pid, SIGKILL);
  ::waitpid(*pid, nullptr, 0);
  return out;
}

TEST_F(BarIsolation, Statement20AFreshWorkerCostsAFork) {
  const int forks = count(30, 300);
  const auto fake = fork_times(KILN_TEST_WORKER, forks);
#ifdef KILN_TEST_REAL_WORKER
  const auto real = fork_times(KILN_TEST_REAL_WORKER, forks);
  judge_time("ms for a fork with LLVM loaded (p50)", percentile(real, 0.5), 2);
  figure(20, "%d forks: p50 %.2f ms, p99 %.2f ms with LLVM loaded; %.2f ms without", forks, percentile(real, 0.5),
         percentile(real, 0.99), percentile(fake, 0.5));
#else
  figure(20, "%d forks without LLVM: p50 %.2f ms", forks, percentile(fake, 0.5));
#endif
}

TEST_F(BarIsolation, Statement21TheDeadLeaveNothing) {
  const int rounds = count(3, 50), clients = count(1, 20);  // of each
  std::vector<double> worker_gone, client_gone;
  for (int round = 0; round < rounds; ++round) {
    start({"--workers", "5"});
    std::vector<std::jthread> waiting;
    for (int i = 0; i < 4; ++i) {
      waiting.emplace_back([&, i] { EXPECT_FALSE(connect()->compile(order(i % 2 ? "hang" : "stubborn", i))); });
    }
    ASSERT_TRUE(eventually([&] { return descendants(daemon_.pid()).size() == 5; }));
    // Clients die: their jobs, workers and descriptors go.
    const size_t connections = stats()["connections"], descriptors = open_descriptors(daemon_.pid());
    for (int i = 0; i < clients; ++i) {
      const pid_t client = ::fork();
      if (client == 0) {
        (void)connect()->compile(order("hang", 99, std::to_string(i)));
        ::_exit(0);
      }
      ASSERT_TRUE(eventually([&] { return descendants(daemon_.pid()).size() == 6; }));
      Stopwatch client_death;
      ::kill(client, SIGKILL);
      ::waitpid(client, nullptr, 0);
      ASSERT_TRUE(eventually([&] { return descendants(daemon_.pid()).size() == 5; }));
      client_gone.push_back(client_death.ms());
      ASSERT_TRUE(eventually(
          [&] { return stats()["connections"] == connections && open_descriptors(daemon_.pid()) <= descriptors; }));
    }
    const auto children = descendants(daemon_.pid());
    Stopwatch death;
    kill_daemon();
    for (pid_t child : children) ASSERT_TRUE(eventually([&] { return !alive(child); }));
    worker_gone.push_back(death.ms());
    waiting.clear();
  }
  judge_time("ms until the workers of a killed daemon are gone", percentile(worker_gone, 1), 1000);
  judge_time("ms until a killed client is forgotten", percentile(client_gone, 1), 1000);
  figure(21,
         "%d daemons killed with 4 busy workers each: all gone after %.1f ms at most; %zu clients killed in "
         "mid-compile, their workers gone after %.1f ms at most",
         rounds, percentile(worker_gone, 1), client_gone.size(), percentile(client_gone, 1));
}

// Of all children that it stops or hangs is seen by what it owes: a worker its job at the deadline, the zygote a fork,
// the tuner an answer.
TEST_F(BarIsolation, Statement48AStoppedWorkerCostsItsJobAndIsReplaced) {
  start({"--workers", "1"});
  auto daemon = connect();
  std::jthread patient([&] {
    auto late = connect()->compile(order("waits", 0, "stopped"), {.deadline_ms = 1500});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded) << late.error().message;
    EXPECT_NE(late.error().message.find("did not finish"), std::string::npos) << late.error().message;
  });
  ASSERT_TRUE(eventually([&] { return busy_workers().size() == 1; }));
  const pid_t worker = busy_workers().at(0);
  ::kill(worker, SIGSTOP);
  Stopwatch waited;
  patient.join();
  EXPECT_TRUE(eventually([&] { return !alive(worker); })) << "it has its place for ever";
  auto next = daemon->compile(order("bytes"), {.deadline_ms = 30'000});
  EXPECT_TRUE(next) << next.error().message;
  figure(48, "a worker that was stopped at its job: DEADLINE_EXCEEDED in time, another worker after %.0f ms",
         waited.ms());
}

TEST_F(BarIsolation, Statement48AStoppedZygoteIsSaidAndReplaced) {
  start({"--workers", "2", "--hello-timeout", "0.3"});
  auto daemon = connect();
  std::jthread running([&] {
    auto hangs = connect()->compile(order("hang"), {.deadline_ms = 2500});
    EXPECT_EQ(hangs ? ErrorCode::kInternal : hangs.error().code, ErrorCode::kDeadlineExceeded);
  });
  ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
  const pid_t zygote = descendants(daemon_.pid()).at(0);
  ::kill(zygote, SIGSTOP);
  Stopwatch waited;
  auto next = daemon->compile(order("bytes"), {.deadline_ms = 30'000});
  EXPECT_TRUE(next) << next.error().message;
  EXPECT_FALSE(alive(zygote));
  bool is_said = false;
  for (const auto& line : log_lines("kilnd.log")) is_said |= line["event"] == "zygote_died";
  EXPECT_TRUE(is_said);
  figure(48, "a zygote that was stopped: another one and its worker's answer after %.0f ms", waited.ms());
}

// At any moment of its life: as it starts, with workers at their jobs, with one to fork.
TEST_F(BarIsolation, Statement48ZygotesThatDieUnderLoadCostNoWrongAnswer) {
  constexpr auto kDeadline = 30s;
  start({"--worker-jobs", "3"});  // so that it forks all the time
  const int kills = count(20, 200);
  std::atomic<int> right{0}, refused{0};
  std::vector<std::jthread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client](const std::stop_token& enough) {
      auto daemon = connect();
      for (int i = 0; !enough.stop_requested(); ++i) {
        const std::string salt = std::to_string(client) + "-" + std::to_string(i);
        Stopwatch took;
        auto answer = daemon->compile(order("bytes", 100, salt), {.deadline_ms = kDeadline / 1ms});
        EXPECT_LT(took.ms(), static_cast<double>(kDeadline / 1ms));
        EXPECT_NE(judge(answer, salt, 100), Answer::kWrong);
        ++(answer ? right : refused);
        // The one error that there is for it: no worker could be had, and nobody is blamed.
        if (answer) continue;
        EXPECT_EQ(answer.error().code, ErrorCode::kResourceExhausted) << answer.error().message;
        EXPECT_TRUE(answer.error().retryable);
        std::this_thread::sleep_for(5ms);
      }
    });
  }
  for (int i = 1; i <= kills; ++i) {
    const int before = right, answers = i % 8 * 5, restarts = stats()["zygote_restarts_total"];
    std::vector<pid_t> children;
    ASSERT_TRUE(eventually([&] {
      children = descendants(daemon_.pid());
      return right >= before + answers && !children.empty();
    }));
    ::kill(children[0], SIGKILL);
    ASSERT_TRUE(eventually([&] { return stats()["zygote_restarts_total"] > restarts; }));
  }
  clients.clear();
  EXPECT_TRUE(eventually([&] { return connect()->compile(order("bytes", 64, "after")).ok(); }));
  EXPECT_TRUE(stats()["poison"].empty());
  EXPECT_TRUE(eventually([&] { return zombies() == 0 && descendants(daemon_.pid()).size() <= 5; }));
  figure(48, "%d zygotes killed while 4 clients compile: %d right, 0 wrong, %d refused", kills, right.load(),
         refused.load());
}

// As the worker: it is looked at before each start, not only before the daemon's.
TEST_F(BarIsolation, Statement37ATunerThatOthersMayReplaceIsNotStarted) {
  const std::string directory = temp_ / "open";
  std::filesystem::create_directory(directory);
  const std::string tuner = directory + "/tuner";
  std::ofstream(tuner) << "#!/bin/sh\ntouch " << directory << "/started\nexec sleep 1000\n";
  std::filesystem::permissions(tuner, std::filesystem::perms::owner_all);
  start({"--tuner", tuner});
  ASSERT_EQ(::chmod(directory.c_str(), 0777), 0);
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.hello();
  const RequestBytes request = order("bytes");
  const uint32_t size = static_cast<uint32_t>(request.canonical.size());
  peer.send({.type = wire::Type::kTune,
             .request_id = 1,
             .json = R"({"wait":true})",
             .body = {std::as_bytes(std::span(&size, 1)), request.canonical}});
  auto told = peer.read();
  ASSERT_TRUE(told) << told.error().message;
  const Error refused = wire::parse_error(told->json);
  EXPECT_NE(refused.message.find("/open"), std::string::npos) << refused.message;
  EXPECT_FALSE(std::filesystem::exists(directory + "/started"));
}

TEST_F(BarIsolation, Statement48AStoppedTunerIsSaidAndReplaced) {
  const std::string tuner = temp_ / "tuner";
  std::ofstream(tuner) << "#!/bin/sh\nexec sleep 1000\n";
  std::filesystem::permissions(tuner, std::filesystem::perms::owner_all);
  start({"--tuner", tuner, "--hello-timeout", "0.3"});
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.hello();
  const RequestBytes request = order("bytes");
  const uint32_t size = static_cast<uint32_t>(request.canonical.size());
  const auto tune = [&](uint64_t id) {
    peer.send({.type = wire::Type::kTune,
               .request_id = id,
               .json = R"({"wait":true})",
               .body = {std::as_bytes(std::span(&size, 1)), request.canonical}});
    EXPECT_TRUE(eventually([&] { return stats()["tune_waiters"] == 1; }));
  };
  tune(1);
  const auto children = descendants(daemon_.pid());  // the zygote, and
  ASSERT_EQ(children.size(), 2u);
  ::kill(children[1], SIGSTOP);
  Stopwatch waited;
  auto told = peer.read();
  ASSERT_TRUE(told) << told.error().message;
  const Error failed = wire::parse_error(told->json);
  EXPECT_EQ(failed.code, ErrorCode::kUnavailable);
  EXPECT_EQ(failed.message, "the tuner died: it was stopped for too long");
  EXPECT_FALSE(alive(children[1]));
  figure(48, "a tuner that was stopped: its requests are told after %.0f ms", waited.ms());
  tune(2);
  EXPECT_FALSE(peer.read(1500ms)) << "one that works for long is none that is stopped";
  EXPECT_EQ(stats()["tuner_starts_total"], 2);
  EXPECT_EQ(stats()["tuner_deaths_total"], 1);
}

}  // namespace
}  // namespace kiln::service_test
