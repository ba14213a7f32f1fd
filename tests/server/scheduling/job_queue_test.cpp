// Whose turn it is. Time is an argument.
#include "scheduling/job_queue.h"

#include <gtest/gtest.h>

#include <random>

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

}  // namespace
}  // namespace kiln::server
