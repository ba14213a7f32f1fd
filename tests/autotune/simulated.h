// A machine that does not exist: configs take the time that a function says, with noise where a test asks for it, and
// fail where a test wants them to.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "kiln/autotune/tune.h"
#include "kiln/dsl/text.h"

namespace kiln::autotune::simulated {

using TimeOf = std::function<double(const Config&)>;  // us

struct Noise {
  double sigma = 0;     // of the logarithm of a launch's time
  double outliers = 0;  // the share of launches that take two to ten times as long
};

class FakeCompiler final : public Compiler {
 public:
  std::string builder_id() const override { return "builder"; }
  Result<std::string> resolve_target(const std::string& target) override {
    return target == "cpu" ? "cpu:simulated" : target;
  }
  std::future<Result<Artifact>> compile(const dsl::Kernel&, const std::string&, const Config& config,
                                        const dsl::Facts&) override {
    ++compiled[config];
    std::promise<Result<Artifact>> out;
    auto refused = refusals.find(config);
    if (refused != refusals.end())
      out.set_value(refused->second);
    else
      out.set_value(Artifact{metadata, {}});
    return out.get_future();
  }

  void hold() override { ++held; }
  void release() override { --held; }

  int held = 0;
  std::map<Config, Error> refusals;
  std::map<Config, int> compiled;
  abi::Metadata metadata;
};

class FakeRunner final : public Runner {
 public:
  FakeRunner(TimeOf time_of, Noise noise = {}, uint64_t seed = 1)
      : time_of_(std::move(time_of)), noise_(noise), random_(seed) {
    info_ = {"cpu", "a simulated device", "hardware", 2};
  }

  const RunnerInfo& info() const override { return info_; }
  Result<void> begin(const dsl::Kernel&, const Workload&, Cache) override {
    loaded_.clear();
    return {};
  }
  Result<CandidateStatus> load(CandidateId id, const Config& config, const Artifact&, Seconds) override {
    ++loads[config];
    if (auto failing = failing_loads.find(config); failing != failing_loads.end()) {
      return CandidateStatus{failing->second, "as the test wants it"};
    }
    loaded_[id] = config;
    return CandidateStatus{};
  }
  Result<Measured> measure(std::span<const CandidateId> ids, int rounds, Seconds) override {
    if (pause > pause.zero()) sleep(pause * static_cast<double>(rounds) * static_cast<double>(ids.size()));
    if (calls_left == 0) return error(ErrorCode::kUnavailable, "killed");
    --calls_left;
    Measured out;
    out.status.resize(ids.size());
    for (int r = 0; r < rounds; ++r) {
      Round round;
      for (CandidateId id : ids) round.us.push_back(launch(loaded_.at(id)));
      out.rounds.push_back(std::move(round));
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      auto failing = failing_launches.find(loaded_.at(ids[i]));
      if (failing == failing_launches.end()) continue;
      out.status[i] = {failing->second, "as the test wants it"};
      for (Round& round : out.rounds) round.us[i] = std::nan("");
    }
    return out;
  }
  void unload(CandidateId id) override { loaded_.erase(id); }
  double device_us() const override { return device_us_; }

  std::chrono::duration<double> pause{0};  // what a launch really takes
  std::map<Config, Failure> failing_loads, failing_launches;
  std::map<Config, int> loads, launches;
  int calls_left = -1;  // of measure, until the runner is gone for good; -1: no end

 private:
  void sleep(std::chrono::duration<double> time) {
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(time);
    device_us_ += std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  }

  double launch(const Config& config) {
    ++launches[config];
    const double factor = std::exp(noise_.sigma * std::normal_distribution<double>()(random_));
    std::uniform_real_distribution<double> share(0, 1);
    const bool outlier = share(random_) < noise_.outliers;
    return time_of_(config) * factor * (outlier ? 2 + 8 * share(random_) : 1);
  }

