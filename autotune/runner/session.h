// One kernel with its inputs on a device, and the candidates that are loaded.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <span>
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
  std::vector<double> us = {};  // where it was measured
};

class Session {
 public:
  explicit Session(MeasuredDevice& device) : device_(device) {}
  ~Session() { settle(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Makes the inputs; forgets the candidates of before.
  Result<void> begin(dsl::Kernel kernel, const Workload& workload, Cache cache);
  // Loads the candidate, runs it once and compares its outputs with the first valid candidate's: at once where the host
  // is the device, else beside what comes next.
  Result<Outcome> load(CandidateId id, const Artifact& artifact);
  // So many times, one after the other. Error: no such candidate.
  Result<Outcome> measure(CandidateId id, int times);
  // What is loaded has been compared. A candidate whose outputs differ is none any more.
  void settle();
  // Of a candidate whose outputs differ; empty of others.
  std::string difference(CandidateId id) const;
  void unload(CandidateId id);
  // How many times of one candidate may stand together in a measurement of several.
  int times_together() const { return device_.apart_from_host() ? 8 : 1; }
  double worked_us() const { return device_.worked_us(); }
  const std::string& kernel_name() const { return kernel_.name; }

 private:
  struct Loaded {
    UntypedFunction function;
    int launches = 1;  // for a time that can be measured
  };
  // Bytes that are written before they are read.
  struct HostArray {
    std::unique_ptr<std::byte[]> data;
    size_t size = 0, room = 0;

    std::span<std::byte> resized(size_t bytes);
    std::span<const std::byte> bytes() const { return {data.get(), size}; }
  };
  using Outputs = std::map<size_t, HostArray>;  // by parameter

  Result<void> make_arrays(const Workload& workload);
  // What stands behind a pointer that is read: the values of a file, or random ones.
  Result<void> write_input(size_t param, const Workload& workload);
  Result<void> reset_arrays();
  Result<void> read_outputs();
  std::string compare_outputs() const;
  Result<int> launches_for(const UntypedFunction& function);

  MeasuredDevice& device_;
  dsl::Kernel kernel_;
  Cache cache_ = Cache::kCold;
  dsl::ElementType rounding_ = dsl::ElementType::kF64;
  std::vector<ParamUse> use_;
  std::vector<Argument> arguments_;
  std::vector<size_t> array_of_;  // by parameter; of scalars no matter
  // Of the first valid candidate, where there is one, and of the last one that was loaded. Their memory is kept from
  // kernel to kernel, for new memory takes longer than what is put into it.
  Outputs first_, last_;
  bool has_first_ = false;
  std::map<CandidateId, Loaded> loaded_;
  std::map<CandidateId, std::string> different_;  // what differs
  CandidateId comparing_ = 0;
  std::future<std::string> comparison_;  // of last_, where there is one
};

}  // namespace kiln::autotune
