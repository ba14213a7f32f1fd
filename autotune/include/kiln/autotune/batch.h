// Many jobs, one after the other: a device each target, one budget, and what came of them.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "kiln/autotune/jobs.h"
#include "kiln/autotune/tune.h"

namespace kiln::autotune {

struct BatchOptions {
  TuneOptions tune;  // but for its budget: each job's is a share of the batch's
  Seconds budget = Seconds::max();
  std::vector<std::string> targets = {"cpu"};  // of jobs that name none
  // Jobs whose search finished are taken from the records as they are, the others go on. Without it each search is gone
  // through again, which measures what the records do not have.
  bool resume = false;
};

enum class JobState : uint8_t { kWaiting, kRunning, kDone, kFailed, kStopped };

struct JobOutcome {
  std::string name, place;
  std::string target;  // resolved as soon as the job begins
  std::string device;  // "NVIDIA H200"; as soon as the job begins
  size_t spec = 0;     // the number of its JobSpec
  JobState state = JobState::kWaiting;
  std::optional<JobResult> result;  // of a job that is done, and of one that runs or was stopped: what it has so far
  std::string error;
  double seconds = 0;
};

struct BatchResult {
  std::vector<JobOutcome> jobs;
  size_t measured = 0, reused = 0, failed = 0;  // configs, over all jobs
  bool out_of_budget = false, stopped = false;
  double seconds = 0;
  double busy_share = 0;  // of the time since the first artifact, how much a device worked, by what runners say
  Spent spent;            // of all jobs
  std::vector<std::string> notes;

  size_t count(JobState state) const;
  // The sums over all jobs, from the jobs as they are.
  void add_up();
};

// Told on the thread that runs the batch; `job` is the index of the one that changed.
struct BatchProgress {
  std::function<void(const BatchResult& so_far, size_t job)> changed = {};
  std::function<void(const BatchResult& so_far, size_t job, const Record&)> measured = {};
};

// A runner of a kind: "cpu", "cuda", "amd".
using StartRunner = std::function<Result<std::unique_ptr<Runner>>(const std::string& kind)>;

// A job that fails costs itself only. When the budget ends, the job that runs has what it has, and those that did not
// begin have what the records say, or the default. A stop ends the running job after its measurement, and begins no
// other.
BatchResult run_batch(const std::vector<JobSpec>& jobs, Compiler& compiler, const StartRunner& start_runner,
                      Records& records, const BatchOptions& options, const BatchProgress& progress = {},
                      std::stop_token stop = {});

}  // namespace kiln::autotune
