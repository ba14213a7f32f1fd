// One kernel with its inputs on a device, and the candidates that are loaded.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device.h"
#include "kiln/dsl/artifact.h"
#include "memory_use.h"

namespace kiln::autotune {

// What became of a candidate; `device_lost`: the device is of no use to this process any more.
struct Outcome {
  CandidateStatus status;
  bool device_lost = false;
  double us = 0;  // where it was measured
};

class Session {
 public:
  explicit Session(MeasuredDevice& device) : device_(device) {}

  // Makes the inputs; forgets the candidates of before.
  Result<void> begin(dsl::Kernel kernel, const Workload& workload, Cache cache);
  // Loads the candidate, runs it once and compares its outputs with the first valid candidate's.
  Result<Outcome> load(CandidateId id, const Artifact& artifact);
  // Error: no such candidate.
  Result<Outcome> measure(CandidateId id);
  void unload(CandidateId id) { loaded_.erase(id); }

 private:
  struct Loaded {
    UntypedFunction function;
    int launches = 1;  // for a time that can be measured
  };

  Result<void> make_arrays(const Workload& workload);
  Result<void> reset_arrays();
  Result<std::string> compare_outputs();
  Result<int> launches_for(const UntypedFunction& function);

  MeasuredDevice& device_;
  dsl::Kernel kernel_;
  Cache cache_ = Cache::kCold;
  dsl::ElementType rounding_ = dsl::ElementType::kF64;
  std::vector<ParamUse> use_;
  std::vector<Argument> arguments_;
  std::vector<size_t> array_of_;                    // by parameter; of scalars no matter
  std::map<size_t, std::vector<std::byte>> first_;  // outputs of the first valid candidate, by parameter
  std::map<CandidateId, Loaded> loaded_;
};

}  // namespace kiln::autotune
