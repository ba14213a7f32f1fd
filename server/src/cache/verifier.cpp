#include "cache/verifier.h"

#include <algorithm>

#include "kiln/wire/entry.h"
#include "kiln/wire/json.h"

namespace kiln::server {
namespace {

constexpr size_t kMaxWaiting = 16;
// Job numbers of its own, beside the scheduler's.
constexpr uint64_t kFirstJob = uint64_t{1} << 62;

}  // namespace

void Verifier::on_hit(const SharedBlob& blob) {
  if (config_.verify_percent <= 0) return;
  if (std::uniform_real_distribution<double>(0, 100)(random_) >= config_.verify_percent) return;
  if (waiting_.size() >= kMaxWaiting) {
    ++metrics_.verify_skipped;
    return;
  }
  waiting_.push_back(blob);
  pump();
}

void Verifier::pump() {
  // One at a time, and a slot stays free for those who wait for an answer.
  while (!running_ && !waiting_.empty() && pool_.has_slot() && (pool_.busy() == 0 || pool_.busy() + 1 < pool_.size())) {
    const SharedBlob blob = waiting_.front();
    waiting_.pop_front();
    auto entry = wire::decode_entry(blob->bytes);
    if (!entry || entry->request.empty()) continue;
    const uint64_t job = kFirstJob + serial_++;
    const std::string json = wire::dump({{"trace_id", "verify"}, {"key", to_hex(blob->key)}});
    auto body = std::make_shared<const Bytes>(entry->request.begin(), entry->request.end());
    const auto worker =
        pool_.run(job, json, body, 0, [this, blob](const JobOutcome& outcome) { on_outcome(blob, outcome); });
    running_ = true;
    deadline_.expires_after(config_.default_deadline);
    deadline_.async_wait([this, worker](const boost::system::error_code& cancelled) {
      if (cancelled) return;
      running_ = false;
      pool_.abort(worker);
    });
  }
}

void Verifier::on_outcome(const SharedBlob& blob, const JobOutcome& outcome) {
  deadline_.cancel();
  running_ = false;
  auto entry = wire::decode_entry(blob->bytes);
  if (!entry || outcome.kind == JobOutcome::kWorkerDied) return;  // its death is counted where deaths are
  ++metrics_.verified;
  const bool is_same = outcome.kind == JobOutcome::kArtifact &&
                       std::equal(outcome.code.begin(), outcome.code.end(), entry->code.begin(), entry->code.end());
  if (is_same) return;
  ++metrics_.verify_mismatches;
  log_.warn("verify_mismatch", {{"key", to_hex(blob->key)},
                                {"stored_bytes", entry->code.size()},
                                {"compiled_bytes", outcome.code.size()},
                                {"failure", outcome.failure.message},
                                {"reproduce", "kiln reproduce " + to_hex(blob->key)}});
}

}  // namespace kiln::server
