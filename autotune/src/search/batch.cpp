// Runners and calibrated machines are kept from job to job; after an error of a job its runner is started anew.
#include "kiln/autotune/batch.h"

#include <algorithm>
#include <map>

#include "kiln/dsl/config.h"

namespace kiln::autotune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kJobsAhead = 4;  // that are compiled for

struct Device {
  std::unique_ptr<Runner> runner;
  Machine machine;
};

double seconds_since(Clock::time_point start) { return Seconds(Clock::now() - start).count(); }

void add(Spent& sum, const Spent& more) {
  sum.compiles += more.compiles;
  sum.inputs += more.inputs;
  sum.loads += more.loads;
  sum.measurements += more.measurements;
  sum.records += more.records;
  sum.other += more.other;
}

class Batch {
 public:
  Batch(Compiler& compiler, const StartRunner& start_runner, Records& records, const BatchOptions& options,
        const BatchProgress& progress, std::stop_token stop)
      : compiler_(compiler),
        start_runner_(start_runner),
        records_(records),
        options_(options),
        progress_(progress),
        stop_(std::move(stop)) {}

  BatchResult run(const std::vector<JobSpec>& specs) {
    for (const JobSpec& spec : specs) {
      const auto& targets = spec.target.empty() ? options_.targets : std::vector{spec.target};
      for (const std::string& target : targets) {
        jobs_.push_back({&spec, target});
        JobOutcome outcome;
        outcome.name = spec.name;
        outcome.place = spec.place;
        outcome.target = target;
        outcome.spec = static_cast<size_t>(&spec - specs.data());
        result_.jobs.push_back(std::move(outcome));
      }
    }
    for (size_t index = 0; index < jobs_.size() && !stop_.stop_requested(); ++index) run_job(index);
    result_.stopped = stop_.stop_requested();
    result_.seconds = seconds_since(start_);
    result_.notes = records_.notes();
    result_.notes.insert(result_.notes.end(), notes_.begin(), notes_.end());
    return std::move(result_);
  }

 private:
  struct Planned {
    const JobSpec* spec;
    std::string target;
  };

  void run_job(size_t index) {
    JobOutcome& outcome = result_.jobs[index];
    outcome.state = JobState::kRunning;
    changed(index);
    const auto begin = Clock::now();
    auto done = tune_job(index);
    outcome.seconds = seconds_since(begin);
    const bool stopped = stop_.stop_requested() && (!done || !done->finished);
    if (done) {
      outcome.state = stopped ? JobState::kStopped : JobState::kDone;
      outcome.result = std::move(*done);
      count_device_time(*outcome.result);
      result_.add_up();
    } else if (stopped) {
      outcome.state = JobState::kStopped;
    } else {
      outcome.state = JobState::kFailed;
      outcome.result.reset();
      outcome.error = done.error().message;
      // Whatever went wrong in the runner does not follow into the next job.
      devices_.erase(kind_of(jobs_[index].target));
    }
    changed(index);
  }

  Result<JobResult> tune_job(size_t index) {
    const auto& [spec, target] = jobs_[index];
    auto device = device_of(kind_of(target));
    if (!device) return device.error();
    Job job{spec->name, spec->kernel, spec->workload, (*device)->runner->info().target, spec->axes};
    if (target != kind_of(target)) {
      auto resolved = compiler_.resolve_target(target);
      if (!resolved) return resolved.error();
      job.target = std::move(*resolved);
    }
    result_.jobs[index].target = job.target;
    result_.jobs[index].device = (*device)->runner->info().device;

    auto run = [&](const TuneOptions& options) {
      return tune(job, compiler_, *(*device)->runner, records_, (*device)->machine, options, progress_of(index), stop_);
    };
    const Seconds budget = share_of_budget(index);
    TuneOptions frozen = options_.tune;
    frozen.frozen = true;
    if (budget <= Seconds(0)) {
      result_.out_of_budget = true;
      return run(frozen);
    }
    if (options_.resume && !options_.tune.frozen) {
      auto recorded = run(frozen);
      if (!recorded || recorded->finished) return recorded;
    }
    TuneOptions options = options_.tune;
    options.budget = budget;
    auto done = run(options);
    if (done && !done->finished && !options.frozen && !stop_.stop_requested()) result_.out_of_budget = true;
    return done;
  }

  // What is left, in equal parts over the jobs that are left: what one does not need goes to those after it.
  Seconds share_of_budget(size_t index) const {
    const Seconds left = left_of_budget();
    return left == Seconds::max() ? left : left / static_cast<double>(jobs_.size() - index);
  }

  Seconds left_of_budget() const {
    return options_.budget == Seconds::max() ? Seconds::max() : Seconds(options_.budget - (Clock::now() - start_));
  }

  static std::string kind_of(const std::string& target) { return std::string(dsl::target_family(target)); }

