// Batches that several machines tune together: jobs on a stream of a Redis, measurements in hashes of it, and who asked
// merges them into its records. docs/use/tuning.md, "A fleet".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kiln/autotune/batch.h"
#include "kiln/redis/access.h"

namespace kiln::autotune {

struct FleetOptions {
  redis::Access access;                      // complete()
  std::string builder;                       // the compiler's: workers of another one leave a batch alone
  Seconds poll = Seconds(0.5);               // between looks for what is new
  Seconds lease = Seconds(60);               // a job whose worker was not heard of for so long is another's
  std::vector<std::string> kinds = {"cpu"};  // of targets that a worker takes
  std::string worker;                        // its name; empty: host, process and a random number
  std::function<void(const std::string& line)> notice = {};  // what people should know: Redis is away, is back, …
};

// A job may be given to so many workers; when the last of them dies too it is given up.
inline constexpr int kFleetDeliveries = 3;

// Puts the jobs on a stream and waits until each has come back, measured by some worker, failed, or given up. Each job
// gets an equal part of the budget, however many workers there are. A Redis that goes away is waited for, and what it
// has lost is put there again. A stop withdraws the batch. Error: Redis cannot be reached at the beginning.
Result<BatchResult> run_fleet_batch(const std::vector<JobSpec>& jobs, Records& records, const BatchOptions& options,
                                    const FleetOptions& fleet, const BatchProgress& progress = {},
                                    std::stop_token stop = {});

// Takes jobs, one at a time, until it is stopped; the job of that moment is given back. Each is tuned by itself: what
// is measured does not depend on which jobs this worker had before. A worker that has lost its lease ends the job.
// Error: Redis cannot be reached at the beginning.
Result<void> work_for_fleet(Compiler& compiler, const StartRunner& start_runner, Records& records,
                            const FleetOptions& fleet, std::stop_token stop);

}  // namespace kiln::autotune
