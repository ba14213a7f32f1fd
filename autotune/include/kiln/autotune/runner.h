// Where candidates run: an expendable process that owns one device. docs/reference/runner.md is the manual of its
// protocol.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "kiln/autotune/space.h"
#include "kiln/dsl/artifact.h"

namespace kiln::autotune {

using Seconds = std::chrono::duration<double>;
using CandidateId = uint32_t;

struct RunnerInfo {
  std::string target;       // what candidates must be compiled for: "cuda:sm_90a"; of a CPU "cpu", for the compiler's
                            // daemon knows what that is here
  std::string device;       // "NVIDIA H200", "AMD EPYC …"
  std::string fingerprint;  // of the hardware and its driver: measurements hold where it is equal
  int threads = 0;          // of a CPU: how many a launch uses
};

enum class Cache : uint8_t { kCold, kHot };  // whether inputs are pushed out of the caches between launches

// One round of a measurement: the times of one launch each, in microseconds, in the order of the candidates.
struct Round {
  std::vector<double> us;
};

// What became of a candidate that cannot be measured. The others are untouched.
enum class Failure : uint8_t { kNone, kCompile, kCrash, kHang, kResources, kWrongResult, kImpossibleTime };
const char* to_string(Failure failure);
struct CandidateStatus {
  Failure failure = Failure::kNone;
  std::string message = {};  // what happened, with the reproducer's file for a wrong result
};

// Not thread-safe: one device, one user. A process that dies or hangs is replaced, loaded anew with what was loaded
// but for the candidate that did it.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual const RunnerInfo& info() const = 0;

  // Makes the inputs; forgets the candidates of before.
  virtual Result<void> begin(const dsl::Kernel& kernel, const Workload& workload, Cache cache) = 0;
  // Loads a candidate, runs it once, and compares its outputs with those of the first that succeeded. `deadline` of the
  // whole. Error only where no runner can be had at all.
  virtual Result<CandidateStatus> load(CandidateId id, const Config& config, const Artifact& artifact,
                                       Seconds deadline) = 0;
  // `rounds` rounds over these candidates, whose order rotates between rounds against drift. A candidate that fails in
  // it has status set and the rounds go on without it (its times are NaN). `deadline` of one candidate's turn in a
  // round.
  struct Measured {
    std::vector<Round> rounds;
    std::vector<CandidateStatus> status;
  };
  virtual Result<Measured> measure(std::span<const CandidateId> ids, int rounds, Seconds deadline) = 0;
  virtual void unload(CandidateId id) = 0;
  // How long the device has worked so far, by what it says itself: launches, what goes before them, and copies.
  virtual double device_us() const { return 0; }
};

struct RunnerOptions {
  std::string executable = {};  // empty: KILN_RUNNER, else kiln-runner beside this program
  std::string kind = "cpu";     // "cpu", "cuda", "amd"
  int ordinal = 0;              // of the device
  int threads = 0;              // of a CPU; 0: all
  // Where kernels and inputs of wrong results are kept; empty: $XDG_DATA_HOME/kiln/reproducers.
  std::string reproducer_dir = {};
  // A request that takes longer than a moment is given up when this stops, with kCancelled, and its process ends.
  std::stop_token stop = {};
};
Result<std::unique_ptr<Runner>> start_runner(const RunnerOptions& options);

}  // namespace kiln::autotune
