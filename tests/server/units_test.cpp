// The parts of the scheduler that need no process: queue, refusals, memory tier. Time is an argument.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>

#include "cache/artifact_check.h"
#include "reports/history.h"
#include "reports/metrics.h"
#include "scheduling/crash_storm.h"
#include "scheduling/job_queue.h"
#include "scheduling/refusals.h"

namespace kiln::server {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using Time = JobQueue::TimePoint;

JobPtr job(uint64_t client, wire::Priority priority, Time queued = {}) {
  static const SharedBytes kBody = std::make_shared<const Bytes>(10);
  auto out = std::make_shared<Job>();
  out->client = client;
  out->priority = priority;
  out->body = kBody;
  out->state = Job::State::kQueued;
  out->queued_at = queued;
  return out;
}

JobPtr pop(JobQueue& queue, Time now = {}, bool with_background = true) {
  JobPtr out = queue.pop(now, with_background);
  if (out) out->state = Job::State::kRunning;
  return out;
}

constexpr auto kNow = wire::Priority::kInteractive;
constexpr auto kLater = wire::Priority::kBackground;

Result<void> checked(const char* emit, const std::string& code) {
  return check_artifact({{"emit", emit}, {"entry", "kiln_entry"}}, std::as_bytes(std::span(code)));
}

TEST(ArtifactCheck, CodeIsWhatItIsSaidToBe) {
  std::ifstream own("/proc/self/exe", std::ios::binary);
  const std::string elf((std::istreambuf_iterator<char>(own)), {});
  for (const char* emit : {"so", "obj", "cubin", "hsaco"}) {
    EXPECT_TRUE(checked(emit, elf)) << emit;
    EXPECT_FALSE(checked(emit, elf.substr(0, elf.size() / 2))) << "its table of sections is at the end";
    EXPECT_FALSE(checked(emit, elf.substr(0, 40)));
    EXPECT_FALSE(checked(emit, std::string(500, 'x')));
    EXPECT_FALSE(checked(emit, ""));
  }
  EXPECT_TRUE(checked("ptx", ".visible .entry kiln_entry(\n.param .u64 a)"));
  EXPECT_FALSE(checked("ptx", ".visible .entry kiln_entry_2(\n.param .u64 a)"));
  EXPECT_FALSE(checked("ptx", ".visible .func kiln_entry("));
  EXPECT_TRUE(checked("llvm", "define"));
  EXPECT_FALSE(checked("llvm", ""));
  EXPECT_TRUE(check_artifact(nlohmann::json::object(), std::as_bytes(std::span("x"))));
}

TEST(JobQueue, InteractiveFirst) {
  JobQueue queue(60s);
  auto background = job(1, kLater), interactive = job(1, kNow);
  queue.push(background);
  queue.push(interactive);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.bytes(), 20u);
  EXPECT_EQ(pop(queue), interactive);
  EXPECT_EQ(pop(queue, {}, false), nullptr);
  EXPECT_EQ(pop(queue), background);
  EXPECT_EQ(pop(queue), nullptr);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(JobQueue, CountsItsClasses) {
  JobQueue queue(60s);
  const auto sizes = [&] { return std::pair(queue.size(kNow), queue.size(kLater)); };
  auto first = job(1, kLater), second = job(1, kLater), third = job(2, kNow);
  for (const auto& each : {first, second, third}) queue.push(each);
  EXPECT_EQ(sizes(), std::pair(size_t{1}, size_t{2}));
  queue.promote(second);
  queue.promote(second);
  EXPECT_EQ(sizes(), std::pair(size_t{2}, size_t{1}));
  second->state = Job::State::kGone;
  queue.dropped(*second);
  EXPECT_EQ(sizes(), std::pair(size_t{1}, size_t{1}));
  EXPECT_EQ(pop(queue), third);
  EXPECT_EQ(pop(queue), first);
  first->state = Job::State::kQueued;
  queue.push_again(first);
  EXPECT_EQ(sizes(), std::pair(size_t{0}, size_t{1}));
}

TEST(JobQueue, BackgroundAges) {
  JobQueue queue(60s);
  Time begin{};
  auto old = job(1, kLater, begin);
  queue.push(old);
  queue.push(job(1, kNow, begin + 59s));
  queue.push(job(1, kNow, begin + 59s));
  EXPECT_NE(pop(queue, begin + 59s), old);
  EXPECT_EQ(pop(queue, begin + 60s), old);
}

// However many have aged, an interactive job waits for one of them at most; and however many of those come, the aged go
// on.
TEST(JobQueue, AgedJobsAndInteractiveOnesTakeTurns) {
  JobQueue queue(60s);
  const Time now{100s};
  for (int i = 0; i < 10'000; ++i) queue.push(job(1, kLater, Time{}));
  for (int round = 0; round < 100; ++round) {
    for (int waiting = 0; waiting < 3; ++waiting) queue.push(job(2, kNow, now));
    std::vector<wire::Priority> order;
    for (int i = 0; i < 6; ++i) order.push_back(pop(queue, now)->priority);
    EXPECT_EQ(std::count(order.begin(), order.end(), kNow), 3);
    EXPECT_TRUE(order[0] == kNow || order[1] == kNow);
    EXPECT_EQ(order[2] == kNow, order[0] == kNow);
  }
  // One that comes while an aged job runs that went before another is next.
  queue.push(job(2, kNow, now));
  queue.push(job(2, kNow, now));
  while (pop(queue, now)->priority == kNow) {
  }
  EXPECT_EQ(pop(queue, now)->priority, kNow);
}

TEST(JobQueue, ClientsTakeTurns) {
  JobQueue queue(60s);
  for (int i = 0; i < 100; ++i) queue.push(job(1, kNow));
  queue.push(job(2, kNow));
  queue.push(job(3, kNow));
  std::vector<uint64_t> order;
  for (int i = 0; i < 4; ++i) order.push_back(pop(queue)->client);
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 2, 3, 1}));
}

