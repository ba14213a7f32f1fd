// The tuner beside measuring everything, on this machine: the jobs of a file are tuned as a batch from nothing, then
// every config is measured, then another seed searches, and the first batch runs again. What the three chose and the
// default are launched once more in turn, in rounds that chose none of them: these times are what is compared.
//
//   bench-autotune JOBS.jsonl [--targets T,…] [--runner EXE] [--keep DIRECTORY] [--times FILE] [PART-OF-A-NAME…]
//
//   case                          space  share  ratio  agree  gain   rank  configs
//   matmul f32 512                   80   0.25  1.004  0.001  1.31   0.81  BM=…| BM=…| BM=…
//
// space: configs that can run, all of which are measured once. share: those that the search measured. ratio: time of
// its choice by that of the best of all; agree: by how much the choices of two seeds differ; gain: time of the default
// by that of the choice; rank: correlation of model and times. Ends with 1 where a case misses a bar: 0.25 of the space
// (or 3 configs), a ratio of 1.02, choices within 2 %, a second run that measures nothing; and on a GPU a device that
// is idle for more than a tenth of the first batch.
//
// With --times nothing is tuned: FILE is written, with the roofs of the machine in its first line and the times of all
// configs of a case in each other, launched in turn. tests/autotune tests the search on such times.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "kiln/autotune/batch.h"
#include "kiln/dsl/config.h"
#include "search/statistics.h"
#include "search/tune_entries.h"

namespace {

using namespace kiln;
using namespace kiln::autotune;

constexpr double kRatio = 1.02, kAgree = 0.02, kIdle = 0.1;
constexpr size_t kFewest = 3;  // configs that a search may measure of any space
constexpr int kRounds = 151;
constexpr Seconds kPatience = Seconds(5);  // for the last rounds of a case

struct Flags {
  std::string jobs, targets = "cpu", runner, keep, times;
  std::vector<std::string> names;
};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "bench-autotune: %s\n", message.c_str());
  std::exit(2);
}

template <class T>
T checked(Result<T> result) {
  if (!result) fail(result.error().message);
  return std::move(*result);
}
void checked(Result<void> result) {
  if (!result) fail(result.error().message);
}

Flags parse_flags(int argc, char** argv) {
  Flags out;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    std::string* value = word == "--targets"  ? &out.targets
                         : word == "--runner" ? &out.runner
                         : word == "--keep"   ? &out.keep
                         : word == "--times"  ? &out.times
                                              : nullptr;
    if (value && i + 1 < argc)
      *value = argv[++i];
    else if (out.jobs.empty())
      out.jobs = word;
    else
      out.names.push_back(word);
  }
  if (out.jobs.empty()) {
    fail("bench-autotune JOBS.jsonl [--targets T,…] [--runner EXE] [--keep DIRECTORY] [--times FILE] [NAME…]");
  }
  return out;
}

std::vector<JobSpec> read_cases(const Flags& flags) {
  std::vector<JobSpec> out = checked(read_jobs(flags.jobs));
  std::erase_if(out, [&](const JobSpec& job) {
    return !flags.names.empty() && std::none_of(flags.names.begin(), flags.names.end(), [&](const std::string& part) {
      return job.name.find(part) != std::string::npos;
    });
  });
  if (out.empty()) fail("no case of " + flags.jobs + " has such a name");
  return out;
}

