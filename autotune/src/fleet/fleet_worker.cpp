// One job at a time: taken, tuned as a batch of its own, answered. Its lease is kept by a thread beside it.
#include <unistd.h>

#include "fleet/fleet_lease.h"
#include "fleet/fleet_lines.h"
#include "fleet/fleet_records.h"
#include "fleet/fleet_store.h"
#include "fleet/fleet_waiting.h"

namespace kiln::autotune {
namespace {

class FleetWorker {
 public:
  FleetWorker(Compiler& compiler, const StartRunner& start_runner, Records& records, const FleetOptions& options,
              std::stop_token stop)
      : compiler_(compiler),
        start_runner_(start_runner),
        records_(records),
        options_(options),
        stop_(std::move(stop)),
        store_(options_),
        away_(options_) {}

  Result<void> run() {
    if (auto there = store_.ping(); !there) return there;
    while (!stop_.stop_requested()) {
      auto claim = next();
      if (away_.saw(claim ? Result<void>() : claim.error()) && *claim)
        work(**claim);
      else
        wait_for(options_.poll, stop_);
    }
    return {};
  }

 private:
  Result<std::optional<FleetClaim>> next() {
    for (const std::string& kind : options_.kinds) {
      auto claim = store_.claim(kind);
      if (!claim || *claim) return claim;
    }
    return std::optional<FleetClaim>();
  }

  void work(const FleetClaim& claim) {
    auto order = claim.order ? parse_order(*claim.order) : Result<FleetOrder>(claim.order.error());
    if (!order) {
      JobOutcome refused;
      refused.state = JobState::kFailed;
      refused.error = "the job cannot be read: " + order.error().message;
      return answer(claim, refused, false);
    }
    say(order->job.name + ": begins" +
        (claim.delivery > 1 ? ", taken over (" + std::to_string(claim.delivery) + ")" : std::string()));
    std::stop_source job;
    const std::stop_callback outer(stop_, [&job] { job.request_stop(); });
    const BatchResult batch = tune(claim, *order, job);
    const JobOutcome& outcome = batch.jobs.front();
    // What failed because everything ends here is for another worker.
    if (outcome.state == JobState::kFailed) wait_for(options_.poll, stop_);
    const bool failed = outcome.state == JobState::kFailed && !stop_.stop_requested();
    if (outcome.state == JobState::kDone || failed) {
      answer(claim, outcome, batch.out_of_budget);
    } else if (stop_.stop_requested()) {
      say(order->job.name + ": given back");
      (void)store_.give_back(claim);
    } else {
      say(order->job.name + ": the lease was lost, another has it");
    }
  }

  BatchResult tune(const FleetClaim& claim, const FleetOrder& order, const std::stop_source& job) {
    FleetLease lease(options_, claim, job);
    FleetRecords records(
        records_,
        [this](const RecordKey& key) {
          auto known = store_.records(key);
          return known ? std::move(*known) : std::vector<Record>();
        },
        [&lease](const Record& record) { lease.publish(record); });
    return run_batch({order.job}, compiler_, start_runner_, records, order.options, {}, job.get_token());
  }

  // Until Redis has it: hours of measurements are not lost because it was away for a moment.
  void answer(const FleetClaim& claim, const JobOutcome& outcome, bool out_of_budget) {
    const std::string text = to_text(outcome, out_of_budget, store_.worker());
    do {
      auto done = try_answer(claim, outcome, text);
      if (away_.saw(done ? Result<void>() : done.error())) {
        const std::string end = outcome.state == JobState::kDone ? "done" : "failed: " + outcome.error;
        return say(outcome.name + ": " + (*done ? end : "another was faster"));
      }
      wait_for(options_.poll, stop_);
    } while (!stop_.stop_requested());
  }

  // All records before the outcome that speaks of them.
  Result<bool> try_answer(const FleetClaim& claim, const JobOutcome& outcome, const std::string& text) {
    if (outcome.result) {
      auto all = records_.all(outcome.result->key);
      if (!all) return all.error();
      for (const Record& record : *all) {
        if (auto done = store_.publish(record); !done) return done.error();
      }
    }
    // Whoever has it now finds these records, and has little left to do.
    auto ours = store_.renew(claim);
    return ours && *ours ? store_.finish(claim, text) : ours;
  }

  void say(const std::string& line) const {
    if (options_.notice) options_.notice(line);
  }

  Compiler& compiler_;
  const StartRunner& start_runner_;
  Records& records_;
  const FleetOptions options_;
  const std::stop_token stop_;
  FleetStore store_;
  FleetAway away_;
};

}  // namespace

Result<void> work_for_fleet(Compiler& compiler, const StartRunner& start_runner, Records& records,
                            const FleetOptions& fleet, std::stop_token stop) {
  FleetOptions options = fleet;
  if (options.worker.empty()) options.worker = fleet_worker_name();
  return FleetWorker(compiler, start_runner, records, options, std::move(stop)).run();
}

}  // namespace kiln::autotune