std::vector<uint64_t> next_clients(JobQueue& queue, int count) {
  std::vector<uint64_t> out;
  for (int i = 0; i < count; ++i) {
    const JobPtr next = pop(queue);
    out.push_back(next ? next->client : 0);
  }
  return out;
}

TEST(JobQueue, WhoHadNothingWaitingGoesFirst) {
  JobQueue queue(60s);
  for (int i = 0; i < 100; ++i) {
    queue.push(job(1, kNow));
    queue.push(job(2, kNow));
  }
  EXPECT_EQ(next_clients(queue, 3), (std::vector<uint64_t>{1, 2, 1}));
  queue.push(job(3, kNow));
  EXPECT_EQ(next_clients(queue, 3), (std::vector<uint64_t>{3, 2, 1}));
}

// Clients that always ask for one thing at a time get their turns, and no more.
TEST(JobQueue, NewcomersStarveNobody) {
  JobQueue queue(60s);
  for (int i = 0; i < 100; ++i) queue.push(job(1, kNow));
  std::map<uint64_t, int> turns;
  for (uint64_t client : {2, 3}) queue.push(job(client, kNow));
  for (int i = 0; i < 60; ++i) {
    const uint64_t client = next_clients(queue, 1)[0];
    ++turns[client];
    if (client != 1) queue.push(job(client, kNow));  // at once again
  }
  EXPECT_GE(turns[1], 19);
  EXPECT_GE(turns[2], 19);
  EXPECT_GE(turns[3], 19);
}

// Processes that come for one job each are new every time; one that stays has its turn all the same.
TEST(JobQueue, ShortLivedProcessesStarveNobody) {
  JobQueue queue(60s);
  for (int i = 0; i < 12; ++i) queue.push(job(1, kNow));
  uint64_t newcomer = 100;
  int done = 0;
  for (int turn = 0; turn < 12 * (static_cast<int>(JobQueue::kMostPassedOver) + 1); ++turn) {
    for (int i = 0; i < 2; ++i) queue.push(job(newcomer++, kNow));
    done += pop(queue)->client == 1;
  }
  EXPECT_EQ(done, 12);
}

