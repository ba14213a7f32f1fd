// One job: list the space, take what the records have, then try configs in groups. A group is compiled, loaded, and
// raced against the champion; what was measured is in the records at every look. At the end those that are close race
// once more, and the winner has to beat the default in rounds of their own.
#include "kiln/autotune/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "kiln/dsl/config.h"
#include "race.h"
#include "search.h"
#include "tune_entries.h"

namespace kiln::autotune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kScreenRounds = 15, kFinalRounds = 60, kConfirmRounds = 200;
constexpr size_t kFinalists = 8;
constexpr double kClose = 1.05;  // times the champion's: a finalist
constexpr size_t kTransferred = 3;

// A refusal of this kernel and config, which another try would meet too; else the service is in trouble.
bool is_verdict(ErrorCode code) {
  using enum ErrorCode;
  for (ErrorCode verdict :
       {kInvalidArgument, kVerifyFailed, kCompileFailed, kWorkerCrashed, kPoisoned, kOutOfMemory, kDeadlineExceeded}) {
    if (code == verdict) return true;
  }
  return false;
}

class Session {
 public:
  Session(const Job& job, Compiler& compiler, Runner& runner, Records& records, const Machine& machine,
          const TuneOptions& options, const Progress& progress, std::stop_token stop)
      : job_(job),
        compiler_(compiler),
        runner_(runner),
        records_(records),
        machine_(machine),
        options_(options),
        progress_(progress),
        stop_(std::move(stop)) {}

  Result<JobResult> run() {
    if (auto done = prepare(); !done) return done.error();
    if (options_.frozen || !anything_open()) return known_result();
    if (auto done = measure_default(); !done) return done.error();
    if (auto done = search(); !done) return done.error();
    if (over()) return unfinished_result();
    if (auto done = final_race(); !done) return done.error();
    if (over()) return unfinished_result();
    return confirm();
  }

 private:
  // ---- what there is

  Result<void> prepare() {
    auto key = record_key(job_, runner_.info().fingerprint, compiler_.builder_id(), options_);
    if (!key) return key.error();
    key_ = *key;
    auto space = space_for(job_.kernel, job_.target, job_.axes);
    if (!space) return space.error();
    space_ = *space;
    auto entries = list_entries(job_, space_, machine_, options_.search);
    if (!entries) return entries.error();
    entries_ = std::move(*entries);
    if (auto added = add_records(key_, records_, entries_); !added) return added;
    auto best = records_.best(key_);
    if (!best) return best.error();
    known_best_ = *best;
    if (known_best_ && options_.search != Search::kExhaustive) pass_over(*known_best_, space_, entries_);
    auto neighbours = records_.neighbours(key_);
    if (!neighbours) return neighbours.error();
    for (const Record& record : *neighbours) {
      if (transferred_.size() < kTransferred) transferred_.push_back(record.config);
    }
    limit_ = search_limit(options_.search, options_.share, entries_.size());
    // A search that finished had its share; of what is new since then, this one has.
    if (known_best_) limit_ = tried() + search_limit(options_.search, options_.share, open());
    champion_ = best_measured();
    return {};
  }

