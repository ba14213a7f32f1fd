// A runner that lets others go first: before each of its turns on the device it calls `yield`, which returns when the
// turn may begin.
#pragma once

#include <functional>

#include "kiln/autotune/runner.h"

namespace kiln::autotune {

class YieldingRunner final : public Runner {
 public:
  YieldingRunner(Runner& runner, std::function<void()> yield) : runner_(runner), yield_(std::move(yield)) {}

  const RunnerInfo& info() const override { return runner_.info(); }
  Result<void> begin(const dsl::Kernel& kernel, const Workload& workload, Cache cache) override {
    yield_();
    return runner_.begin(kernel, workload, cache);
  }
  Result<CandidateStatus> load(CandidateId id, const Config& config, const Artifact& artifact,
                               Seconds deadline) override {
    yield_();
    return runner_.load(id, config, artifact, deadline);
  }
  Result<Measured> measure(std::span<const CandidateId> ids, int rounds, Seconds deadline) override {
    yield_();
    return runner_.measure(ids, rounds, deadline);
  }
  void unload(CandidateId id) override { runner_.unload(id); }

 private:
  Runner& runner_;
  const std::function<void()> yield_;
};

}  // namespace kiln::autotune
