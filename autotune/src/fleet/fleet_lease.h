// A thread beside a job: it renews the worker's lease and publishes what is measured, so that the search waits for
// neither.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <thread>

#include "fleet/fleet_store.h"

namespace kiln::autotune {

class FleetLease {
 public:
  // `lost` is stopped when the job is another's. Borrows the options and the claim.
  FleetLease(const FleetOptions& options, const FleetClaim& claim, std::stop_source lost);
  ~FleetLease();

  // Later, where Redis is away; and dropped where it is away until the end, for whoever finishes publishes all.
  void publish(const Record& record);

 private:
  void run(const std::stop_token& stop);
  void publish_waiting();

  const FleetOptions& options_;
  const FleetClaim& claim_;
  std::stop_source lost_;
  FleetStore store_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Record> waiting_;
  std::jthread thread_;
};

}  // namespace kiln::autotune
