// A compile that goes wrong costs its own request one clear error and nobody else anything.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "service_fixture.h"

namespace kiln::service_test {
namespace {

using IsolationTest = ServiceTest;

struct Mishap {
  const char* what;
  const char* cause;  // part of the message
};

// Trees of processes are looked at while they end.
TEST(Descendants, OfAProcessThatIsGoneAreNone) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(descendants(child).empty());
}

class CrashTest : public ServiceTest, public ::testing::WithParamInterface<Mishap> {};

TEST_P(CrashTest, CostsOneRequestAnError) {
  start();
  auto daemon = connect();
  auto crashed = daemon->compile(order(GetParam().what, 3), {.trace_id = "t1"});
  ASSERT_FALSE(crashed);
  EXPECT_EQ(crashed.error().code, ErrorCode::kWorkerCrashed) << crashed.error().message;
  EXPECT_NE(crashed.error().message.find(GetParam().cause), std::string::npos) << crashed.error().message;
  EXPECT_EQ(crashed.error().trace_id, "t1");
  EXPECT_TRUE(daemon->compile(order("bytes")));
  auto figures = stats();
  EXPECT_EQ(figures["retries_total"], 1);
  uint64_t deaths = 0;
  for (const auto& [cause, count] : figures["worker_deaths_total"].items()) deaths += count.get<uint64_t>();
  EXPECT_EQ(deaths, 2u);
  // Killed two workers: from now on refused without spending a third.
  auto poisoned = daemon->compile(order(GetParam().what, 3));
  ASSERT_FALSE(poisoned);
  EXPECT_EQ(poisoned.error().code, ErrorCode::kPoisoned);
  EXPECT_GT(poisoned.error().retry_after_ms, 0u);
  EXPECT_EQ(stats()["poison_hits_total"], 1);
}

INSTANTIATE_TEST_SUITE_P(All, CrashTest,
                         ::testing::Values(Mishap{"segv", "signal 11"}, Mishap{"abort", "signal 6"},
                                           Mishap{"exit", "exit code 3"}, Mishap{"stack", "signal 11"},
                                           Mishap{"garbage", "garbage"}, Mishap{"half", "inside a frame"}),
                         [](const auto& info) { return std::string(info.param.what); });

TEST_F(IsolationTest, ExitWithoutReplyIsACrash) {
  start();
  auto crashed = connect()->compile(order("exit", 0));
  ASSERT_FALSE(crashed);
  EXPECT_EQ(crashed.error().code, ErrorCode::kWorkerCrashed);
}

TEST_F(IsolationTest, CodeThatIsNotWhatItIsSaidToBeIsNotKept) {
  start();
  auto daemon = connect();
  auto refused = daemon->compile(order("lies"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInternal);
  EXPECT_NE(refused.error().message.find("no whole ELF file"), std::string::npos) << refused.error().message;
  EXPECT_EQ(daemon->get(daemon->key_of(order("lies"))).error().code, ErrorCode::kNotFound);
}

TEST_F(IsolationTest, MemoryLimit) {
  if (kSanitized) GTEST_SKIP() << "address space is not limited under a sanitizer";
  start({"--worker-memory", "256MiB"});
  auto daemon = connect();
  auto greedy = daemon->compile(order("memory"));
  ASSERT_FALSE(greedy);
  EXPECT_EQ(greedy.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(greedy.error().message.find("256 MiB"), std::string::npos) << greedy.error().message;
  EXPECT_TRUE(daemon->compile(order("bytes")));
  EXPECT_EQ(stats()["worker_deaths_total"]["out of memory"], 1);
}

// A second attempt would take as long; a kernel that does it twice is refused.
TEST_F(IsolationTest, ProcessorTimeIsLimited) {
  start({"--worker-cpu", "1", "--workers", "1"});
  auto daemon = connect();
  for (int i = 1; i <= 2; ++i) {
    auto endless = daemon->compile(order("hang"), {.trace_id = "t2"});
    ASSERT_FALSE(endless);
    EXPECT_EQ(endless.error().code, ErrorCode::kDeadlineExceeded) << endless.error().message;
    EXPECT_NE(endless.error().message.find("processor time than the worker's 1 s"), std::string::npos)
        << endless.error().message;
    EXPECT_EQ(endless.error().trace_id, "t2");
    EXPECT_EQ(stats()["worker_deaths_total"]["out of processor time"], i);
    // The limit is a job's and not a worker's.
    EXPECT_TRUE(daemon->compile(order("bytes", 64, std::to_string(i))));
  }
  EXPECT_EQ(stats()["retries_total"], 0);
  EXPECT_EQ(daemon->compile(order("hang")).error().code, ErrorCode::kPoisoned);
}

// What is remembered is of the limit that it had, and a worker that lives has the new one.
TEST_F(IsolationTest, MoreProcessorTimeIsAnotherCase) {
  const std::string file = temp_ / "kilnd.toml";
  std::ofstream(file) << "worker-cpu = 1\n";
  start({"--config", file, "--workers", "1"});
  auto daemon = connect();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(daemon->compile(order("hang")).error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(daemon->compile(order("hang")).error().code, ErrorCode::kPoisoned);
  EXPECT_EQ(stats()["poison"][0]["cpu_seconds"], 1);
  ASSERT_TRUE(daemon->compile(order("bytes")));  // by a worker that stays
  std::ofstream(file) << "worker-cpu = 2\n";
  daemon_.signal(SIGHUP);
  ASSERT_TRUE(eventually([&] { return stats()["config"]["worker_cpu_seconds"] == 2; }));
  const auto begun = std::chrono::steady_clock::now();
  auto longer = daemon->compile(order("hang"));
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, ErrorCode::kDeadlineExceeded) << longer.error().message;
  EXPECT_NE(longer.error().message.find("the worker's 2 s"), std::string::npos) << longer.error().message;
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 1900ms);
}

TEST_F(IsolationTest, LessMemoryThanAWorkerHasIsNamed) {
  if (kSanitized) GTEST_SKIP() << "address space is not limited under a sanitizer";
  start();
  auto daemon = connect();
  for (uint64_t bytes : {uint64_t{1}, uint64_t{1} << 20}) {
    auto refused = daemon->compile(order("bytes"), {.memory_bytes = bytes});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory) << refused.error().message;
    EXPECT_NE(refused.error().message.find("memory_bytes (or --worker-memory) is " + std::to_string(bytes) + ","),
              std::string::npos)
        << refused.error().message;
  }
  // What a library says that got none is the same thing.
  auto starved = daemon->compile(order("starved"), {.memory_bytes = 1 << 30});
  ASSERT_FALSE(starved);
  EXPECT_EQ(starved.error().code, ErrorCode::kOutOfMemory) << starved.error().message;
  EXPECT_TRUE(daemon->compile(order("bytes")));
}

// A crash within less memory than the others ask for is theirs alone who asked for so little.
TEST_F(IsolationTest, WhatKillsWithLittleMemoryIsNotRefusedToThoseWithMore) {
  if (kSanitized) GTEST_SKIP() << "address space is not limited under a sanitizer";
  start({"--worker-memory", "2GiB"});
  auto daemon = connect();
  const auto kernel = order("needs", 300);
  const client::CompileOptions little{.memory_bytes = 200 << 20};
  EXPECT_EQ(daemon->compile(kernel, little).error().code, ErrorCode::kWorkerCrashed);
  EXPECT_EQ(daemon->compile(kernel, little).error().code, ErrorCode::kPoisoned);
  EXPECT_EQ(stats()["poison"][0]["memory_bytes"], 200 << 20);
  auto enough = daemon->compile(kernel);
  EXPECT_TRUE(enough) << enough.error().message;
}

TEST_F(IsolationTest, WhoAsksForMoreMemoryDoesNotJoinACompileWithLess) {
  if (kSanitized) GTEST_SKIP() << "address space is not limited under a sanitizer";
  start({"--worker-memory", "2GiB", "--workers", "2"});
  const auto kernel = order("needs_or_hangs", 300);
  std::stop_source enough;
  auto with = [&](uint64_t memory) {
    return client::CompileOptions{.cancel = enough.get_token(), .memory_bytes = memory};
  };
  std::jthread first([&] { EXPECT_FALSE(connect()->compile(kernel, with(200 << 20))); });
  ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
  std::jthread joins([&] { EXPECT_FALSE(connect()->compile(kernel, with(100 << 20))); });
  ASSERT_TRUE(eventually([&] { return stats()["joins_total"] == 1; }));
  auto large = connect()->compile(kernel);
  EXPECT_TRUE(large) << large.error().message;
  EXPECT_EQ(stats()["joins_total"], 1);
  enough.request_stop();
}

// Workers may have no more than is usual, for good. Who asks for more gets one for this job, in an idle one's place.
TEST_F(IsolationTest, WhoAsksForMoreThanUsualGetsAWorkerForIt) {
  if (kSanitized) GTEST_SKIP() << "address space is not limited under a sanitizer";
  start({"--worker-memory", "256MiB", "--workers", "1"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  auto large = daemon->compile(order("needs", 300), {.memory_bytes = 1 << 30});
  EXPECT_TRUE(large) << large.error().message;
  EXPECT_EQ(stats()["workers_spawned_total"], 2);
  EXPECT_EQ(daemon->compile(order("needs", 300, "usual")).error().code, ErrorCode::kWorkerCrashed);
  auto again = daemon->compile(order("needs", 300, "again"), {.memory_bytes = 1 << 30});
  EXPECT_TRUE(again) << again.error().message;
  EXPECT_TRUE(eventually([&] { return stats()["workers"].get<int>() <= 1; }));
}

// Of one that was taken over: it would have the processor while nobody asks it for anything.
TEST_F(IsolationTest, AnIdleWorkerThatWorksIsEnded) {
  start({"--workers", "1", "--worker-idle", "600"});
  auto restless = connect()->compile(order("restless"));
  ASSERT_TRUE(restless) << restless.error().message;
  const auto worker = static_cast<pid_t>(restless->metadata.constexprs.at("pid"));
  EXPECT_TRUE(eventually([&] { return !alive(worker); }));
  std::ifstream log(runtime() + "/kilnd.log");
  const std::string text((std::istreambuf_iterator<char>(log)), {});
  EXPECT_NE(text.find("worker_restless"), std::string::npos) << text;
  EXPECT_TRUE(connect()->compile(order("bytes")));
}

TEST_F(IsolationTest, AWorkerThatDoesNotLeaveIsEnded) {
  start({"--workers", "1", "--worker-idle", "1", "--kill-after", "0.1"});
  auto stops = connect()->compile(order("stops"));
  ASSERT_TRUE(stops) << stops.error().message;
  const auto worker = static_cast<pid_t>(stops->metadata.constexprs.at("pid"));
  EXPECT_TRUE(eventually([&] { return !alive(worker); }));
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What a worker writes to standard output and error is the daemon's to keep: escaped, and so much a job.
TEST_F(IsolationTest, AWorkersWordsAreEscapedAndBounded) {
  start({"--workers", "1"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("says", 1)));
  std::string log = text_of(runtime() + "/kilnd.log");
  EXPECT_NE(log.find("worker_said"), std::string::npos) << log;
  EXPECT_NE(log.find("a word \\u001b]0;owned\\u0007 for the log"), std::string::npos) << log;
  EXPECT_EQ(log.find('\x1b'), std::string::npos);
  // Of one flood the pipe holds no more than a job may say, where the daemon does not read meanwhile. The next job's
  // begin tells.
  for (int flood = 0; flood < 20 && log.find("worker_words_dropped") == std::string::npos; ++flood) {
    ASSERT_TRUE(daemon->compile(order("says", 20 << 20, "flood" + std::to_string(flood))));
    log = text_of(runtime() + "/kilnd.log");
  }
  EXPECT_NE(log.find("worker_words_dropped"), std::string::npos);
  EXPECT_LT(log.size(), 512u << 10);
  EXPECT_NE(text_of(runtime() + "/kiln-worker.log").find("\"event\":\"compiled\""), std::string::npos);
  EXPECT_EQ(text_of(runtime() + "/kilnd.stderr"), "");
}

// What it writes where its report should be is read by people.
TEST_F(IsolationTest, AReportIsEscapedAndBounded) {
  start({"--workers", "1"});
  EXPECT_EQ(connect()->compile(order("fills_report")).error().code, ErrorCode::kWorkerCrashed);
  const std::string report = text_of(runtime() + "/kiln-worker.crash");
  EXPECT_NE(report.find("a word ?]0;owned? for the report"), std::string::npos) << report.substr(0, 200);
  EXPECT_EQ(report.find('\x1b'), std::string::npos);
  EXPECT_LE(report.size(), 2 * (16u << 10)) << "two workers tried";
  ASSERT_EQ(connect()->compile(order("segv")).error().code, ErrorCode::kWorkerCrashed);
  EXPECT_NE(text_of(runtime() + "/kiln-worker.crash").find("crashed by signal 11"), std::string::npos)
      << "the next ones have room of their own";
}

// They stay in the history.
TEST_F(IsolationTest, NamesOfPhasesAreShortAndFew) {
  start({"--workers", "1"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("phases", 200), {.trace_id = "phases"}));
  auto trace = daemon->stats("trace");
  ASSERT_TRUE(trace);
  EXPECT_LT(trace->size(), 64u << 10);
  EXPECT_NE(trace->find("?]0;owned?xxx"), std::string::npos) << *trace;
  EXPECT_EQ(trace->find("yyy"), std::string::npos) << "a name of 10000 characters is not read";
  const auto endless = daemon->compile(order("phases", 100'000));
  ASSERT_FALSE(endless);
  EXPECT_NE(endless.error().message.find("phases without end"), std::string::npos) << endless.error().message;
}

TEST_F(IsolationTest, HangEndsAtTheDeadlineAndFreesTheWorker) {
  start({"--workers", "1"});
  auto daemon = connect();
  for (const char* what : {"hang", "stubborn", "halfhang"}) {
    auto begin = std::chrono::steady_clock::now();
    auto hung = daemon->compile(order(what), {.deadline_ms = 100});
    auto took = std::chrono::steady_clock::now() - begin;
    ASSERT_FALSE(hung);
    EXPECT_EQ(hung.error().code, ErrorCode::kDeadlineExceeded) << what;
    EXPECT_GE(took, 90ms);
    EXPECT_TRUE(daemon->compile(order("bytes", 64, what), {.deadline_ms = 60'000}));
  }
  // A deadline is no crash: the key is not poisoned by it.
  EXPECT_EQ(daemon->compile(order("hang"), {.deadline_ms = 50}).error().code, ErrorCode::kDeadlineExceeded);
}

TEST_F(IsolationTest, SandboxDeniesForkAndExec) {
  ::setenv("HOME", "/root", 0);
  start();
  auto probe = connect()->compile(order("probe"));
  ASSERT_TRUE(probe) << probe.error().message;
  auto& found = probe->metadata.constexprs;
  EXPECT_EQ(found.at("may_fork"), 0);
  EXPECT_EQ(found.at("may_exec"), 0);
  EXPECT_EQ(found.at("open_files"), 64);
  EXPECT_EQ(found.at("has_home"), 0);
}

// Where the daemon's directories are, its zygote knows; a worker has no use for it.
TEST_F(IsolationTest, AWorkersEnvironmentHasNoPathOfTheHome) {
  start();
  auto probe = connect()->compile(order("probe", 64, "x", temp_.path()));
  ASSERT_TRUE(probe) << probe.error().message;
  EXPECT_EQ(probe->metadata.constexprs.at("has_place"), 0);
  auto known = connect()->compile(order("probe", 64, "y", "LC_ALL=C"));
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(known->metadata.constexprs.at("has_place"), 1) << "nothing is found";
}

TEST_F(IsolationTest, MixedCrashesLeaveNothingBehind) {
  start({"--poison-ttl", "0"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  size_t descriptors = open_descriptors(daemon_.pid());
  std::atomic<bool> stop{false};
  std::atomic<int> good{0}, bad{0};
  std::jthread other([&] {
    auto peer = connect();
    for (uint64_t i = 0; !stop; ++i) ++(peer->compile(order("bytes", 100, "other" + std::to_string(i))) ? good : bad);
  });
  const char* mishaps[] = {"segv", "abort", "exit", "half", "garbage"};
  for (int i = 0; i < 60; ++i) {
    EXPECT_FALSE(daemon->compile(order(mishaps[i % 5], 1, std::to_string(i))));
  }
  stop = true;
  other.join();
  EXPECT_EQ(bad, 0);
  EXPECT_GT(good, 0);
  // The workers that live hold a channel and a pidfd each.
  auto idle = [&] { return open_descriptors(daemon_.pid()) <= descriptors + 2 * 4; };
  EXPECT_TRUE(eventually(idle)) << open_descriptors(daemon_.pid()) << " from " << descriptors;
  EXPECT_TRUE(eventually([&] { return descendants(daemon_.pid()).size() <= 5; }));
}

TEST_F(IsolationTest, CrashStormRestsSpawningButServesHits) {
  start({"--crash-storm", "3"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  // The rest is of a second, and then longer each time: one of them is not over before it is looked for.
  bool rests = false;
  for (int i = 0; i < 8 && !rests; ++i) {
    EXPECT_FALSE(daemon->compile(order("segv", 0, std::to_string(i))));
    rests = stats()["spawn_backoff"] == 1;
    EXPECT_FALSE(rests && i == 0) << "two deaths are no storm";
  }
  EXPECT_TRUE(rests);
  EXPECT_TRUE(daemon->fetch(order("bytes")));
  EXPECT_TRUE(daemon->compile(order("bytes", 5, "after"), {.deadline_ms = 60'000}));
}

TEST_F(IsolationTest, ZygoteDeathIsSurvived) {
  start();
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  auto children = descendants(daemon_.pid());
  ASSERT_GE(children.size(), 2u);
  ::kill(children[0], SIGKILL);
  auto after = daemon->compile(order("bytes", 9, "after"), {.deadline_ms = 60'000});
  EXPECT_TRUE(after) << after.error().message;
  // The answer may have come from a worker that outlived its parent for a moment.
  EXPECT_TRUE(eventually([&] { return stats()["zygote_restarts_total"] == 1; }));
}

TEST_F(IsolationTest, ZygotesThatDieAreNotTheKernelsFault) {
  start({"--workers", "1"});
  std::jthread asker([&] {
    const auto failed = connect()->compile(order("hang"));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, ErrorCode::kResourceExhausted) << failed.error().message;
    EXPECT_TRUE(failed.error().retryable);
  });
  for (int i = 1; i <= 2; ++i) {
    ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1 && descendants(daemon_.pid()).size() == 2; }));
    ::kill(descendants(daemon_.pid())[0], SIGKILL);
    ASSERT_TRUE(eventually([&] { return stats()["zygote_restarts_total"] == i; }));
  }
  asker.join();
  EXPECT_TRUE(stats()["poison"].empty());
}

TEST_F(IsolationTest, WorkersAreReplacedAfterTheirShare) {
  start({"--workers", "1", "--worker-jobs", "3"});
  auto daemon = connect();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(daemon->compile(order("bytes", 8, std::to_string(i))));
  auto figures = stats();
  EXPECT_EQ(figures["workers_spawned_total"], 4);
  EXPECT_EQ(figures["workers_recycled_total"], 3);
  EXPECT_TRUE(figures["worker_deaths_total"].empty());
}

TEST_F(IsolationTest, IdleWorkersLeave) {
  start({"--worker-idle", "0.1"});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  EXPECT_TRUE(eventually([&] { return stats()["workers"] == 0; }));
  EXPECT_TRUE(daemon->compile(order("bytes", 9, "again")));
}

TEST_F(IsolationTest, KilledDaemonLeavesNoWorkers) {
  start();
  auto daemon = connect();
  std::jthread waiting([&] { EXPECT_FALSE(daemon->compile(order("hang"))); });
  ASSERT_TRUE(eventually([&] { return descendants(daemon_.pid()).size() == 2; }));
  auto children = descendants(daemon_.pid());
  daemon_.signal(SIGKILL);
  for (pid_t child : children) EXPECT_TRUE(eventually([&] { return !alive(child); }));
  waiting.join();
}

// As by an upgrade in place: what there is goes on, misses are refused at once, and it comes back by itself.
TEST_F(IsolationTest, AWorkerProgramThatVanishesIsSaidAtOnceAndComesBack) {
  const std::string worker = temp_ / "kiln-worker";
  std::filesystem::copy_file(KILN_TEST_WORKER, worker);
  start({"--worker", worker});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  for (const bool broken : {false, true}) {
    std::filesystem::rename(worker, worker + ".away");
    if (broken) std::filesystem::copy_file("/bin/false", worker);
    ::kill(descendants(daemon_.pid()).at(0), SIGKILL);
    const auto before = stats()["zygote_restarts_total"].get<int>();
    ASSERT_TRUE(eventually([&] { return stats()["zygote_restarts_total"] >= before + 1; }));
    for (int i = 0; i < 2; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      auto refused = daemon->compile(order("bytes", 9, "away" + std::to_string(broken)), {.deadline_ms = 50'000});
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted) << refused.error().message;
      EXPECT_TRUE(refused.error().retryable);
      EXPECT_NE(refused.error().message.find(worker + " does not start"), std::string::npos) << refused.error().message;
      EXPECT_LT(std::chrono::steady_clock::now() - begin, kSanitized ? 25s : 2s);
    }
    EXPECT_TRUE(daemon->fetch(order("bytes")));
    std::filesystem::rename(worker + ".away", worker);
    EXPECT_TRUE(eventually([&] { return daemon->compile(order("bytes", 9, "back" + std::to_string(broken))).ok(); }));
  }
}

// Others who may write beside it could put theirs in its place: it is looked at before each start.
TEST_F(IsolationTest, AWorkerProgramThatOthersMayReplaceIsNotStarted) {
  const std::string directory = temp_ / "open";
  std::filesystem::create_directory(directory);
  const std::string worker = directory + "/kiln-worker";
  std::filesystem::copy_file(KILN_TEST_WORKER, worker);
  start({"--worker", worker});
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  ASSERT_EQ(::chmod(directory.c_str(), 0777), 0);
  ::kill(descendants(daemon_.pid()).at(0), SIGKILL);
  ASSERT_TRUE(eventually([&] { return stats()["zygote_restarts_total"] >= 1; }));
  auto refused = daemon->compile(order("bytes", 9), {.deadline_ms = 50'000});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(worker + " does not start"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("open"), std::string::npos) << refused.error().message;
  ASSERT_EQ(::chmod(directory.c_str(), 0755), 0);
  EXPECT_TRUE(eventually([&] { return daemon->compile(order("bytes", 9, "back")).ok(); }));
}

TEST_F(IsolationTest, AWorkerProgramThatHangsAsItStartsIsSaidAndReplaced) {
  const std::string worker = temp_ / "kiln-worker";
  std::filesystem::copy_file(KILN_TEST_WORKER, worker);
  start({"--worker", worker, "--hello-timeout", "0.5"});
  auto daemon = connect();
  std::filesystem::rename(worker, worker + ".away");
  std::ofstream(worker) << "#!/bin/sh\nexec sleep 1000\n";
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  ::kill(descendants(daemon_.pid()).at(0), SIGKILL);
  ASSERT_TRUE(eventually([&] { return stats()["zygote_restarts_total"] >= 1; }));
  auto refused = daemon->compile(order("bytes", 9), {.deadline_ms = 50'000});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted) << refused.error().message;
  EXPECT_NE(refused.error().message.find("does not start: no hello in time"), std::string::npos)
      << refused.error().message;
  std::filesystem::rename(worker + ".away", worker);
  EXPECT_TRUE(eventually([&] { return daemon->compile(order("bytes", 9, "back")).ok(); }));
}

// One that stops after its hello: a worker that it was to fork is not forked, or one that has died is not said to have.
TEST_F(IsolationTest, AZygoteThatStopsIsSaidAndReplaced) {
  start({"--workers", "1", "--hello-timeout", "0.5"});
  auto daemon = connect();
  auto stop_zygote = [&] { ::kill(descendants(daemon_.pid()).at(0), SIGSTOP); };
  auto compiles = [&](const std::string& salt) {
    auto made = daemon->compile(order("bytes", 64, salt), {.deadline_ms = 30'000});
    EXPECT_TRUE(made) << made.error().message;
  };
  stop_zygote();
  compiles("first");
  EXPECT_EQ(stats()["zygote_restarts_total"], 1);
  stop_zygote();
  compiles("second");
  EXPECT_EQ(stats()["zygote_restarts_total"], 1) << "the worker that there is needs none";
  const auto worker = stats()["worker_list"][0]["pid"].get<pid_t>();
  ASSERT_GT(worker, 0);
  ::kill(worker, SIGKILL);
  compiles("third");
  EXPECT_EQ(stats()["zygote_restarts_total"], 2);
}

// A machine that stands still for longer than a zygote has to greet: neither the daemon nor the zygote was at fault.
TEST_F(IsolationTest, AStandstillOfTheMachineIsNoWorkerThatHangs) {
  const std::string worker = temp_ / "kiln-worker", still = temp_ / "still";
  std::ofstream(worker) << "#!/bin/sh\nif rmdir " + still + " 2>/dev/null; then kill -STOP $PPID; sleep 2.2; " +
                               "kill -CONT $PPID; sleep 0.1; fi\nexec " KILN_TEST_WORKER " \"$@\"\n";
  ::chmod(worker.c_str(), 0700);
  start({"--worker", worker, "--hello-timeout", "0.5"});  // a zygote's patience is three times that
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  std::filesystem::create_directory(still);
  const auto before = stats()["zygote_restarts_total"].get<int>();
  ::kill(descendants(daemon_.pid()).at(0), SIGKILL);
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(still); }));
  EXPECT_TRUE(eventually([&] { return daemon->compile(order("bytes", 9, "after")).ok(); }));
  EXPECT_EQ(stats()["zygote_restarts_total"], before + 1);
}

TEST_F(IsolationTest, MissingOrBrokenWorkerIsAClearError) {
  auto arguments = daemon_arguments();
  *(std::find(arguments.begin(), arguments.end(), "--worker") + 1) = "/nonexistent/kiln-worker";
  std::string line = daemon_.start(runtime(), arguments);
  EXPECT_TRUE(line.starts_with("error ")) << line;
  EXPECT_NE(line.find("/nonexistent/kiln-worker"), std::string::npos) << line;
  EXPECT_EQ(daemon_.wait(), 1);
  *(std::find(arguments.begin(), arguments.end(), "--worker") + 1) = "/bin/false";
  line = daemon_.start(runtime(), arguments);
  EXPECT_NE(line.find("/bin/false does not start"), std::string::npos) << line;
  EXPECT_EQ(daemon_.wait(), 1);
}

}  // namespace
}  // namespace kiln::service_test
