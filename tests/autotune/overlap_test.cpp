// Compiling and measuring at once: a device that waits for nothing, and waits that end at a stop.
#include "kiln/autotune/batch.h"
#include "simulated.h"

namespace kiln::autotune {
namespace {

using namespace simulated;

using Milliseconds = std::chrono::milliseconds;

// A candidate that is slower leaves after nine rounds with the champion.
constexpr int kLaunchesOfAMeasurement = 2 * 9;

// Compiles take as long as the measurement of a candidate.
class SlowCompiler final : public Compiler {
 public:
  explicit SlowCompiler(Milliseconds launch) : time_(kLaunchesOfAMeasurement * launch) {}
  std::string builder_id() const override { return "builder"; }
  Result<std::string> resolve_target(const std::string& target) override { return target; }
  std::future<Result<Artifact>> compile(const dsl::Kernel& kernel, const std::string&, const Config& config,
                                        const dsl::Facts&) override {
    // As a daemon does: what was compiled once is there.
    const bool known = !compiled_.insert(kernel.name + to_string(config)).second;
    return std::async(std::launch::async, [time = known ? Milliseconds(0) : time_]() -> Result<Artifact> {
      std::this_thread::sleep_for(time);
      return Artifact{nlohmann::json::object(), {}};
    });
  }

 private:
  const Milliseconds time_;
  std::set<std::string> compiled_;
};

class GpuRunner final : public Runner {
 public:
  // The default is the best by far: nothing is raced again.
  explicit GpuRunner(Milliseconds launch = Milliseconds(1))
      : simulated_([](const Config& c) {
          return 100 + 20 * (std::abs(steps(c, "A", 16)) + std::abs(steps(c, "B", 64)) + std::abs(steps(c, "C", 32)));
        }) {
    simulated_.pause = launch;
    info_ = simulated_.info();
    info_.target = "cuda:sm_90a";
  }
  const RunnerInfo& info() const override { return info_; }
  Result<void> begin(const dsl::Kernel& kernel, const Workload& workload, Cache cache) override {
    return simulated_.begin(kernel, workload, cache);
  }
  Result<CandidateStatus> load(CandidateId id, const Config& config, const Artifact& artifact, Seconds time) override {
    return simulated_.load(id, config, artifact, time);
  }
  Result<Measured> measure(std::span<const CandidateId> ids, int rounds, Seconds time) override {
    return simulated_.measure(ids, rounds, time);
  }
  void unload(CandidateId id) override { simulated_.unload(id); }
  double device_us() const override { return simulated_.device_us(); }

 private:
  FakeRunner simulated_;
  RunnerInfo info_;
};

JobSpec spec(int64_t n) {
  const Job job = blocks_job(n);
  const std::vector<dsl::SpaceAxis> axes = {{"A", {8, 16, 32}}, {"B", {32, 64}}, {"C", {16, 32}}};
  return {"jobs.jsonl:1", "blocks", "cuda", job.kernel, job.workload, axes};
}

double busy_share(Search search, Milliseconds launch) {
  MemoryRecords records;
  records.machines["hardware"] = to_json(machine());
  SlowCompiler compiler(launch);
  BatchOptions options;
  options.tune.search = search;
  const auto start = [launch](const std::string&) -> Result<std::unique_ptr<Runner>> {
    return std::unique_ptr<Runner>(std::make_unique<GpuRunner>(launch));
  };
  const BatchResult result = run_batch({spec(1 << 16), spec(1 << 15)}, compiler, start, records, options);
  EXPECT_EQ(result.count(JobState::kDone), 2u) << result.jobs[0].error;
  EXPECT_LE(result.busy_share, 1);
  return result.busy_share;
}

// A few times, for where the machine has much else to do the tuner itself waits.
TEST(Overlap, ADeviceIsIdleForLessThanATenthOfABatch) {
  for (const auto& [search, launch] :
       {std::pair(Search::kAuto, Milliseconds(15)), {Search::kExhaustive, Milliseconds(6)}}) {
    double best = 0;
    for (int i = 0; i < 5 && best < 0.9; ++i) best = std::max(best, busy_share(search, launch));
    EXPECT_GE(best, 0.9) << static_cast<int>(search);
  }
}

// Its compiles never end.
class StuckCompiler final : public Compiler {
 public:
  std::string builder_id() const override { return "builder"; }
  Result<std::string> resolve_target(const std::string& target) override { return target; }
  std::future<Result<Artifact>> compile(const dsl::Kernel&, const std::string&, const Config&,
                                        const dsl::Facts&) override {
    promises_.emplace_back();
    return promises_.back().get_future();
  }

 private:
  std::vector<std::promise<Result<Artifact>>> promises_;
};

std::jthread stop_soon(std::stop_source& source) {
  return std::jthread([&source] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    source.request_stop();
  });
}

TEST(Overlap, AStopEndsTheWaitForACompile) {
  StuckCompiler compiler;
  FakeRunner runner([](const Config&) { return 1.0; });
  MemoryRecords records;
  std::stop_source stop;
  const std::jthread stopper = stop_soon(stop);
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
  const std::jthread stopper = stop_soon(stop);
  const auto start = [](const std::string&) -> Result<std::unique_ptr<Runner>> {
    return std::unique_ptr<Runner>(std::make_unique<GpuRunner>());
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