// Whoever comes later, and with however many processes: each job waits for those that were there before it, and a few
// others for each of them.
TEST(JobQueue, NoJobWaitsForThoseThatComeLater) {
  constexpr size_t kRound = JobQueue::kMostPassedOver + 1;
  std::mt19937 random(46);
  for (wire::Priority priority : {kNow, kLater}) {
    JobQueue queue(3600s);
    std::map<const Job*, size_t> due;
    uint64_t newcomer = 100;
    for (size_t turn = 0; turn < 3000; ++turn) {
      const size_t arriving = turn % 500 < 100 ? random() % 6 : random() % 2;
      for (size_t i = 0; i < arriving; ++i) {
        const bool stays = random() % 4 == 0;
        const auto one = job(stays ? 1 + random() % 3 : newcomer, priority);
        newcomer += random() % 2;
        due[one.get()] = turn + kRound * (queue.size() + 1);
        queue.push(one);
      }
      const JobPtr next = pop(queue);
      if (!next) continue;
      ASSERT_LT(turn, due.at(next.get())) << "in turn " << turn;
      due.erase(next.get());
    }
  }
}

TEST(JobQueue, AgedBackgroundJobsDoNotWaitForNewcomers) {
  JobQueue queue(60s);
  const auto old = job(1, kLater, Time{});
  queue.push(job(1, kLater, Time{}));
  queue.push(old);
  EXPECT_EQ(pop(queue)->client, 1u);
  for (uint64_t client = 10; client < 14; ++client) queue.push(job(client, kLater, Time{100s}));
  queue.push(job(3, kNow, Time{100s}));
  EXPECT_EQ(pop(queue, Time{100s}), old);
}

TEST(Shares, AGreedyProcessLeavesRoomForOthers) {
  Shares shares;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(shares.admits(1, 1, 100));
    shares.take(1, 1);
  }
  EXPECT_FALSE(shares.admits(1, 1, 100));
  for (uint64_t greedy = 2; greedy < 5; ++greedy) {
    for (int i = 0; shares.admits(greedy, 1, 100); ++i) shares.take(greedy, 1);
    EXPECT_TRUE(shares.admits(99, 1, 100)) << greedy;
  }
  EXPECT_LT(shares.total(), 200u);
  shares.give_back(1, 60);
  EXPECT_TRUE(shares.admits(4, 20, 100));
  EXPECT_FALSE(shares.admits(99, 101, 100));
}

TEST(CrashStorm, RestsEverLongerUpToAMinute) {
  CrashStorm storm;
  CrashStorm::TimePoint now{};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(storm.died(now, 3), 0s);
  EXPECT_FALSE(storm.rests(now));
  for (auto rest : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s}) {
    EXPECT_EQ(storm.died(now, 3), rest);
    EXPECT_TRUE(storm.rests(now + rest - 1ms));
    EXPECT_FALSE(storm.rests(now + rest));
    now += 1s;
  }
  // A quiet minute ends it.
  now += 61s;
  EXPECT_EQ(storm.died(now, 3), 0s);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(storm.died(now, 3), 0s);
  EXPECT_EQ(storm.died(now, 3), 1s);
}

// Behind a job that nobody takes, however many come and go.
TEST(JobQueue, LeftJobsAreForgotten) {
  JobQueue queue(60s);
  const auto first = job(1, kNow);
  queue.push(first);
  std::vector<std::weak_ptr<Job>> left;
  for (int i = 0; i < 5000; ++i) {
    auto gone = job(static_cast<uint64_t>(1 + i % 3), i % 2 ? kNow : kLater);
    left.push_back(gone);
    queue.push(gone);
    gone->state = Job::State::kGone;
    queue.dropped(*gone);
  }
  EXPECT_LT(std::count_if(left.begin(), left.end(), [](const auto& each) { return !each.expired(); }), 1100);
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(pop(queue), first);
  EXPECT_EQ(pop(queue), nullptr);
}

