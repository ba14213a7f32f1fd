// Children of a daemon that has no memory, or no watches of epoll, at the moment that it wants them.
#include "shortage.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <fstream>
#include <new>

#include "child_owner.h"
#include "directory_watch.h"
#include "processes/tuner_process.h"
#include "processes/worker_pool.h"

namespace kiln::service_test {
namespace {

using server::Bytes;
using server::JobOutcome;

constexpr uint64_t kMoreThanUsual = uint64_t{5} << 30;  // each job has a worker of its own

server::SharedBytes body_of(const RequestBytes& request) {
  Bytes out(sizeof(uint32_t));
  const auto size = static_cast<uint32_t>(request.canonical.size());
  std::memcpy(out.data(), &size, sizeof size);
  out.insert(out.end(), request.canonical.begin(), request.canonical.end());
  out.insert(out.end(), request.debug.begin(), request.debug.end());
  return std::make_shared<const Bytes>(std::move(out));
}

// A pool of one worker, which has heard its zygote's hello.
struct Pool : ChildOwner {
  std::optional<server::WorkerPool> pool;
  bool ready = false;

  Pool() {
    config.worker_path = KILN_TEST_WORKER;
    config.workers = 1;
    make();
  }
  void make() { pool.emplace(io, config, scratch, log, metrics); }
  Result<void> start() {
    return pool->start({.ready = [this](const std::string&, const std::string&) { ready = true; },
                        .slot_free = [] {},
                        .start_failed = [](const std::string&) {}});
  }
  // What becomes of the next job, once there is a slot for it.
  std::string next() {
    std::optional<JobOutcome> outcome;
    if (!run_until([&] { return pool->has_slot(); })) return "no slot";
    pool->run(++jobs, "{}", job, kMoreThanUsual, [&](JobOutcome result) { outcome = std::move(result); });
    if (!run_until([&] { return outcome.has_value(); })) return "no outcome";
    return outcome->kind == JobOutcome::kArtifact ? "compiled" : outcome->cause + outcome->failure.message;
  }

  const server::SharedBytes job = body_of(order("bytes"));
  uint64_t jobs = 0;
};

// Each allocation in turn: the caller hears of it, and the next job has its worker.
TEST(Shortage, WithoutMemoryForAWorkerItsPlaceStaysFree) {
  Pool with;
  ASSERT_TRUE(with.start());
  ASSERT_TRUE(with.run_until([&] { return with.ready; }));
  size_t failed = 0;
  for (bool was_felt = true; was_felt;) {
    SCOPED_TRACE("allocation " + std::to_string(failed));
    std::optional<JobOutcome> outcome;
    bool has_thrown = false;
    std::string json = "{}";
    server::WorkerPool::Done done = [&](JobOutcome result) { outcome = std::move(result); };
    {
      const NoMemory none(failed, 1);
      try {
        with.pool->run(++with.jobs, std::move(json), with.job, kMoreThanUsual, std::move(done));
      } catch (const std::bad_alloc&) {
        has_thrown = true;
      }
      was_felt = none.was_felt();
    }
    if (was_felt) ++failed;
    ASSERT_TRUE(has_thrown || with.run_until([&] { return outcome.has_value(); }));
    EXPECT_FALSE(has_thrown && outcome);
    ASSERT_EQ(with.next(), "compiled");
  }
  EXPECT_GT(failed, 10u) << "there is something to allocate";
  ASSERT_TRUE(with.run_until([&] { return with.pool->stats()["workers"] == 0; }));
}

TEST(Shortage, WithoutWatchesNoWorkerCanBeHad) {
  Pool with;
  ASSERT_TRUE(with.start());
  ASSERT_TRUE(with.run_until([&] { return with.ready; }));
  const size_t before = open_descriptors(::getpid());
  std::optional<JobOutcome> outcome;
  {
    const NoWatches none;
    with.pool->run(++with.jobs, "{}", with.job, 0, [&](JobOutcome result) { outcome = std::move(result); });
  }
  ASSERT_TRUE(with.run_until([&] { return outcome.has_value(); }));
  EXPECT_TRUE(outcome->never_ran);
  EXPECT_NE(outcome->cause.find("worker's channel"), std::string::npos) << outcome->cause;
  EXPECT_EQ(open_descriptors(::getpid()), before);
  EXPECT_EQ(with.next(), "compiled");
}

// The pipe of its words, then its channel.
TEST(Shortage, WithoutWatchesAPoolDoesNotStart) {
  for (size_t after : {0u, 1u}) {
    Pool with;
    with.pool.reset();
    const size_t before = open_descriptors(::getpid());
    with.make();
    {
      const NoWatches none(after);
      EXPECT_FALSE(with.start());
    }
    EXPECT_TRUE(descendants(::getpid()).empty());
    with.pool.reset();
    EXPECT_EQ(open_descriptors(::getpid()), before);
  }
}

TEST(Shortage, WithoutWatchesAZygoteIsStartedAgainLater) {
  Pool with;
  ASSERT_TRUE(with.start());
  ASSERT_TRUE(with.run_until([&] { return with.ready; }));
  with.ready = false;
  {
    const NoWatches none;
    ::kill(descendants(::getpid()).at(0), SIGKILL);
    ASSERT_TRUE(with.run_until([&] { return with.metrics.zygote_restarts >= 2; }));
    EXPECT_NE(with.pool->unavailable(), "");
  }
  ASSERT_TRUE(with.run_until([&] { return with.ready; }));
  EXPECT_EQ(with.pool->unavailable(), "");
  EXPECT_EQ(with.next(), "compiled");
}

TEST(Shortage, WithoutWatchesThereIsNoTuner) {
  ChildOwner owner;
  owner.config.tuner_path = owner.temp / "tuner";
  std::ofstream(owner.config.tuner_path) << "#!/bin/sh\nexec sleep 1000\n";
  std::filesystem::permissions(owner.config.tuner_path, std::filesystem::perms::owner_all);
  server::History history("test");
  server::TunerProcess tuner(owner.io, owner.config, owner.scratch, owner.log, owner.metrics, history);
  const size_t before = open_descriptors(::getpid());
  std::optional<Result<std::string>> answer;
  {
    const NoWatches none;
    tuner.submit({.requester = {1, 1}, .trace_id = "t", .json = "{}", .body = std::make_shared<const Bytes>(8)},
                 [&](const Result<std::string>& result) { answer = result; });
  }
  ASSERT_TRUE(answer);
  EXPECT_FALSE(*answer);
  EXPECT_EQ(open_descriptors(::getpid()), before);
  EXPECT_TRUE(descendants(::getpid()).empty());
}

TEST(Shortage, WithoutWatchesNamesAreNotHeardOf) {
  ChildOwner owner;
  const size_t before = open_descriptors(::getpid());
  server::DirectoryWatch watch(owner.io);
  const NoWatches none;
  watch.start(owner.temp.path(), [] {});
  EXPECT_EQ(open_descriptors(::getpid()), before);
}

}  // namespace
}  // namespace kiln::service_test
