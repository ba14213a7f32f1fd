#include "fleet/fleet_lease.h"

#include "kiln/wire/crash_report.h"

namespace kiln::autotune {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

FleetLease::FleetLease(const FleetOptions& options, const FleetClaim& claim, std::stop_source lost)
    : options_(options),
      claim_(claim),
      lost_(std::move(lost)),
      store_(options),
      thread_(wire::reporting([this](const std::stop_token& stop) { run(stop); })) {}

FleetLease::~FleetLease() = default;

void FleetLease::publish(const Record& record) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(record);
  }
  wake_.notify_one();
}

void FleetLease::run(const std::stop_token& stop) {
  const auto period = options_.lease / 3;
  Seconds since_renewal = Seconds(0);
  auto last = Clock::now();
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, period - since_renewal, [this] { return !waiting_.empty(); });
    }
    if (stop.stop_requested()) return;
    publish_waiting();
    since_renewal = Clock::now() - last;
    if (since_renewal < period) continue;
    last = Clock::now();
    since_renewal = Seconds(0);
    // Where Redis cannot be asked, the job goes on: it may be back before the lease is over.
    auto ours = store_.renew(claim_);
    if (ours && !*ours) {
      lost_.request_stop();
      return;
    }
  }
}

void FleetLease::publish_waiting() {
  std::deque<Record> records;
  {
    std::lock_guard lock(mutex_);
    records.swap(waiting_);
  }
  for (const Record& record : records) {
    if (!store_.publish(record)) return;
  }
}

}  // namespace kiln::autotune