  TimeOf time_of_;
  Noise noise_;
  std::mt19937_64 random_;
  RunnerInfo info_;
  std::map<CandidateId, Config> loaded_;
  double device_us_ = 0;
};

class MemoryRecords final : public Records {
 public:
  Result<void> put(const Record& record) override {
    rows[record.key][record.config] = record;
    return {};
  }
  Result<std::vector<Record>> all(const RecordKey& key) override {
    std::vector<Record> out;
    for (const auto& [config, record] : rows[key]) out.push_back(record);
    return out;
  }
  Result<std::optional<Record>> best(const RecordKey& key) override {
    auto found = chosen.find(key);
    if (found == chosen.end()) return std::optional<Record>();
    return std::optional(rows[key].at(found->second));
  }
  Result<void> set_best(const RecordKey& key, const Config& config) override {
    chosen[key] = config;
    return {};
  }
  Result<std::vector<Record>> neighbours(const RecordKey& key) override {
    std::vector<Record> out;
    for (const auto& [other, config] : chosen) {
      if (other.kernel == key.kernel && other.bucket != key.bucket) out.push_back(rows[other].at(config));
    }
    return out;
  }
  Result<size_t> export_lines(const std::string&) override { return size_t{0}; }
  Result<size_t> merge(const std::vector<Record>&) override { return size_t{0}; }
  Result<size_t> import_lines(const std::string&) override { return size_t{0}; }
  Result<nlohmann::json> machine(const std::string& hardware, const std::string&) override {
    return machines[hardware];
  }
  Result<void> put_machine(const std::string& hardware, const std::string&, const nlohmann::json& machine) override {
    machines[hardware] = machine;
    return {};
  }
  size_t count() const {
    size_t out = 0;
    for (const auto& [key, records] : rows) out += records.size();
    return out;
  }

  std::map<RecordKey, std::map<Config, Record>> rows;
  std::map<RecordKey, Config> chosen;
  std::map<std::string, nlohmann::json> machines;
};

// Blocks of A rows by B columns of work, C a constant that only the simulated machine minds.
inline dsl::Kernel blocks_kernel() {
  auto kernel = dsl::parse(R"(kernel blocks(%x: ptr<f32> readonly, %y: ptr<f32>, %n: i32) {
    constexpr A = 16
    constexpr B = 64
    constexpr C = 32
    space A = [4, 8, 16, 32, 64]
    space B = [16, 32, 64, 128]
    space C = [8, 16, 32, 64]
    array x = n
    array y = n
    grid [div(A*B + n - 1, A*B), 1, 1]
    %p = program_id {axis = 0} : i32
    %w = constant {value = A*B, type = i32} : i32
    %s = mul %p, %w : i32
    %b = splat %s {shape = [A*B]} : tile<[A*B], i32>
    %r = arange {start = 0, end = A*B} : tile<[A*B], i32>
    %i = add %b, %r : tile<[A*B], i32>
    %e = splat %n {shape = [A*B]} : tile<[A*B], i32>
    %m = cmp %i, %e {pred = lt} : tile<[A*B], i1>
    %xs = splat %x {shape = [A*B]} : tile<[A*B], ptr<f32>>
    %xp = addptr %xs, %i : tile<[A*B], ptr<f32>>
    %v = load %xp, %m : tile<[A*B], f32>
    %z = math %v {fn = exp} : tile<[A*B], f32>
    %ys = splat %y {shape = [A*B]} : tile<[A*B], ptr<f32>>
    %yp = addptr %ys, %i : tile<[A*B], ptr<f32>>
    store %yp, %z, %m
  })",
                           "blocks");
  EXPECT_TRUE(kernel) << kernel.error().message;
  return *kernel;
}

inline Machine machine() {
  return {.read_bytes_per_us = 1e4,
          .copy_bytes_per_us = 1e4,
          .cache_bytes_per_us = 1e5,
          .f32_flops_per_us = 1e5,
          .dot_flops_per_us = {{"f32", 1e5}},
          .math_per_us = 1e3,
          .launch_us = 1,
          .parallel = 2,
          .target = "cpu:simulated"};
}

inline Job blocks_job(int64_t n = 1 << 16, std::vector<dsl::SpaceAxis> axes = {}) {
  Job out{"blocks", blocks_kernel(), {}, "cpu:simulated", std::move(axes)};
  auto workload = make_workload(out.kernel, {{"n", n}});
  EXPECT_TRUE(workload) << workload.error().message;
  out.workload = *workload;
  return out;
}

// Steps of a value from another, in powers of two.
inline double steps(const Config& config, const char* name, double from) {
  return std::log2(static_cast<double>(config.at(name)) / from);
}

// Normal noise that belongs to the config, not to the launch.
inline double ruggedness(const Config& config, uint64_t seed) {
  std::mt19937_64 random(std::hash<std::string>()(to_string(config)) ^ seed * 0x9e3779b97f4a7c15u);
  return std::normal_distribution<double>()(random);
}

}  // namespace kiln::autotune::simulated
