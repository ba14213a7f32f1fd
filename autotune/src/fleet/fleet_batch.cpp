// Who asks: a batch in Redis for each kind of target, and its outcomes taken over as they come.
#include <algorithm>
#include <map>
#include <set>

#include "fleet/fleet_lines.h"
#include "fleet/fleet_store.h"
#include "fleet/fleet_waiting.h"
#include "kiln/dsl/config.h"

namespace kiln::autotune {
namespace {

using Clock = std::chrono::steady_clock;

// Between looks at whether Redis still has the batch, which keep it there.
constexpr auto kRenew = std::chrono::seconds(5);
// After so long without a worker people are told what one needs.
constexpr auto kNobody = std::chrono::seconds(30);

// The jobs of one kind of target.
struct Part {
  std::string name;  // of the batch
  std::set<size_t> outstanding;
};

class FleetBatch {
 public:
  FleetBatch(Records& records, const BatchOptions& options, const FleetOptions& fleet, const BatchProgress& progress,
             std::stop_token stop)
      : records_(records),
        options_(options),
        fleet_(fleet),
        progress_(progress),
        stop_(std::move(stop)),
        store_(fleet_),
        away_(fleet_) {}

  Result<BatchResult> run(const std::vector<JobSpec>& specs) {
    for (const JobSpec& spec : specs) {
      if (has_file(spec.workload))
        return invalid_argument(spec.place + ": `arrays`: workers elsewhere do not have this machine's files");
    }
    if (auto there = store_.ping(); !there) return there.error();
    plan(specs);
    while (!parts_.empty() && !stop_.stop_requested()) {
      if (!away_.saw(look())) renewed_ = {};  // what it has lost meanwhile is put there again
      result_.seconds = Seconds(Clock::now() - start_).count();
      if (!parts_.empty()) wait_for(fleet_.poll, stop_);
    }
    withdraw();
    result_.notes = records_.notes();
    return std::move(result_);
  }

 private:
  void plan(const std::vector<JobSpec>& specs) {
    const std::string id = random_hex();
    for (const JobSpec& spec : specs) {
      for (const std::string& target : spec.target.empty() ? options_.targets : std::vector{spec.target}) {
        const std::string kind(dsl::target_family(target));
        Part& part = parts_[kind];
        part.name = id + "-" + kind;
        part.outstanding.insert(orders_.size());
        orders_.push_back({spec, options_});
        orders_.back().job.target = target;
        JobOutcome outcome;
        outcome.name = spec.name;
        outcome.place = spec.place;
        outcome.target = target;
        result_.jobs.push_back(std::move(outcome));
      }
    }
    if (options_.budget == Seconds::max()) return;
    for (FleetOrder& order : orders_) order.options.budget = options_.budget / static_cast<double>(orders_.size());
  }

  Result<void> look() {
    if (Clock::now() - renewed_ >= kRenew) {
      for (const auto& [kind, part] : parts_) {
        if (auto there = ensure_open(kind, part); !there) return there;
      }
      renewed_ = Clock::now();
    }
    for (auto part = parts_.begin(); part != parts_.end();) {
      if (auto taken = take_outcomes(part->second); !taken) return taken;
      const bool over = part->second.outstanding.empty();
      if (over) (void)store_.close_batch(part->second.name, part->first);
      part = over ? parts_.erase(part) : std::next(part);
    }
    mention_nobody();
    return {};
  }

  Result<void> ensure_open(const std::string& kind, const Part& part) {
    auto there = store_.renew_batch(part.name, kind);
    if (!there) return there.error();
    if (*there) return {};
    std::vector<FleetJob> jobs;
    for (size_t number : part.outstanding) jobs.push_back({number, to_text(orders_[number])});
    return store_.open_batch(part.name, kind, jobs);
  }

  Result<void> take_outcomes(Part& part) {
    auto finished = store_.finished_jobs(part.name);
    if (!finished) return finished.error();
    for (const size_t number : *finished) {
      if (!part.outstanding.contains(number)) continue;
      auto text = store_.outcome(part.name, number);
      if (!text && text.error().code == ErrorCode::kUnavailable) return text.error();
      auto outcome = text ? parse_outcome(*text) : Result<FleetOutcome>(text.error());
      if (!outcome) {
        FleetOutcome unreadable;
        unreadable.job.state = JobState::kFailed;
        unreadable.job.error = "its outcome cannot be read: " + outcome.error().message;
        outcome = std::move(unreadable);
      }
      if (auto taken = take(number, *outcome); !taken) return taken;
      part.outstanding.erase(number);
    }
    return {};
  }

  // What was measured goes into the records of this machine's user, under the hardware that it holds for.
  Result<void> take(size_t number, FleetOutcome& outcome) {
    JobOutcome& job = result_.jobs[number];
    if (outcome.job.result) {
      auto measured = store_.records(outcome.job.result->key);
      if (!measured) return measured.error();
      if (auto merged = records_.merge(*measured); !merged) return merged.error();
      attach(*measured, *outcome.job.result);
      outcome.job.result->name = job.name;
    }
    job.state = outcome.job.state;
    job.error = outcome.job.error;
    job.seconds = outcome.job.seconds;
    if (!outcome.job.target.empty()) job.target = outcome.job.target;
    job.result = std::move(outcome.job.result);
    result_.out_of_budget |= outcome.out_of_budget;
    result_.add_up();
    if (progress_.changed) progress_.changed(result_, number);
    return {};
  }

  static void attach(const std::vector<Record>& records, JobResult& result) {
    std::map<Config, const Record*> by_config;
    for (const Record& record : records) by_config.emplace(record.config, &record);
    for (Candidate& candidate : result.candidates) {
      if (auto found = by_config.find(candidate.config); found != by_config.end()) candidate.record = *found->second;
    }
  }

  void mention_nobody() {
    const bool any = result_.count(JobState::kDone) + result_.count(JobState::kFailed) > 0;
    if (mentioned_ || any || Clock::now() - start_ < kNobody || !fleet_.notice) return;
    mentioned_ = true;
    fleet_.notice("nothing has come back yet: workers (kilnd --tune-worker " + fleet_.access.url +
                  ") need the same build, the same --remote-key and a device for these targets");
  }

  void withdraw() {
    result_.stopped = stop_.stop_requested() && !parts_.empty();
    for (const auto& [kind, part] : parts_) {
      for (size_t number : part.outstanding) result_.jobs[number].state = JobState::kStopped;
      (void)store_.close_batch(part.name, kind);
    }
  }

  Records& records_;
  const BatchOptions& options_;
  const FleetOptions& fleet_;
  const BatchProgress& progress_;
  const std::stop_token stop_;
  FleetStore store_;
  FleetAway away_;
  const Clock::time_point start_ = Clock::now();
  std::vector<FleetOrder> orders_;
  std::map<std::string, Part> parts_;  // by kind
  Clock::time_point renewed_ = {};
  bool mentioned_ = false;
  BatchResult result_;
};

}  // namespace

Result<BatchResult> run_fleet_batch(const std::vector<JobSpec>& jobs, Records& records, const BatchOptions& options,
                                    const FleetOptions& fleet, const BatchProgress& progress, std::stop_token stop) {
  return FleetBatch(records, options, fleet, progress, std::move(stop)).run(jobs);
}

}  // namespace kiln::autotune