class Bench {
 public:
  explicit Bench(const Flags& flags) : flags_(flags), cases_(read_cases(flags)), directory_(flags.keep) {
    if (directory_.empty()) {
      directory_ = std::filesystem::temp_directory_path() / ("bench-autotune-" + std::to_string(::getpid()));
    }
    std::filesystem::create_directories(directory_);
    compiler_ = checked(daemon_compiler({}, compiles_at_once()));
  }
  ~Bench() {
    if (flags_.keep.empty()) std::filesystem::remove_all(directory_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  bool run() {
    const BatchResult first = batch("first", Search::kAuto, 1), all = batch("all", Search::kExhaustive, 0),
                      second = batch("second", Search::kAuto, 2), again = batch("first", Search::kAuto, 1);
    std::printf("%-28s %6s %6s %6s %6s %6s %6s  %s\n", "case", "space", "share", "ratio", "agree", "gain", "rank",
                "best of all | seed 1 | seed 2");
    bool good = true;
    for (size_t i = 0; i < first.jobs.size(); ++i) good &= compare(i, first.jobs[i], all.jobs[i], second.jobs[i]);
    const bool gpu = dsl::target_family(first.jobs[0].target) != "cpu";
    std::printf("second run measured %zu; the device was idle for %.1f %% of the first batch, %.1f %% of all configs\n",
                again.measured, 100 * (1 - first.busy_share), 100 * (1 - all.busy_share));
    for (const auto& [name, batch] :
         {std::pair("first", &first), std::pair("all", &all), std::pair("second", &second)}) {
      const Spent& spent = batch->spent;
      std::printf(
          "%-7s %6.1f s: %.1f measuring, %.1f loading, %.1f waiting for compiles, %.1f making inputs, %.1f "
          "keeping records, %.1f other; busy %.1f %%\n",
          name, batch->seconds, spent.measurements, spent.loads, spent.compiles, spent.inputs, spent.records,
          spent.other, 100 * batch->busy_share);
    }
    return good && again.measured == 0 && (!gpu || 1 - first.busy_share <= kIdle);
  }

  void record_times() {
    const std::string kind(dsl::target_family(flags_.targets));
    runner_ = checked(start(kind));
    const Machine machine = checked(calibrate(*compiler_, *runner_, *open("times")));
    std::ofstream file(flags_.times);
    file << nlohmann::json{{"machine", to_json(machine)}} << "\n";
    for (const JobSpec& one : cases_) {
      const Job job{one.name, one.kernel, one.workload, machine.target, one.axes};
      file << nlohmann::json{{"name", one.name}, {"us", times_of_all(job, machine)}} << "\n" << std::flush;
      std::fprintf(stderr, "  %s\n", one.name.c_str());
    }
    if (!file) fail(flags_.times + ": cannot be written");
  }

 private:
  // Null where a config does not run.
  nlohmann::json times_of_all(const Job& job, const Machine& machine) {
    const Space space = checked(space_for(job.kernel, job.target, job.axes));
    const std::vector<Entry> entries = checked(list_entries(job, space, machine, Search::kExhaustive));
    checked(runner_->begin(job.kernel, job.workload, Cache::kCold));
    std::vector<CandidateId> order;
    nlohmann::json out;
    for (size_t i = 0; i < entries.size(); ++i) {
      out[to_string(entries[i].config)] = nullptr;
      if (load(job, entries[i].config, static_cast<CandidateId>(i))) order.push_back(static_cast<CandidateId>(i));
    }
    const std::vector<std::vector<double>> us = in_turn(order, Seconds(30));
    for (size_t i = 0; i < order.size(); ++i)
      out[to_string(entries[order[i]].config)] = round(100 * median(us[i])) / 100;
    return out;
  }

  bool load(const Job& job, const Config& config, CandidateId id) {
    auto artifact = compiler_->compile(job.kernel, job.target, config, facts_of(job.kernel, job.workload)).get();
    return artifact && checked(runner_->load(id, config, *artifact, Seconds(10))).failure == Failure::kNone;
  }

  // By candidate and round.
  std::vector<std::vector<double>> in_turn(const std::vector<CandidateId>& order, Seconds patience) {
    std::vector<std::vector<double>> out(order.size());
    const auto begin = std::chrono::steady_clock::now();
    compiler_->hold();
    for (int r = 0; r < kRounds && std::chrono::steady_clock::now() - begin < patience; ++r) {
      const Runner::Measured measured = checked(runner_->measure(order, 1, Seconds(10)));
      for (size_t i = 0; i < order.size(); ++i) out[i].push_back(measured.rounds[0].us[i]);
    }
    compiler_->release();
    return out;
  }

  std::unique_ptr<Records> open(const std::string& name) const {
    return checked(Records::open((directory_ / (name + ".sqlite")).string()));
  }

  Result<std::unique_ptr<Runner>> start(const std::string& kind) const {
    RunnerOptions options;
    options.executable = flags_.runner;
    options.kind = kind;
    return start_runner(options);
  }

  // With records of its own, but for the calibration, which is the machine's.
  BatchResult batch(const std::string& name, Search search, uint64_t seed) {
    auto records = open(name);
    if (!machine_.is_null()) checked(records->put_machine(hardware_, compiler_->builder_id(), machine_));
    BatchOptions options;
    options.targets = {flags_.targets};
    options.tune.search = search;
    options.tune.seed = seed;
    BatchProgress progress;
    progress.changed = [](const BatchResult& so_far, size_t job) {
      if (so_far.jobs[job].state != JobState::kRunning)
        std::fprintf(stderr, "  %7.1f s  %s\n", so_far.seconds, so_far.jobs[job].name.c_str());
    };
    std::fprintf(stderr, "%s\n", name.c_str());
    BatchResult out = run_batch(
        cases_, *compiler_, [this](const std::string& kind) { return start(kind); }, *records, options, progress);
    for (const JobOutcome& job : out.jobs) {
      if (!job.result) fail(job.name + ": " + job.error);
      hardware_ = job.result->key.hardware;
    }
    machine_ = checked(records->machine(hardware_, compiler_->builder_id()));
    return out;
  }

  // `share` is of what the exhaustive search measured.
  bool compare(size_t i, const JobOutcome& first, const JobOutcome& all, const JobOutcome& second) {
    const std::vector<Config> configs = {all.result->best, first.result->best, second.result->best,
                                         first.result->fallback};
    const std::vector<std::vector<double>> us = interleaved(cases_[i], first.target, configs);
    auto ratio = [&](size_t a, size_t b) {
      PairedRace race;
      for (size_t r = 0; r < us[a].size(); ++r) race.add(us[b][r], us[a][r]);
      return race.ratio();
    };
    const size_t measured = std::max(first.result->measured, second.result->measured), space = all.result->measured;
    const double share = static_cast<double>(measured) / static_cast<double>(space);
    const double worse = std::max(ratio(1, 0), ratio(2, 0)), agree = std::abs(ratio(1, 2) - 1);
    const bool good = (measured <= kFewest || share <= 0.25) && worse <= kRatio && agree <= kAgree;
    std::printf("%-28s %6zu %6.2f %6.3f %6.3f %6.2f %6.2f  %s | %s | %s%s\n", first.name.c_str(), space, share, worse,
                agree, ratio(3, 1), all.result->correlation, to_string(configs[0]).c_str(),
                to_string(configs[1]).c_str(), to_string(configs[2]).c_str(), good ? "" : "   MISSED");
    std::fflush(stdout);
    return good;
  }

  // By config and round; equal configs are launched once.
  std::vector<std::vector<double>> interleaved(const JobSpec& one, const std::string& target,
                                               const std::vector<Config>& configs) {
    if (!runner_) runner_ = checked(start(std::string(dsl::target_family(target))));
    checked(runner_->begin(one.kernel, one.workload, Cache::kCold));
    std::map<Config, CandidateId> ids;
    std::vector<CandidateId> order;
    for (const Config& config : configs) {
      const auto id = static_cast<CandidateId>(ids.size());
      if (!ids.emplace(config, id).second) continue;
      const Artifact artifact =
          checked(compiler_->compile(one.kernel, target, config, facts_of(one.kernel, one.workload)).get());
      const CandidateStatus status = checked(runner_->load(id, config, artifact, Seconds(10)));
      if (status.failure != Failure::kNone) fail(one.name + ": " + status.message);
      order.push_back(id);
    }
    const std::vector<std::vector<double>> by_id = in_turn(order, kPatience);
    std::vector<std::vector<double>> out;
    for (const Config& config : configs) out.push_back(by_id[ids.at(config)]);
    return out;
  }

  const Flags& flags_;
  const std::vector<JobSpec> cases_;
  std::filesystem::path directory_;
  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<Runner> runner_;
  std::string hardware_;
  nlohmann::json machine_;
};

}  // namespace

int main(int argc, char** argv) {
  const Flags flags = parse_flags(argc, argv);
  if (!flags.times.empty()) return Bench(flags).record_times(), 0;
  return Bench(flags).run() ? 0 : 1;
}
