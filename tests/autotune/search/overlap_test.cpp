// Compiling and measuring at once: a device that waits for nothing, and waits that end at a stop.
#include <atomic>

#include "kiln/autotune/batch.h"
#include "simulated.h"
#include "waiting.h"

namespace kiln::autotune {
namespace {

using namespace simulated;

// What was asked for, and the order in which it was.
struct Events {
  int measurements = 0;                             // so far
  std::map<Config, int> asked;                      // by config: measurements before its compile was asked for
  std::vector<std::promise<Result<Artifact>>> due;  // compiles that have not ended
  bool all_at_once = true;                          // a compile has ended when it is asked for
};

class NotingCompiler final : public Compiler {
 public:
  explicit NotingCompiler(Events& events) : events_(events) {}
  std::string builder_id() const override { return "builder"; }
  Result<std::string> resolve_target(const std::string& target) override { return target; }
  std::future<Result<Artifact>> compile(const dsl::Kernel&, const std::string&, const Config& config,
                                        const dsl::Facts&) override {
    events_.asked.emplace(config, events_.measurements);
    events_.due.emplace_back();
    auto out = events_.due.back().get_future();
    // Nothing is there to be measured before the default is.
    if (events_.all_at_once || events_.measurements == 0) end_all();
    return out;
  }

 private:
  void end_all() {
    for (auto& promise : events_.due) promise.set_value(Artifact{});
    events_.due.clear();
  }

  Events& events_;
};

constexpr int kMeasurementsOfACompile = 3;

// A device that the host does not wait for. A compile ends after some measurements, one after the other.
class GpuRunner final : public Runner {
 public:
  // The default is the best by far, so that no race is long.
  explicit GpuRunner(Events& events) : events_(events), simulated_(time_of) {
    info_ = simulated_.info();
    info_.target = "cuda:sm_90a";
  }
  const RunnerInfo& info() const override { return info_; }
  Result<void> begin(const dsl::Kernel& kernel, const Workload& workload, Cache cache) override {
    return simulated_.begin(kernel, workload, cache);
  }
  Result<CandidateStatus> load(CandidateId id, const Config& config, const Artifact& artifact, Seconds time) override {
    if (loaded.insert(config).second && events_.asked.at(config) < events_.measurements) ++compiled_ahead;
    return simulated_.load(id, config, artifact, time);
  }
  Result<Measured> measure(std::span<const CandidateId> ids, int rounds, Seconds time) override {
    if (++events_.measurements % kMeasurementsOfACompile == 0 && !events_.due.empty()) {
      events_.due.front().set_value(Artifact{});
      events_.due.erase(events_.due.begin());
    }
    return simulated_.measure(ids, rounds, time);
  }
  void unload(CandidateId id) override { simulated_.unload(id); }

  std::set<Config> loaded;
  size_t compiled_ahead = 0;  // of these, those whose compile was asked for before the last measurement began

 private:
  static double time_of(const Config& c) {
    const double away = std::abs(steps(c, "A", 16)) + std::abs(steps(c, "B", 64)) + std::abs(steps(c, "C", 32));
    return away == 0 ? 100 : 300 + 20 * away;
  }

  Events& events_;
  FakeRunner simulated_;
  RunnerInfo info_;
};

Job gpu_job() {
  Job out = blocks_job();
  out.target = "cuda:sm_90a";
  return out;
}

TEST(Overlap, WhatAGpuMeasuresNextIsCompiledBeforeItIsItsTurn) {
  for (const Search search : {Search::kAuto, Search::kExhaustive, Search::kRandom}) {
    Events events;
    NotingCompiler compiler(events);
    GpuRunner runner(events);
    MemoryRecords records;
    auto result = tune(gpu_job(), compiler, runner, records, machine(), {.search = search, .share = 1});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(runner.loaded.size(), 80u) << static_cast<int>(search);
    EXPECT_GE(runner.compiled_ahead, 72u) << static_cast<int>(search);
  }
}

// Compiles that take longer than measurements: the tuner never waits for one without measuring meanwhile. Else this
// would not end, for here nothing else lets a compile end.
TEST(Overlap, AGpuMeasuresWhileACompileIsWaitedFor) {
  Events events;
  events.all_at_once = false;
  NotingCompiler compiler(events);
  GpuRunner runner(events);
  MemoryRecords records;
  auto result = tune(gpu_job(), compiler, runner, records, machine(), {.share = 0.5, .budget = Seconds(60)});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->finished);
  EXPECT_EQ(runner.loaded.size(), 40u);
}

// Its compiles never end.
class StuckCompiler final : public Compiler {
 public:
  std::string builder_id() const override { return "builder"; }
  Result<std::string> resolve_target(const std::string& target) override { return target; }
  std::future<Result<Artifact>> compile(const dsl::Kernel&, const std::string&, const Config&,
                                        const dsl::Facts&) override {
    promises_.emplace_back();
    asked = true;
    return promises_.back().get_future();
  }

  std::atomic<bool> asked = false;

 private:
  std::vector<std::promise<Result<Artifact>>> promises_;
};

// While a compile is waited for.
std::jthread stop_soon(std::stop_source& source, const StuckCompiler& compiler) {
  return std::jthread([&] {
    EXPECT_TRUE(eventually([&] { return compiler.asked.load(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    source.request_stop();
  });
}

TEST(Overlap, AStopEndsTheWaitForACompile) {
  StuckCompiler compiler;
  FakeRunner runner([](const Config&) { return 1.0; });
  MemoryRecords records;
  std::stop_source stop;
  const std::jthread stopper = stop_soon(stop, compiler);
  auto result = tune(blocks_job(), compiler, runner, records, machine(), {}, {}, stop.get_token());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_FALSE(result->finished);
  EXPECT_EQ(result->best, result->fallback);
}

TEST(Overlap, ABudgetEndsTheWaitForACompile) {
  StuckCompiler compiler;
  FakeRunner runner([](const Config&) { return 1.0; });
  MemoryRecords records;
  auto result = tune(blocks_job(), compiler, runner, records, machine(), {.budget = Seconds(0.05)});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_FALSE(result->finished);
}

TEST(Overlap, AStopEndsCalibrationAndItsJobIsStopped) {
  StuckCompiler compiler;
  MemoryRecords records;
  std::stop_source stop;
  const std::jthread stopper = stop_soon(stop, compiler);
  const auto start = [](const std::string&) -> Result<std::unique_ptr<Runner>> {
    return std::unique_ptr<Runner>(std::make_unique<FakeRunner>([](const Config&) { return 1.0; }));
  };
  const auto spec = [](int64_t n) {
    const Job job = blocks_job(n);
    return JobSpec{"jobs.jsonl:1", "blocks", "cpu", job.kernel, job.workload, {}};
  };
  const BatchResult result =
      run_batch({spec(1 << 16), spec(1 << 15)}, compiler, start, records, {}, {}, stop.get_token());
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.jobs[0].state, JobState::kStopped);
  EXPECT_EQ(result.jobs[1].state, JobState::kWaiting);
  EXPECT_EQ(result.count(JobState::kDone), 0u);
}

}  // namespace
}  // namespace kiln::autotune
