// One job: list the space, take what the records have, then try configs in groups. A group is compiled, loaded, and
// raced against the champion; what was measured is in the records from the first look on. At the end those that are
// close race once more, and the winner has to beat the default in rounds of their own. A GPU does not idle while the
// next config is compiled: champion and default are measured better meanwhile.
#include "kiln/autotune/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <map>

#include "kiln/autotune/shipped.h"
#include "kiln/dsl/config.h"
#include "runner_link/stopwatch.h"
#include "search/race.h"
#include "search/search.h"
#include "search/tune_entries.h"

namespace kiln::autotune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kScreenRounds = 15, kFinalRounds = 60, kConfirmRounds = 200;
constexpr size_t kFinalists = 8;
constexpr double kClose = 1.05;   // times the champion's: a finalist
constexpr Seconds kGpuRace(0.4);  // some hundreds of launches: enough for an interval of a percent or less
constexpr Seconds kLinger(3);     // after which more rounds tell nothing new
constexpr int kRenewed = 32;      // times the samples of a record: while a race goes on, it is renewed with so many
constexpr size_t kTransferred = 3;
constexpr size_t kGroup = 6;                            // of searches that learn nothing from a measurement
constexpr size_t kCompiledAhead = 8;                    // at least
constexpr auto kSlice = std::chrono::milliseconds(20);  // between two looks at a stop

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
    auto done = measure();
    // A stop may meet the runner in a request, which ends as an error.
    return !done && stop_.stop_requested() ? unfinished_result() : done;
  }

  Result<std::vector<Config>> first_configs() {
    if (auto done = prepare(); !done) return done.error();
    std::vector<Config> out;
    if (options_.frozen || !anything_open()) return out;
    entries_.front().proposed = true;
    out.push_back(entries_.front().config);
    for (size_t i : likely()) out.push_back(entries_[i].config);
    return out;
  }

 private:
  Result<JobResult> measure() {
    if (auto done = measure_default(); !done) return done.error();
    if (auto done = search(); !done) return done.error();
    if (over()) return unfinished_result();
    if (auto done = final_race(); !done) return done.error();
    if (over()) return unfinished_result();
    return confirm();
  }

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
    limit_ = search_limit(options_.search, options_.share, runnable());
    if (const auto choice = options_.shipped ? options_.shipped->find(key_) : std::nullopt)
      shipped_ = config_of_choice(choice->config, space_, entries_);
    if (shipped_) transferred_.push_back(*shipped_);
    auto neighbours = records_.neighbours(key_);
    if (!neighbours) return neighbours.error();
    auto away = [&](const Record& record) { return bucket_distance(record.key.bucket, key_.bucket); };
    std::stable_sort(neighbours->begin(), neighbours->end(),
                     [&](const Record& a, const Record& b) { return away(a) < away(b); });
    for (const Record& record : *neighbours) {
      if (transferred_.size() < std::min(kTransferred, limit_ / 4)) transferred_.push_back(record.config);
    }
    // A search that finished had its share; of what is new since then, this one has.
    if (known_best_) limit_ = tried() + search_limit(options_.search, options_.share, open());
    champion_ = best_measured();
    return {};
  }

  // What a golden file chose holds, whatever would be measured here.
  bool golden() const {
    return known_best_ && known_best_->golden && std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
             return entry.config == known_best_->config;
           });
  }
  bool anything_open() const { return !known_best_ || (!golden() && open() > 0); }
  size_t open() const {
    return std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.open(); });
  }

  size_t runnable() const {
    return std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.pruned.empty(); });
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
    out.spent = watch_.spent;
    out.roof = roofline(machine_, entries_.front().work);
    out.convergence = convergence_;
    if (!first_artifact_) return out;
    out.active_seconds = Seconds(Clock::now() - *first_artifact_).count();
    out.device_seconds = (runner_.device_us() - device_us_before_) * 1e-6;
    out.busy_share = std::min(1.0, out.device_seconds / out.active_seconds);
    return out;
  }

  // Nothing is to be measured: what the records chose, else what ships, else the default.
  Result<JobResult> known_result() const {
    if (!known_best_ && !shipped_ && default_failed()) return no_default();
    JobResult out = result();
    out.finished = known_best_.has_value();
    if (shipped_) out.best = *shipped_;
    for (const Entry& entry : entries_) {
      if (!known_best_ || entry.config != known_best_->config) continue;
      out.best = entry.config;
      // A golden time may be another machine's.
      const bool here = known_best_->key == key_;
      out.best_us = here ? known_best_->median_us : entry.measured() ? entry.record->median_us : 0;
    }
    return out;
  }

  // What is better than the default for certain.
  Result<JobResult> unfinished_result() const {
    if (default_failed()) return no_default();
    JobResult out = result();
    const Entry& best = entries_[best_measured()];
    if (best.measured() && entries_[0].measured() && is_certainly_faster(*best.record, *entries_[0].record)) {
      out.best = best.config;
      out.best_us = best.record->median_us;
    }
    return out;
  }

  bool default_failed() const { return entries_.front().record && !entries_.front().measured(); }

  // Of a job that has no result, since it has nothing to be compared with.
  Error no_default() const {
    const Entry& entry = entries_.front();
    return error(ErrorCode::kCompileFailed, "the default config " + to_string(entry.config) + " of " + job_.name +
                                                " cannot be measured: " + (entry.record ? entry.record->message : ""));
  }

  // Of a race. Times on a GPU cost little beside what it takes to compile and load.
  Seconds least() const { return on_cpu() ? Seconds(0) : kGpuRace; }

  bool on_cpu() const { return dsl::target_family(job_.target) == "cpu"; }

  // An infinite budget is Seconds::max(), from which nothing may be taken.
  Seconds left() const {
    return options_.budget == Seconds::max() ? Seconds::max() : Seconds(options_.budget - (Clock::now() - start_));
  }

  bool over() const { return stop_.stop_requested() || left() <= Seconds(0); }

  // ---- compiling and loading

  void compile(const std::vector<size_t>& chosen) {
    for (size_t i : chosen) {
      if (entries_[i].artifact || flights_.contains(i)) continue;
      flights_.emplace(
          i, compiler_.compile(job_.kernel, job_.target, entries_[i].config, facts_of(job_.kernel, job_.workload)));
    }
  }

  bool is_compiled(size_t i) {
    const auto flight = flights_.find(i);
    return flight == flights_.end() || flight->second.wait_for(Seconds(0)) == std::future_status::ready;
  }

  Result<void> receive(const std::vector<size_t>& chosen) {
    const Stopwatch::Turn waiting(watch_, watch_.spent.compiles);
    for (size_t i : chosen) {
      if (auto done = measure_until_compiled(i); !done) return done;
      while (!is_compiled(i)) {
        if (over()) return {};
        (void)flights_.at(i).wait_for(kSlice);
      }
      auto flight = flights_.extract(i);
      if (flight.empty()) continue;
      if (auto done = take(i, flight.mapped().get()); !done) return done;
    }
    return {};
  }

  // The device has nothing else to do, and what is chosen from is known better for it.
  Result<void> measure_until_compiled(size_t i) {
    const auto begin = Clock::now();
    auto waits = [&] { return !is_compiled(i) && Clock::now() - begin < kLinger; };
    if (on_cpu() || !entries_[champion_].loaded || !waits()) return {};
    auto lanes = run_race({champion_, 0}, {.rounds = 0, .linger = waits});
    if (!lanes) return lanes.error();
    if (!entries_[champion_].loaded) champion_ = best_measured();
    return {};
  }

  Result<void> take(size_t i, Result<Artifact> artifact) {
    Entry& entry = entries_[i];
    // On a busy machine; another run may try it again.
    if (!artifact && artifact.error().code == ErrorCode::kDeadlineExceeded && i != 0) return {};
    if (!artifact && !is_verdict(artifact.error().code)) return artifact.error();
    if (!artifact) return put_failure(entry, {Failure::kCompile, artifact.error().message});
    if (!first_artifact_) {
      first_artifact_ = Clock::now();
      device_us_before_ = runner_.device_us();
    }
    entry.artifact = std::move(*artifact);
    entry.predicted_us = predict_us(machine_, entry.work, entry.config, &entry.artifact->metadata);
    const std::string reason = i == 0 ? "" : prune_reason(entry.artifact->metadata);
    if (reason.empty()) return {};
    entry.pruned = reason;
    entry.artifact.reset();
    return put_failure(entry, {Failure::kResources, reason});
  }

  // Error where no runner is to be had; what befalls the candidate is in its record.
  Result<void> load(size_t i) {
    Entry& entry = entries_[i];
    if (entry.loaded || !entry.artifact || (entry.record && !entry.measured())) return {};
    const Stopwatch::Turn loading(watch_, watch_.spent.loads);
    auto status = runner_.load(static_cast<CandidateId>(i), entry.config, *entry.artifact, options_.deadline);
    if (!status) return status.error();
    entry.loaded = status->failure == Failure::kNone;
    return entry.loaded ? Result<void>() : put_failure(entry, *status);
  }

  // Compiled and loaded, where that can be done.
  Result<void> make_ready(const std::vector<size_t>& chosen) {
    compile(chosen);
    if (auto done = receive(chosen); !done) return done;
    for (size_t i : chosen) {
      if (auto done = load(i); !done) return done;
    }
    return {};
  }

  // What may be a finalist stays.
  void drop(size_t i) {
    if (i == 0 || !entries_[i].loaded || (!on_cpu() && is_close(i))) return;
    runner_.unload(static_cast<CandidateId>(i));
    entries_[i].loaded = false;
  }

  // ---- records

  Result<void> put(Entry& entry, Record record) {
    const Stopwatch::Turn keeping(watch_, watch_.spent.records);
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

  // The standing of a race. A record of more samples is kept; one without new samples too, and while the race goes on
  // one of nearly as many.
  Result<void> put_lanes(const std::vector<Lane>& lanes, bool at_end) {
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
      const int known = entry.measured() ? entry.record->samples : 0;
      if (times.samples <= known || (!at_end && times.samples < kRenewed * known)) continue;
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

  // Roofs that the default beats were taken of a machine that had more to do: they rule out nothing.
  double possible(const Entry& entry) const {
    const Entry& fallback = entries_.front();
    const bool beaten = fallback.measured() && fallback.record->median_us < possible_us(machine_, fallback.work);
    return &entry == &fallback || beaten ? 0 : possible_us(machine_, entry.work);
  }

  Result<std::vector<Lane>> run_race(const std::vector<size_t>& chosen, RaceOptions options) {
    std::vector<Lane> lanes;
    for (size_t i : chosen) {
      const Entry& entry = entries_[i];
      if (!entry.loaded || std::any_of(lanes.begin(), lanes.end(), [&](const Lane& lane) { return lane.id == i; }))
        continue;
      lanes.push_back(
          {.id = static_cast<CandidateId>(i), .possible_us = possible(entry), .expected_us = entry.predicted_us});
    }
    options.deadline = options_.deadline;
    options.left = left();
    options.stop = [this] { return over(); };
    options.looked = [this](const std::vector<Lane>& standing) { return put_lanes(standing, false); };
    const Stopwatch::Turn measuring(watch_, watch_.spent.measurements);
    // On a CPU nobody compiles meanwhile, other jobs neither.
    if (on_cpu()) compiler_.hold();
    auto done = race(runner_, lanes, options);
    if (on_cpu()) compiler_.release();
    if (!done) return done.error();
    if (auto kept = put_lanes(lanes, true); !kept) return kept.error();
    return lanes;
  }

  Result<void> measure_default() {
    {
      const Stopwatch::Turn making(watch_, watch_.spent.inputs);
      if (auto begun = runner_.begin(job_.kernel, job_.workload, options_.cache); !begun) return begun;
    }
    Entry& entry = entries_.front();
    // What went wrong another time may have been the machine's fault, and without a default there is no result.
    if (entry.record && !entry.measured()) entry.record.reset();
    // It is the first that is loaded: what the others' outputs are compared with.
    entry.proposed = true;
    compile({0});
    compile_ahead();
    if (auto done = make_ready({0}); !done) return done;
    if (entry.loaded && !entry.record) {
      if (auto lanes = run_race({0}, {.least = least()}); !lanes) return lanes.error();
    }
    if (entry.measured()) {
      note_progress();
      return {};
    }
    if (over() && !entry.record) return {};
    return no_default();
  }

  size_t tried() const {
    return std::count_if(entries_.begin(), entries_.end(),
                         [](const Entry& entry) { return entry.record || entry.proposed; });
  }

  // At most `count` configs, as long as no more than `limit` are tried.
  std::vector<size_t> next_group(size_t count, size_t limit) const {
    std::vector<Config> configs;
    std::vector<double> predicted, measured;
    std::vector<char> open;
    std::vector<size_t> under_way;
    for (const Entry& entry : entries_) {
      configs.push_back(entry.config);
      predicted.push_back(entry.predicted_us);
      measured.push_back(entry.measured() ? entry.record->median_us : entry.record ? INFINITY : std::nan(""));
      open.push_back(entry.open() ? 1 : 0);
      if (entry.proposed && !entry.record) under_way.push_back(configs.size() - 1);
    }
    const Standing standing{space_,    configs, predicted, measured,     open,
                            champion_, tried(), limit,     transferred_, under_way};
    return propose(options_.search, standing, options_.seed, count);
  }

  // Searches that learn go one by one.
  size_t group_size() const {
    if (options_.search == Search::kHalving) return limit_;
    return options_.search == Search::kAuto || options_.search == Search::kLocal ? 1 : kGroup;
  }

  // On a GPU what is likely to be tried next compiles while something is measured. On a CPU that would disturb the
  // measurement.
  void compile_ahead() {
    if (on_cpu()) return;
    if (tried() < limit_) compile(likely());
  }

  // To be tried next, as far as one can say before the measurements that decide about it: more than the limit has room
  // for, since a compile is no measurement.
  std::vector<size_t> likely() const {
    const size_t count = std::max({kCompiledAhead, 2 * group_size(), compiler_.at_once()});
    return next_group(count, tried() + count);
  }

  Result<void> search() {
    while (!over()) {
      const std::vector<size_t> group = next_group(group_size(), limit_);
      if (group.empty()) return {};
      for (size_t i : group) entries_[i].proposed = true;
      compile(group);
      compile_ahead();
      if (auto done = receive(group); !done) return done;
      if (over()) return {};
      if (auto done = try_group(group); !done) return done;
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
    const bool halve = options_.search == Search::kHalving;
    auto lanes = run_race(chosen, {.rounds = kScreenRounds, .halve = halve, .least = halve ? Seconds(0) : least()});
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

  // Whether its time may be the champion's.
  bool is_close(size_t i) const {
    return entries_[i].measured() && entries_[i].record->median_us <= kClose * entries_[champion_].record->median_us;
  }

  // The fastest first.
  std::vector<size_t> finalists() const {
    std::vector<size_t> out;
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (is_close(i)) out.push_back(i);
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
    auto lanes = run_race(chosen, {.rounds = kFinalRounds, .least = least()});
    if (!lanes) return lanes.error();
    if (const Lane* first = leader(*lanes)) champion_ = first->id;
    return {};
  }

  // The champion ships where it is faster than the default, with 99 % confidence in rounds that did not choose it.
  Result<JobResult> confirm() {
    if (!entries_[0].measured()) return unfinished_result();  // it failed on the way
    size_t best = 0;
    double default_us = entries_[0].record->median_us, best_us = default_us;
    if (champion_ != 0 && entries_[champion_].measured()) {
      if (auto done = make_ready({0, champion_}); !done) return done.error();
      auto lanes = run_race({0, champion_}, {.rounds = kConfirmRounds, .least = least()});
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
  Stopwatch watch_;

  RecordKey key_;
  Space space_;
  std::vector<Entry> entries_;  // the default first
  std::optional<Record> known_best_;
  std::optional<Config> shipped_;
  std::vector<Config> transferred_;
  size_t limit_ = 0, champion_ = 0;
  std::vector<std::pair<size_t, double>> convergence_;
  std::map<size_t, std::future<Result<Artifact>>> flights_;  // what is being compiled, by entry
  std::optional<Clock::time_point> first_artifact_;
  double device_us_before_ = 0;
};

}  // namespace

Result<std::vector<Config>> first_configs(const Job& job, Compiler& compiler, Runner& runner, Records& records,
                                          const Machine& machine, const TuneOptions& options) {
  const Progress silent;
  return Session(job, compiler, runner, records, machine, options, silent, {}).first_configs();
}

Result<JobResult> tune(const Job& job, Compiler& compiler, Runner& runner, Records& records, const Machine& machine,
                       const TuneOptions& options, const Progress& progress, std::stop_token stop) {
  return Session(job, compiler, runner, records, machine, options, progress, std::move(stop)).run();
}

}  // namespace kiln::autotune