TEST(JobQueue, LeftJobsAreSkipped) {
  JobQueue queue(60s);
  auto gone = job(1, kNow), stays = job(2, kNow);
  queue.push(gone);
  queue.push(stays);
  gone->state = Job::State::kGone;
  queue.dropped(*gone);
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(pop(queue), stays);
  EXPECT_EQ(pop(queue), nullptr);
}

TEST(JobQueue, PromotedJobRunsOnceAndEarly) {
  JobQueue queue(60s);
  auto first = job(1, kLater), second = job(1, kLater);
  queue.push(first);
  queue.push(second);
  queue.promote(second);
  EXPECT_EQ(pop(queue), second);
  EXPECT_EQ(pop(queue), first);
  EXPECT_EQ(pop(queue), nullptr);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(JobQueue, RetriedJobGoesFirst) {
  JobQueue queue(60s);
  auto retried = job(2, kNow);
  queue.push(job(1, kNow));
  queue.push_again(retried);
  EXPECT_EQ(pop(queue), retried);
}

TEST(Refusals, PoisonAfterTwoDeathsForAWhile) {
  Refusals refusals(2, 10s, 1s);
  Time begin = Time{} + 100s;
  Refusals::Asked asked{{}, 5}, other = asked;
  other.key[0] = 1;
  EXPECT_FALSE(refusals.worker_killed(asked, "signal 11", begin));
  EXPECT_FALSE(refusals.poisoned(asked, begin));
  EXPECT_TRUE(refusals.worker_killed(asked, "signal 6", begin + 1s));
  auto refused = refusals.poisoned(asked, begin + 2s);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, ErrorCode::kPoisoned);
  EXPECT_NE(refused->message.find("signal 6"), std::string::npos);
  EXPECT_EQ(refused->retry_after_ms, 9000u);
  EXPECT_FALSE(refusals.poisoned(other, begin + 2s));
  EXPECT_FALSE(refusals.poisoned(asked, begin + 11s));
  EXPECT_FALSE(refusals.worker_killed(asked, "signal 11", begin + 12s)) << "counting starts anew";
}

TEST(Refusals, KnownFailuresExpireAndDependOnTheDebugSection) {
  Refusals refusals(2, 10s, 1s);
  Time begin = Time{} + 100s;
  Refusals::Asked asked{{}, 5};
  refusals.compile_failed(asked, 5, error(ErrorCode::kCompileFailed, "no"), begin);
  EXPECT_TRUE(refusals.known_failure(asked, 5, begin + 900ms));
  EXPECT_FALSE(refusals.known_failure(asked, 6, begin + 900ms));
  EXPECT_FALSE(refusals.known_failure(asked, 5, begin + 1s));
}

// Who asks for more memory is not refused for what became of those with less; who asks for less is.
TEST(Refusals, WhatIsRememberedIsOfItsLimit) {
  Refusals refusals(2, 10s, 10s);
  Time begin = Time{} + 100s;
  const Refusals::Asked less{{}, 200}, more{{}, 4000}, same{{}, 300};
  for (int i = 0; i < 2; ++i) refusals.worker_killed(same, "signal 11", begin);
  refusals.compile_failed(same, 5, error(ErrorCode::kCompileFailed, "no"), begin);
  EXPECT_TRUE(refusals.poisoned(less, begin));
  EXPECT_TRUE(refusals.poisoned(same, begin));
  EXPECT_FALSE(refusals.poisoned(more, begin));
  EXPECT_TRUE(refusals.known_failure(less, 5, begin));
  EXPECT_FALSE(refusals.known_failure(more, 5, begin));
  EXPECT_EQ(refusals.poisoned_keys(begin), 1u);
  EXPECT_EQ(refusals.list(begin).at(0).at("memory_bytes"), 300);
}

