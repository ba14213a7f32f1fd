// Finding the best config of one job: compile ahead, measure, race, record.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "kiln/autotune/compiler.h"
#include "kiln/autotune/model.h"
#include "kiln/autotune/records.h"
#include "kiln/autotune/runner.h"

namespace kiln::autotune {

class Shipped;  // shipped.h

enum class Search : uint8_t { kAuto, kExhaustive, kRandom, kHalving, kLocal };

struct TuneOptions {
  Search search = Search::kAuto;  // auto: transfer and the model's best, local descent, then racing of what is left
  uint64_t seed = 0;
  double share = 0.25;              // of the space that may be measured; exhaustive: all of it
  Seconds budget = Seconds::max();  // for this job
  Seconds deadline = Seconds(10);   // of one candidate's measurement
  Cache cache = Cache::kCold;
  Bucket bucket = Bucket::kExact;
  bool frozen = false;               // never measure: what records say, else what ships, else the default
  const Shipped* shipped = nullptr;  // outlives the search; null: nothing ships
};

struct Job {
  std::string name;  // for people: "matmul bf16 4096x4096x4096"
  dsl::Kernel kernel;
  Workload workload;
  std::string target;                // resolved
  std::vector<dsl::SpaceAxis> axes;  // in place of the kernel's space
};

// What the records know a job's measurements by: the canonical kernel with the workload's fixed constexprs, the bucket,
// where they hold, and that caches were hot where they were.
Result<RecordKey> record_key(const Job& job, const std::string& hardware, const std::string& builder,
                             const TuneOptions& options);

// A config as the search left it.
struct Candidate {
  Config config;
  Record record;
  bool measured = false;  // in this run; else reused from the records
};

// What wall time went into, in seconds: waiting for compiles, making inputs, loading candidates, measuring them,
// keeping records, and all else.
struct Spent {
  double compiles = 0, inputs = 0, loads = 0, measurements = 0, records = 0, other = 0;
};

struct JobResult {
  std::string name;
  RecordKey key;
  std::vector<Candidate> candidates;  // valid ones by median, then those that failed
  Config best, fallback;              // what to ship; the default
  double best_us = 0, default_us = 0;
  Roofline roof;
  size_t space = 0, measured = 0, reused = 0, failed = 0, pruned = 0;
  double correlation = 0;                              // of model and measurement, by rank
  std::vector<std::pair<size_t, double>> convergence;  // measurements so far, best median so far
  bool finished = false;                               // false: the budget or a stop ended it
  double active_seconds = 0;                           // since the first artifact
  double device_seconds = 0;                           // how long the device has worked of them, as it says itself
  double busy_share = 0;
  Spent spent;
};

// Told of every event; called on the thread that tunes.
struct Progress {
  std::function<void(const std::string& job, const Record&)> measured = {};
  std::function<void(const JobResult& so_far)> advanced = {};
};

// The calling thread tunes. Measurements are in the records as soon as they are made, so that a run that ends anywhere
// repeats none. Error: the kernel has no valid config, the default cannot be measured, or no runner is to be had.
Result<JobResult> tune(const Job& job, Compiler& compiler, Runner& runner, Records& records, const Machine& machine,
                       const TuneOptions& options, const Progress& progress = {}, std::stop_token stop = {});

// What tune() would compile first, the default and a few others; none where it has nothing to measure.
Result<std::vector<Config>> first_configs(const Job& job, Compiler& compiler, Runner& runner, Records& records,
                                          const Machine& machine, const TuneOptions& options);

// The roofs of the runner's device: from the records' file, else measured now and kept there. Error: also at a stop,
// and kDeadlineExceeded where measuring takes longer than `budget`.
Result<Machine> calibrate(Compiler& compiler, Runner& runner, Records& records, std::stop_token stop = {},
                          Seconds budget = Seconds::max());

}  // namespace kiln::autotune
