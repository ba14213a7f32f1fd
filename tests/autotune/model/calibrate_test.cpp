// Calibration finds the roofs of a machine that obeys them.
#include "simulated.h"

namespace kiln::autotune {
namespace {

using namespace simulated;

// Launches take what the roofs say, each program its share of one of the machine's processors.
class RoofRunner final : public Runner {
 public:
  RoofRunner(Machine machine, int threads) : machine_(std::move(machine)) {
    info_ = {machine_.target, "a machine of roofs", "roofs", threads};
  }
  const RunnerInfo& info() const override { return info_; }
  Result<void> begin(const dsl::Kernel& kernel, const Workload& workload, Cache cache) override {
    kernel_ = kernel;
    workload_ = workload;
    cache_ = cache;
    return {};
  }
  Result<CandidateStatus> load(CandidateId, const Config& config, const Artifact&, Seconds) override {
    auto work = count_work(kernel_, config, workload_);
    if (!work) return work.error();
    const double bytes = work->compulsory;
    const double roof = cache_ == Cache::kHot && bytes < 64e6 ? machine_.cache_bytes_per_us
                        : work->stored > work->loaded / 10    ? machine_.copy_bytes_per_us
                                                              : machine_.read_bytes_per_us;
    const double fill = std::ceil(work->programs / machine_.parallel) * machine_.parallel / work->programs;
    us_ = machine_.launch_us +
          std::max({bytes / roof, fill * work->dot_flops / machine_.dot_flops_per_us.at(name_of(work->dot_type)),
                    fill * work->math / machine_.math_per_us});
    ++loads;
    return CandidateStatus{};
  }
  Result<Measured> measure(std::span<const CandidateId> ids, int rounds, Seconds) override {
    Measured out;
    out.status.resize(ids.size());
    out.rounds.assign(static_cast<size_t>(rounds), Round{std::vector<double>(ids.size(), us_)});
    return out;
  }
  void unload(CandidateId) override {}
  int loads = 0;

 private:
  static std::string name_of(dsl::ElementType type) { return std::string(dsl::info(type).name); }

  Machine machine_;
  RunnerInfo info_;
  dsl::Kernel kernel_;
  Workload workload_;
  Cache cache_ = Cache::kCold;
  double us_ = 0;
};

Machine roofs(const std::string& target, int parallel) {
  return {.read_bytes_per_us = 4.4e6,
          .copy_bytes_per_us = 4e6,
          .cache_bytes_per_us = 9e6,
          .f32_flops_per_us = 5e7,
          .dot_flops_per_us = {{"f32", 5e7}, {"bf16", 6e8}, {"f16", 6e8}, {"i8", 1.2e9}},
          .math_per_us = 4e6,
          .launch_us = 3,
          .parallel = parallel,
          .target = target};
}

TEST(Calibrate, FindsTheRoofsAndKeepsThem) {
  const Machine truth = roofs("cuda:sm_90a", 132);
  FakeCompiler compiler;
  RoofRunner runner(truth, 0);
  MemoryRecords records;
  auto machine = calibrate(compiler, runner, records);
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->parallel, 132);
  EXPECT_NEAR(machine->launch_us, 3, 0.01);
  auto near = [](double measured, double expected) { EXPECT_NEAR(measured, expected, 0.05 * expected); };
  near(machine->read_bytes_per_us, truth.read_bytes_per_us);
  near(machine->copy_bytes_per_us, truth.copy_bytes_per_us);
  near(machine->cache_bytes_per_us, truth.cache_bytes_per_us);
  near(machine->math_per_us, truth.math_per_us);
  for (const auto& [type, flops] : truth.dot_flops_per_us) near(machine->dot_flops_per_us[type], flops);

  const int before = runner.loads;
  auto again = calibrate(compiler, runner, records);
  ASSERT_TRUE(again);
  EXPECT_EQ(to_json(*again), to_json(*machine));
  EXPECT_EQ(runner.loads, before);
}

TEST(Calibrate, ACpuSaysHowManyThreadsItHas) {
  Machine truth = roofs("cpu:simulated", 2);
  FakeCompiler compiler;
  RoofRunner runner(truth, 2);
  MemoryRecords records;
  auto machine = calibrate(compiler, runner, records);
  ASSERT_TRUE(machine) << machine.error().message;
  EXPECT_EQ(machine->parallel, 2);
  EXPECT_EQ(machine->target, "cpu:simulated");
}

TEST(Calibrate, NamesWhatFailed) {
  FakeCompiler compiler;
  FakeRunner runner([](const Config&) { return 1.0; });
  runner.calls_left = 0;
  MemoryRecords records;
  auto machine = calibrate(compiler, runner, records);
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().message, "calibrating a simulated device: killed");
}

}  // namespace
}  // namespace kiln::autotune
