// A compiler and a runner of a batch that need neither daemon nor device: a config's time is a formula, and what was
// asked of them is kept in a file, so that it outlives the process.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "batch_helpers.h"
#include "kiln/autotune/batch.h"

namespace kiln::autotune {

class FakeCompiler final : public Compiler {
 public:
  std::string builder_id() const override { return "builder-1"; }
  Result<std::string> resolve_target(const std::string& target) override {
    if (target.starts_with("cpu:nothing")) return invalid_argument("unknown target `" + target + "`");
    return target;
  }
  std::future<Result<Artifact>> compile(const dsl::Kernel& kernel, const std::string& target, const Config& config,
                                        const dsl::Facts&) override {
    compiled.push_back(kernel.name + " " + target + " " + to_string(config));
    std::promise<Result<Artifact>> promise;
    Artifact artifact;
    artifact.metadata.kernel = kernel.name;
    abi::Device& device = artifact.metadata.device.emplace();
    device.registers = 40;
    device.spill_bytes = 0;
    promise.set_value(std::move(artifact));
    return promise.get_future();
  }
  std::vector<std::string> compiled;
};

// How the fake device behaves.
struct FakeDevice {
  std::string kind = "cpu";
  std::function<double(const Config&)> time_us = [](const Config& config) {
    return 50 + 30 * std::abs(std::log2(static_cast<double>(config.at("BLOCK")) / 1024));
  };
  std::function<CandidateStatus(const Config&)> status = [](const Config&) { return CandidateStatus(); };
  std::chrono::microseconds pause{0};  // of one measurement
  double jitter = 1e-3;                // the steps between the times of one config
  std::string log;                     // a line for each config of each measurement
};

class FakeRunner final : public Runner {
 public:
  explicit FakeRunner(FakeDevice device) : device_(std::move(device)) {
    info_ = {device_.kind + ":fake", "a fake device", "fake/2", 2};
  }
  const RunnerInfo& info() const override { return info_; }
  Result<void> begin(const dsl::Kernel& kernel, const Workload&, Cache) override {
    kernel_ = kernel.name;
    loaded_.clear();
    return {};
  }
  Result<CandidateStatus> load(CandidateId id, const Config& config, const Artifact&, Seconds) override {
    loaded_[id] = config;
    return device_.status(config);
  }
  Result<Measured> measure(std::span<const CandidateId> ids, int rounds, Seconds) override {
    std::this_thread::sleep_for(device_.pause);
    Measured out;
    out.status.resize(ids.size());
    for (int round = 0; round < rounds; ++round, ++tick_) {
      Round times;
      for (const CandidateId id : ids)
        times.us.push_back(device_.time_us(loaded_[id]) * (1 + device_.jitter * (tick_ % 5)));
      out.rounds.push_back(std::move(times));
    }
    for (const CandidateId id : ids) note(kernel_ + " " + to_string(loaded_[id]));
    return out;
  }
  void unload(CandidateId id) override { loaded_.erase(id); }

 private:
  void note(const std::string& line) const {
    if (device_.log.empty()) return;
    const int fd = ::open(device_.log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    const std::string text = line + "\n";
    EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(fd);
  }

  FakeDevice device_;
  RunnerInfo info_;
  std::string kernel_;
  std::map<CandidateId, Config> loaded_;
  int tick_ = 0;
};

inline StartRunner fakes_of(FakeDevice device) {
  return [device](const std::string& kind) mutable -> Result<std::unique_ptr<Runner>> {
    device.kind = kind;
    return std::unique_ptr<Runner>(std::make_unique<FakeRunner>(device));
  };
}

// Records of a new file, in which the fake devices are calibrated.
inline std::unique_ptr<Records> fake_records(const std::string& path) {
  auto records = expect_ok(Records::open(path));
  Machine machine;
  machine.read_bytes_per_us = machine.copy_bytes_per_us = machine.cache_bytes_per_us = 1e6;
  machine.f32_flops_per_us = machine.math_per_us = 1e6;
  machine.dot_flops_per_us = {{"f32", 1e6}};
  machine.launch_us = 1;
  machine.target = "cpu:fake";
  expect_ok(records->put_machine("fake/2", "builder-1", to_json(machine)));
  return records;
}

// A job for each kernel name, with a space of eight blocks.
inline std::vector<JobSpec> row_jobs(const std::vector<std::string>& kernels, const std::string& target = "") {
  std::string text;
  for (const std::string& kernel : kernels) {
    text += R"({"kernel":")" + kernel + R"(","shape":{"rows":64,"cols":256)" +
            (kernel == "row_sum" || kernel == "log_softmax" || kernel == "softmax_long" ? R"(,"stride":256)" : "") +
            R"(},"space":{"BLOCK":[128,256,512,1024,2048,4096,8192,16384]})" +
            (target.empty() ? "" : R"(,"target":")" + target + "\"") + "}\n";
  }
  return expect_ok(parse_jobs(text, "jobs.jsonl"));
}

inline std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) out.push_back(line);
  return out;
}

}  // namespace kiln::autotune