  Result<Device*> device_of(const std::string& kind) {
    if (auto found = devices_.find(kind); found != devices_.end()) return &found->second;
    auto runner = start_runner_(kind);
    if (!runner) return runner.error();
    const auto begin = Clock::now();
    auto machine = machine_of(**runner);
    if (!machine) return machine.error();
    calibrating_ += Clock::now() - begin;
    return &devices_.insert_or_assign(kind, Device{std::move(*runner), std::move(*machine)}).first->second;
  }

  // A frozen batch measures nothing, roofs included; nor does one that has used its budget up. Calibration is a part of
  // the budget: what does not fit into it is out of budget like what comes behind it.
  Result<Machine> machine_of(Runner& runner) {
    if (!options_.tune.frozen && left_of_budget() > Seconds(0)) {
      auto machine = calibrate(compiler_, runner, records_, stop_, left_of_budget());
      if (machine || machine.error().code != ErrorCode::kDeadlineExceeded) return machine;
      notes_.push_back(machine.error().message);
    }
    auto recorded = records_.machine(runner.info().fingerprint, compiler_.builder_id());
    if (!recorded) return recorded.error();
    return recorded->is_null() ? Machine() : parse_machine(*recorded);
  }

  Progress progress_of(size_t index) {
    Progress out;
    out.measured = [this, index](const std::string&, const Record& record) {
      prefetch(index);
      if (progress_.measured) progress_.measured(result_, index, record);
    };
    out.advanced = [this, index](const JobResult& so_far) {
      result_.jobs[index].result = so_far;
      result_.add_up();
      changed(index);
    };
    return out;
  }

  // While a GPU measures, the daemon compiles what the next jobs begin with, one job more whenever it has little left
  // to do. On a CPU it would take the measured program's cores.
  void prefetch(size_t running) {
    std::erase_if(prefetched_, [](const auto& flight) {
      return flight.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
    next_prefetch_ = std::max(next_prefetch_, running + 1);
    if (next_prefetch_ >= std::min(jobs_.size(), running + 1 + kJobsAhead)) return;
    if (2 * prefetched_.size() > compiler_.at_once()) return;
    const auto& [spec, target] = jobs_[next_prefetch_++];
    const auto device = devices_.find(kind_of(target));
    if (device == devices_.end() || device->first == "cpu" || target != device->first) return;
    Runner& runner = *device->second.runner;
    const Job job{spec->name, spec->kernel, spec->workload, runner.info().target, spec->axes};
    auto configs = first_configs(job, compiler_, runner, records_, device->second.machine, options_.tune);
    if (!configs) return;  // the job will say so
    const dsl::Facts facts = facts_of(job.kernel, job.workload);
    for (const Config& config : *configs) {
      prefetched_.push_back(compiler_.compile(job.kernel, job.target, config, facts));
    }
  }

  // Between the first artifact of the first job that measured and the end of the last one; without calibrations.
  void count_device_time(const JobResult& job) {
    if (job.device_seconds <= 0) return;
    const Seconds now = Clock::now() - start_ - calibrating_;
    if (device_time_ == 0) device_since_ = now - Seconds(job.active_seconds);
    device_time_ += job.device_seconds;
    result_.busy_share = std::min(1.0, device_time_ / (now - device_since_).count());
  }

  void changed(size_t index) {
    result_.seconds = seconds_since(start_);
    if (progress_.changed) progress_.changed(result_, index);
  }

  Compiler& compiler_;
  const StartRunner& start_runner_;
  Records& records_;
  const BatchOptions& options_;
  const BatchProgress& progress_;
  std::stop_token stop_;
  const Clock::time_point start_ = Clock::now();
  Seconds calibrating_ = Seconds(0);
  std::vector<Planned> jobs_;
  std::map<std::string, Device> devices_;  // by kind
  Seconds device_since_ = Seconds(0);
  double device_time_ = 0;
  std::vector<std::string> notes_;
  size_t next_prefetch_ = 0;
  std::vector<std::future<Result<Artifact>>> prefetched_;
  BatchResult result_;
};

}  // namespace

size_t BatchResult::count(JobState state) const {
  return static_cast<size_t>(
      std::count_if(jobs.begin(), jobs.end(), [&](const JobOutcome& job) { return job.state == state; }));
}

void BatchResult::add_up() {
  measured = reused = failed = 0;
  spent = {};
  for (const JobOutcome& job : jobs) {
    if (!job.result) continue;
    measured += job.result->measured;
    reused += job.result->reused;
    failed += job.result->failed;
    add(spent, job.result->spent);
  }
}

BatchResult run_batch(const std::vector<JobSpec>& jobs, Compiler& compiler, const StartRunner& start_runner,
                      Records& records, const BatchOptions& options, const BatchProgress& progress,
                      std::stop_token stop) {
  return Batch(compiler, start_runner, records, options, progress, std::move(stop)).run(jobs);
}

}  // namespace kiln::autotune