  bool anything_open() const { return !known_best_ || open() > 0; }
  size_t open() const {
    return std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.open(); });
  }

  // The measured entry of the lowest median; the default where there is none.
  size_t best_measured() const {
    size_t best = 0;
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (!entries_[i].measured()) continue;
      if (!entries_[best].measured() || entries_[i].record->median_us < entries_[best].record->median_us) best = i;
    }
    return best;
  }

  // ---- the end of a run

  JobResult result() const {
    JobResult out = make_result(job_, key_, entries_);
    out.roof = roofline(machine_, entries_.front().work);
    out.convergence = convergence_;
    const double elapsed = first_artifact_ ? Seconds(Clock::now() - *first_artifact_).count() : 0;
    out.busy_share = elapsed > 0 ? std::min(1.0, busy_.count() / elapsed) : 0;
    return out;
  }

  // Nothing is to be measured: what the records chose, else the default.
  JobResult known_result() const {
    JobResult out = result();
    out.finished = known_best_.has_value();
    for (const Entry& entry : entries_) {
      if (!known_best_ || entry.config != known_best_->config) continue;
      out.best = entry.config;
      out.best_us = known_best_->median_us;
    }
    return out;
  }

  // What is better than the default for certain, by intervals that do not overlap.
  JobResult unfinished_result() const {
    JobResult out = result();
    const Entry& best = entries_[best_measured()];
    if (best.measured() && entries_[0].measured() && best.record->high_us < entries_[0].record->low_us) {
      out.best = best.config;
      out.best_us = best.record->median_us;
    }
    return out;
  }

  bool on_cpu() const { return dsl::target_family(job_.target) == "cpu"; }

  bool over() const { return stop_.stop_requested() || Clock::now() - start_ >= options_.budget; }

  // ---- compiling and loading

  struct Flight {
    size_t entry;
    std::future<Result<Artifact>> artifact;
  };

  std::vector<Flight> compile(const std::vector<size_t>& chosen) {
    std::vector<Flight> out;
    for (size_t i : chosen) {
      entries_[i].proposed = true;
      if (entries_[i].artifact) continue;
      out.push_back(
          {i, compiler_.compile(job_.kernel, job_.target, entries_[i].config, facts_of(job_.kernel, job_.workload))});
    }
    return out;
  }

  Result<void> receive(std::vector<Flight>& flights) {
    for (Flight& flight : flights) {
      Entry& entry = entries_[flight.entry];
      auto artifact = flight.artifact.get();
      if (!artifact && !is_verdict(artifact.error().code)) return artifact.error();
      if (!artifact) {
        if (auto put = put_failure(entry, {Failure::kCompile, artifact.error().message}); !put) return put;
        continue;
      }
      if (!first_artifact_) first_artifact_ = Clock::now();
      entry.artifact = std::move(*artifact);
      entry.predicted_us = predict_us(machine_, entry.work, entry.config, &entry.artifact->metadata);
      const std::string reason = flight.entry == 0 ? "" : prune_reason(entry.artifact->metadata);
      if (reason.empty()) continue;
      entry.pruned = reason;
      if (auto put = put_failure(entry, {Failure::kResources, reason}); !put) return put;
    }
    return {};
  }

  // Error where no runner is to be had; what befalls the candidate is in its record.
  Result<void> load(size_t i) {
    Entry& entry = entries_[i];
    if (entry.loaded || !entry.artifact) return {};
    const auto start = Clock::now();
    auto status = runner_.load(static_cast<CandidateId>(i), entry.config, *entry.artifact, options_.deadline);
    busy_ += Clock::now() - start;
    if (!status) return status.error();
    entry.loaded = status->failure == Failure::kNone;
    return entry.loaded ? Result<void>() : put_failure(entry, *status);
  }

  // Compiled and loaded, where that can be done.
  Result<void> make_ready(const std::vector<size_t>& chosen) {
    std::vector<Flight> flights = compile(chosen);
    if (auto done = receive(flights); !done) return done;
    for (size_t i : chosen) {
      if (auto done = load(i); !done) return done;
    }
    return {};
  }

  void drop(size_t i) {
    if (i == 0 || !entries_[i].loaded) return;
    runner_.unload(static_cast<CandidateId>(i));
    entries_[i].loaded = false;
    entries_[i].artifact.reset();
  }

  // ---- records

  Result<void> put(Entry& entry, Record record) {
    record.is_default = &entry == &entries_.front();
    entry.fresh |= !entry.record;
    entry.record = std::move(record);
    if (auto done = records_.put(*entry.record); !done) return done;
    if (progress_.measured) progress_.measured(job_.name, *entry.record);
    return {};
  }

  Result<void> put_failure(Entry& entry, const CandidateStatus& status) {
    Record record = make_record(job_, key_, entry);
    record.failure = status.failure;
    record.message = status.message;
    return put(entry, std::move(record));
  }

  // The standing of a race. A record of more samples is kept; one without new samples too.
  Result<void> put_lanes(const std::vector<Lane>& lanes) {
    for (const Lane& lane : lanes) {
      Entry& entry = entries_[lane.id];
      if (!lane.ok()) {
        if (entry.measured() || !entry.record) {
          if (auto done = put_failure(entry, lane.status); !done) return done;
        }
        entry.loaded = false;
        continue;
      }
      const MedianInterval times = median_interval(lane.us);
      if (times.samples == 0 || (entry.measured() && entry.record->samples >= times.samples)) continue;
      Record record = make_record(job_, key_, entry);
      record.median_us = times.median;
      record.low_us = times.low;
      record.high_us = times.high;
      record.samples = times.samples;
      if (auto done = put(entry, std::move(record)); !done) return done;
    }
    return {};
  }

  // ---- measuring

  Result<std::vector<Lane>> run_race(const std::vector<size_t>& chosen, RaceOptions options) {
    std::vector<Lane> lanes;
    for (size_t i : chosen) {
      const Entry& entry = entries_[i];
      if (!entry.loaded || std::any_of(lanes.begin(), lanes.end(), [&](const Lane& lane) { return lane.id == i; }))
        continue;
      lanes.push_back({.id = static_cast<CandidateId>(i),
                       .possible_us = possible_us(machine_, entry.work),
                       .expected_us = entry.predicted_us});
    }
    options.deadline = options_.deadline;
    options.stop = [this] { return over(); };
    options.looked = [this](const std::vector<Lane>& standing) { return put_lanes(standing); };
    // On a CPU nobody compiles meanwhile, other jobs neither.
    if (on_cpu()) compiler_.hold();
    const auto start = Clock::now();
    auto done = race(runner_, lanes, options);
    busy_ += Clock::now() - start;
    if (on_cpu()) compiler_.release();
    if (!done) return done.error();
    return lanes;
  }

  Result<void> measure_default() {
    if (auto begun = runner_.begin(job_.kernel, job_.workload, options_.cache); !begun) return begun;
    Entry& entry = entries_.front();
    // It is the first that is loaded: what the others' outputs are compared with.
    if (!entry.record || entry.measured()) {
      if (auto done = make_ready({0}); !done) return done;
    }
    if (entry.loaded && !entry.record) {
      if (auto lanes = run_race({0}, {}); !lanes) return lanes.error();
    }
    if (entry.measured()) {
      note_progress();
      return {};
    }
    if (over() && !entry.record) return {};
    return error(ErrorCode::kCompileFailed, "the default config " + to_string(entry.config) + " of " + job_.name +
                                                " cannot be measured: " + (entry.record ? entry.record->message : ""));
  }

  size_t tried() const {
    return std::count_if(entries_.begin(), entries_.end(),
                         [](const Entry& entry) { return entry.record || entry.proposed; });
  }

  std::vector<size_t> next_group() const {
    std::vector<Config> configs;
    std::vector<double> predicted, measured;
    std::vector<char> open;
    for (const Entry& entry : entries_) {
      configs.push_back(entry.config);
      predicted.push_back(entry.predicted_us);
      measured.push_back(entry.measured() ? entry.record->median_us : entry.record ? INFINITY : std::nan(""));
      open.push_back(entry.open() ? 1 : 0);
    }
    const Standing standing{space_, configs, predicted, measured, open, champion_, tried(), limit_, transferred_};
    return propose(options_.search, standing, options_.seed, std::clamp<size_t>(limit_ / 5, 2, 6));
  }

  // On a GPU the next group compiles while one is measured. On a CPU that would disturb the measurement.
  Result<void> search() {
    const bool ahead = !on_cpu();
    std::vector<size_t> next = next_group();
    std::vector<Flight> flights = compile(next);
    while (!next.empty() && !over()) {
      const std::vector<size_t> group = std::move(next);
      std::vector<Flight> compiling = std::move(flights);
      if (ahead) {
        next = next_group();
        flights = compile(next);
      }
      if (auto done = receive(compiling); !done) return done;
      if (auto done = try_group(group); !done) return done;
      if (!ahead) {
        next = next_group();
        flights = compile(next);
      }
    }
    return {};
  }

  Result<void> try_group(const std::vector<size_t>& group) {
    for (size_t i : group) {
      if (auto done = load(i); !done) return done;
    }
    std::vector<size_t> chosen = group;
    std::erase_if(chosen, [&](size_t i) { return !entries_[i].loaded; });
    if (chosen.empty()) return {};
    if (auto done = make_ready({champion_}); !done) return done;
    chosen.insert(chosen.begin(), champion_);
    auto lanes = run_race(chosen, {.rounds = kScreenRounds, .halve = options_.search == Search::kHalving});
    if (!lanes) return lanes.error();
    if (const Lane* first = leader(*lanes)) champion_ = first->id;
    if (!entries_[champion_].measured()) champion_ = best_measured();
    for (size_t i : chosen) {
      if (i != champion_) drop(i);
    }
    note_progress();
    return {};
  }

  void note_progress() {
    JobResult so_far = result();
    so_far.best = entries_[champion_].config;
    so_far.best_us = entries_[champion_].record->median_us;
    if (convergence_.empty() || convergence_.back().first < so_far.measured) {
      convergence_.emplace_back(so_far.measured, so_far.best_us);
      so_far.convergence = convergence_;
    }
    if (progress_.advanced) progress_.advanced(so_far);
  }

  // ---- the decision

  // Those whose time may be the champion's, the fastest first.
  std::vector<size_t> finalists() const {
    std::vector<size_t> out;
    const double close = kClose * entries_[champion_].record->median_us;
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].measured() && entries_[i].record->median_us <= close) out.push_back(i);
    }
    std::sort(out.begin(), out.end(),
              [&](size_t a, size_t b) { return entries_[a].record->median_us < entries_[b].record->median_us; });
    out.resize(std::min(out.size(), kFinalists));
    return out;
  }

  Result<void> final_race() {
    const std::vector<size_t> chosen = finalists();
    if (chosen.size() < 2) return {};
    if (auto done = make_ready(chosen); !done) return done;
    auto lanes = run_race(chosen, {.rounds = kFinalRounds});
    if (!lanes) return lanes.error();
    if (const Lane* first = leader(*lanes)) champion_ = first->id;
    return {};
  }

  // The champion ships where it is faster than the default, with 99 % confidence in rounds that did not choose it.
  Result<JobResult> confirm() {
    size_t best = 0;
    double default_us = entries_[0].record->median_us, best_us = default_us;
    if (champion_ != 0 && entries_[champion_].measured()) {
      if (auto done = make_ready({0, champion_}); !done) return done.error();
      auto lanes = run_race({0, champion_}, {.rounds = kConfirmRounds});
      if (!lanes) return lanes.error();
      if (over()) return unfinished_result();
      if (lanes->size() == 2 && (*lanes)[0].ok() && (*lanes)[1].ok()) {
        default_us = best_us = median((*lanes)[0].us);
        if (compare((*lanes)[0], (*lanes)[1]).verdict() == Verdict::kFaster) {
          best = champion_;
          best_us = median((*lanes)[1].us);
        }
      }
    }
    if (auto done = choose(best); !done) return done.error();
    JobResult out = result();
    out.best = entries_[best].config;
    out.best_us = best_us;
    out.default_us = default_us;
    out.finished = true;
    return out;
  }

  Result<void> choose(size_t best) {
    Record record = *entries_[best].record;
    record.figures.update(axes_to_json(space_, known_best_ ? known_best_->figures : nlohmann::json::object()));
    entries_[best].record = record;
    if (auto done = records_.put(record); !done) return done;
    return records_.set_best(key_, entries_[best].config);
  }

  const Job& job_;
  Compiler& compiler_;
  Runner& runner_;
  Records& records_;
  const Machine& machine_;
  const TuneOptions& options_;
  const Progress& progress_;
  std::stop_token stop_;
  const Clock::time_point start_ = Clock::now();

  RecordKey key_;
  Space space_;
  std::vector<Entry> entries_;  // the default first
  std::optional<Record> known_best_;
  std::vector<Config> transferred_;
  size_t limit_ = 0, champion_ = 0;
  std::vector<std::pair<size_t, double>> convergence_;
  std::optional<Clock::time_point> first_artifact_;
  Seconds busy_ = Seconds(0);
};

}  // namespace

Result<JobResult> tune(const Job& job, Compiler& compiler, Runner& runner, Records& records, const Machine& machine,
                       const TuneOptions& options, const Progress& progress, std::stop_token stop) {
  return Session(job, compiler, runner, records, machine, options, progress, std::move(stop)).run();
}

}  // namespace kiln::autotune