// Either limit alone is enough to be another case.
TEST(Refusals, WhatIsRememberedIsOfItsProcessorTime) {
  Refusals refusals(2, 10s, 10s);
  const Time begin = Time{} + 100s;
  const Refusals::Asked same{{}, 300, 10};
  for (int i = 0; i < 2; ++i) refusals.worker_killed(same, "signal 24", begin);
  refusals.compile_failed(same, 5, error(ErrorCode::kCompileFailed, "no"), begin);
  for (const auto& [memory, seconds, refused] : {std::tuple{300, 10, true},
                                                 {200, 10, true},
                                                 {300, 9, true},
                                                 {300, 11, false},
                                                 {200, 11, false},
                                                 {400, 9, false}}) {
    const Refusals::Asked asked{{}, static_cast<uint64_t>(memory), static_cast<uint64_t>(seconds)};
    EXPECT_EQ(refusals.poisoned(asked, begin).has_value(), refused) << memory << " " << seconds;
    EXPECT_EQ(refusals.known_failure(asked, 5, begin).has_value(), refused) << memory << " " << seconds;
  }
  EXPECT_EQ(refusals.list(begin).at(0).at("cpu_seconds"), 10);
}

// A worker says what it compiled for.
TEST(Metrics, KindsOfTargetsAreFewAndShort) {
  Metrics metrics;
  for (int i = 0; i < 1000; ++i) metrics.record_compile(std::to_string(i) + std::string(60'000, 'x'), 1ms);
  EXPECT_LE(metrics.compile_ms.size(), 17u);
  for (const auto& [kind, each] : metrics.compile_ms) EXPECT_LE(kind.size(), 32u);
  EXPECT_EQ(metrics.compiles, 1000u);
}

TEST(Shares, TheLargestIsKnownAndRoomIsGivenBack) {
  auto shares = std::make_shared<Shares>();
  EXPECT_EQ(shares->largest(), 0u);
  auto room = take_room(shares, 7, 30);
  const auto copy = room;
  shares->take(8, 20);
  EXPECT_EQ(shares->largest(), 30u);
  room = nullptr;
  EXPECT_EQ(shares->held(7), 30u);
  shares->take(8, 20);
  EXPECT_EQ(shares->largest(), 40u);
}

TEST(MemoryCache, LeastRecentlyUsedGoes) {
  MemoryCache cache(300);
  auto put = [&](uint8_t number) {
    RequestKey key{};
    key[0] = number;
    cache.put(std::make_shared<const Blob>(Blob{key, Bytes(100), nullptr}));
    return key;
  };
  RequestKey first = put(1), second = put(2), third = put(3);
  EXPECT_TRUE(cache.find(first));
  put(4);
  EXPECT_TRUE(cache.find(first));
  EXPECT_FALSE(cache.find(second));
  EXPECT_TRUE(cache.find(third));
  EXPECT_EQ(cache.bytes(), 300u);
  EXPECT_EQ(cache.evictions(), 1u);
  put(4);
  EXPECT_EQ(cache.bytes(), 300u);
  cache.put(std::make_shared<const Blob>(Blob{RequestKey{9}, Bytes(301), nullptr}));
  EXPECT_EQ(cache.entries(), 3u);
}

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
    const auto events = history.trace(last)["traceEvents"];
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
  const auto events = history.trace(SIZE_MAX)["traceEvents"];
  ASSERT_EQ(events.size(), History::kLookups + 2);  // the compile has its lookup beside it
  EXPECT_EQ(events[0]["args"]["trace_id"], "start-7-3") << "the oldest that is remembered";
  EXPECT_EQ(events[0]["cat"], "GET");
  EXPECT_EQ(events[7]["args"]["trace_id"], "compiled");
  EXPECT_EQ(events[7]["cat"], "COMPILE");
  const auto last = history.trace(1)["traceEvents"];
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0]["args"]["trace_id"], "start-7-" + std::to_string(History::kLookups + 2));
}

}  // namespace
}  // namespace kiln::server
