// What a fleet has in Redis, and every command it needs. Not thread-safe: one connection.
//
//   kiln:tune:1:open:<tag>           set: the open batches of a builder and kind of target, for those who share the key
//   kiln:tune:1:batch:<batch>        stream: a job each, with the consumer group `workers`
//   kiln:tune:1:batch:<batch>:done   hash: a job's number → its outcome, written once
//   kiln:tune:1:batch:<batch>:taken  hash: a job's number and delivery → the worker
//   kiln:tune:1:records:<tag>        hash, of a kernel and hardware: one record each
//   kiln:tune:1:dead                 stream: jobs that were given up, for people
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kiln/autotune/fleet.h"
#include "kiln/autotune/records.h"
#include "kiln/redis/link.h"
#include "kiln/redis/sealed.h"

namespace kiln::autotune {

struct FleetJob {
  size_t number = 0;  // in its batch
  std::string order;  // what is to be done (fleet_lines.h)
};

// A job that this worker holds.
struct FleetClaim {
  std::string batch, entry;  // of the stream
  size_t number = 0;
  int delivery = 1;
  Result<std::string> order = std::string();  // error: it was changed on the way
};

// Errors: kUnavailable where Redis cannot be reached or refuses; kNotFound where it does not have the batch.
class FleetStore {
 public:
  // Borrows the options.
  explicit FleetStore(const FleetOptions& options);

  Result<void> ping();

  // ---- who asks

  // Replaces what was there of the batch; workers see all of it or nothing.
  Result<void> open_batch(const std::string& batch, const std::string& kind, const std::vector<FleetJob>& jobs);
  // Whether Redis still has it; it then keeps it for another while.
  Result<bool> renew_batch(const std::string& batch, const std::string& kind);
  Result<void> close_batch(const std::string& batch, const std::string& kind);
  Result<std::vector<size_t>> finished_jobs(const std::string& batch);
  Result<std::string> outcome(const std::string& batch, size_t number);

  // ---- who works

  // A job whose worker is gone, else a new one; none: there is nothing to do. One that was delivered too often is given
  // up here.
  Result<std::optional<FleetClaim>> claim(const std::string& kind);
  // False: it is another's by now, or was withdrawn.
  Result<bool> renew(const FleetClaim& claim);
  // The first outcome of a job counts. False: there was one.
  Result<bool> finish(const FleetClaim& claim, const std::string& outcome);
  // For others, at once, as if it had never been delivered.
  Result<void> give_back(const FleetClaim& claim);

  // ---- measurements

  Result<std::vector<Record>> records(const RecordKey& key);
  Result<void> publish(const Record& record);

  const std::string& worker() const { return worker_; }

 private:
  Result<redis::Reply> ask(std::vector<std::string> words);
  Result<std::optional<FleetClaim>> claim_of(const std::string& batch);
  Result<std::optional<FleetClaim>> take_over(const std::string& batch);
  Result<std::optional<FleetClaim>> take_new(const std::string& batch);
  Result<FleetClaim> delivered(const std::string& batch, const redis::Reply& entry, int delivery);
  Result<void> bury(const FleetClaim& claim);
  std::string open_name(const std::string& kind) const;
  std::string records_name(const RecordKey& key) const;
  Result<std::string> seal(const std::string& name, const std::string& text) const;
  Result<std::string> unseal(const std::string& name, const std::string& value) const;

  const FleetOptions& options_;
  const std::string worker_;
  const redis::Sealer sealer_;
  redis::Link link_;
};

// "host:pid:random"
std::string fleet_worker_name();
std::string random_hex();

}  // namespace kiln::autotune
