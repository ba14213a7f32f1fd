// Of statement 42: figures and traces that a process asks for by the hundred hold up nobody else.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "bar.h"

namespace kiln::service_test {
namespace {

using BarReports = Bar;

// Asks for 504 traces on 63 connections at once, says so, and takes what comes. Exit code: whether some were refused.
[[noreturn]] void ask_for_traces(const std::string& runtime, int said) {
  constexpr uint64_t kConnections = 63, kEach = 8;
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (uint64_t i = 0; i < kConnections; ++i) {
    peers.push_back(std::make_unique<RawPeer>(runtime));
    (void)peers.back()->read();
    peers.back()->hello();
  }
  for (uint64_t id = 1; id <= kEach; ++id) {
    for (uint64_t i = 0; i < kConnections; ++i) {
      const std::string last = std::to_string(100'000 + id * kConnections + i);  // no two are the same
      peers[i]->send(
          {.type = wire::Type::kStats, .request_id = id, .json = R"({"format":"trace","last":)" + last + "}"});
    }
  }
  (void)!::write(said, "a", 1);
  int refused = 0;
  for (auto& peer : peers) {
    for (uint64_t id = 1; id <= kEach; ++id) {
      auto reply = peer->read();
      if (!reply) ::_exit(2);
      refused += reply->type() == wire::Type::kError;
    }
  }
  ::_exit(refused > 0 ? 0 : 1);
}

// Another process's figures took 27 s beside them, as long as they were made in the order in which they were asked for.
TEST_F(BarReports, Statement42ReportsByTheHundredHoldUpNobody) {
  start();
  ASSERT_TRUE(connect()->compile(order("bytes")));
  const auto alone = hit_times(4096);  // which all traces have
  int said[2];
  ASSERT_EQ(::pipe(said), 0);
  const pid_t greedy = ::fork();
  if (greedy == 0) ask_for_traces(runtime(), said[1]);
  char asked = 0;
  ASSERT_EQ(::read(said[0], &asked, 1), 1);
  Stopwatch waited;
  const auto figures = stats();
  const double figures_ms = waited.ms();
  const auto among = hit_times(300);
  EXPECT_GT(figures["rejected_total"].value("reports", 0), 0);
  EXPECT_LT(figures_ms, 5000) << "behind the others";
  EXPECT_LT(percentile(among, 1), 2'000'000);
  judge_time("us for a hit beside 504 traces (p99)", percentile(among, 0.99), 20'000);
  int status = 0;
  ASSERT_EQ(::waitpid(greedy, &status, 0), greedy);
  EXPECT_EQ(status, 0);
  figure(42, "504 traces asked for at once: another process's figures after %.0f ms, its hits p99 %.0f us, %.0f alone",
         figures_ms, percentile(among, 0.99), percentile(alone, 0.99));
  ::close(said[0]);
  ::close(said[1]);
}

// Asks for 504 figures on 63 connections at once, and for another one with each answer.
[[noreturn]] void ask_for_figures(const std::string& runtime, std::atomic<uint64_t>& answered) {
  constexpr uint64_t kConnections = 63, kEach = 8;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<std::unique_ptr<RawPeer>> peers;
  uint64_t id = 0;
  const auto ask = [&](RawPeer& peer) {
    const std::string json = R"({"format":"json","last":)" + std::to_string(++id) + "}";  // no two are the same
    peer.send({.type = wire::Type::kStats, .request_id = id, .json = json});
  };
  for (uint64_t i = 0; i < kConnections; ++i) {
    peers.push_back(std::make_unique<RawPeer>(runtime));
    (void)peers.back()->read();
    peers.back()->hello();
  }
  for (uint64_t i = 0; i < kConnections * kEach; ++i) ask(*peers[i % kConnections]);
  for (uint64_t i = 0;; ++i) {
    if (!peers[i % kConnections]->read()) ::_exit(1);
    ++answered;
    ask(*peers[i % kConnections]);
  }
}

// Not by time: how many of the others are answered between a hit's request and its answer.
TEST_F(BarReports, Statement42FiguresByTheHundredHoldUpNobody) {
  constexpr int kHits = 100;
  constexpr double kAskedFor = 504;
  start();
  auto victim = connect();
  ASSERT_TRUE(victim->compile(order("bytes")));
  void* shared =
      ::mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& answered = *new (shared) std::atomic<uint64_t>(0);
  const pid_t greedy = ::fork();
  if (greedy == 0) ask_for_figures(runtime(), answered);
  EXPECT_TRUE(eventually([&] { return answered > 1000; }));
  std::vector<double> before_it;
  for (int i = 0; i < kHits; ++i) {
    const uint64_t before = answered;
    EXPECT_TRUE(victim->fetch(order("bytes")));
    before_it.push_back(static_cast<double>(answered - before));
  }
  EXPECT_GT(stats()["rejected_total"].value("reports", 0), 0) << "a process may ask for few";
  EXPECT_LT(percentile(before_it, 0.5), kAskedFor / 2) << "hits are behind what was asked for before them";
  EXPECT_EQ(::waitpid(greedy, nullptr, WNOHANG), 0) << "it was not answered";
  ::kill(greedy, SIGKILL);
  ::waitpid(greedy, nullptr, 0);
  figure(42,
         "%.0f figures asked for at once, and as many again: %.0f of them answered between a hit's request and its "
         "answer (median), %.0f at most",
         kAskedFor, percentile(before_it, 0.5), percentile(before_it, 1));
  ::munmap(shared, sizeof(std::atomic<uint64_t>));
}

}  // namespace
}  // namespace kiln::service_test
