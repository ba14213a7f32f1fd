// Configs chosen without a measurement beside tuned ones, on this machine: draws shapes of ten library kernels by a
// seed. Each is launched by turns in the kernel's fixed default, in what the cost model chooses
// (kiln/autotune/choose.h) as a client would have it choose, by classes of shapes, and in what the tuner finds.
//
//   bench-config [--target cpu|cuda|amd] [--shapes N] [--seed S] [--tune SECONDS] [--budget SECONDS] [--rows FILE]
//                [--shipped DIR] [--variants N] [KERNEL…]
//
//   bench-config --target cuda --rows h200.jsonl --budget 500     # a part; once more for the next one
//   bench-config --rows h200.jsonl --shapes 0                     # the table of what is there
//
// --rows: a line for each shape, added to the file; those that it has are not measured again. --budget: no shape begins
// behind it. --tune: for the tuner, of each shape. --variants: also counts the configs that N shapes of each kernel
// would have compiled; measures none of them.
//
// The table has, by kernel and for all, how much longer than the tuned config the others take: the geometric mean, what
// 95 % of the shapes stay below, the worst; and how many configs the model had compiled. Rows have the times of all
// configs that the tuner measured, on which the model can be fitted.
#include "kiln/dsl/config.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "bench_tools.h"
#include "config_draws.h"
#include "kiln/autotune/choose.h"
#include "kiln/autotune/compiler.h"
#include "kiln/autotune/shipped.h"
#include "kiln/dsl/size_class.h"

namespace {

using namespace kiln;
using namespace kiln::autotune;
using bench::fail;
using bench::median;
using bench::need;
using nlohmann::json;

constexpr size_t kMostConfigs = 6;  // that a handle of a client has, with the default (client/src/chosen.h)
constexpr Seconds kPatience = Seconds(2);
constexpr int kRounds = 51;

struct Flags {
  std::string target = "cpu", rows, shipped = Shipped::default_directory();
  size_t shapes = 200, variants = 0;
  uint64_t seed = 1;
  double tune = 10, budget = 1e9;
  std::set<std::string> kernels;
};

Flags parse_flags(int argc, char** argv) {
  Flags out;
  std::map<std::string, std::string*> texts = {
      {"--target", &out.target}, {"--rows", &out.rows}, {"--shipped", &out.shipped}};
  std::map<std::string, double*> reals = {{"--tune", &out.tune}, {"--budget", &out.budget}};
  std::map<std::string, uint64_t*> counts = {
      {"--shapes", &out.shapes}, {"--variants", &out.variants}, {"--seed", &out.seed}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    try {
      if (!word.starts_with("--"))
        out.kernels.insert(word);
      else if (texts.contains(word) && has_value)
        *texts[word] = argv[++i];
      else if (reals.contains(word) && has_value)
        *reals[word] = std::stod(argv[++i]);
      else if (counts.contains(word) && has_value)
        *counts[word] = std::stoull(argv[++i]);
      else
        fail(word + ": there is no such flag, or it lacks its value; the head of config.cpp lists them");
    } catch (const std::logic_error&) {
      fail(word + ": " + argv[i] + " is no number");
    }
  }
  return out;
}

// What a handle of a client would have compiled and decided, of one kernel.
struct Handle {
  std::vector<Config> compiled;  // beside the default
  std::map<std::vector<uint64_t>, Choice> classes;
};

struct Asked {
  Choice choice;
  double us = 0;  // of the choice; 0: the class was known
};

class Bench {
 public:
  explicit Bench(const Flags& flags) : flags_(flags), gpu_(flags.target != "cpu") {
    read_rows();
    if (flags.shapes + flags.variants == 0) return;
    directory_ = std::filesystem::temp_directory_path() / ("bench-config-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
    compiler_ = need(daemon_compiler({}, compiles_at_once()));
    RunnerOptions options;
    options.kind = dsl::target_family(flags.target);
    runner_ = need(start_runner(options));
    records_ = need(Records::open((directory_ / "records.sqlite").string()));
    machine_ = need(calibrate(*compiler_, *runner_, *records_));
    shipped_ = need(Shipped::read(flags.shipped));
  }
  ~Bench() { std::filesystem::remove_all(directory_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void measure_all() {
    const auto begin = std::chrono::steady_clock::now();
    for (size_t i = 0; i < flags_.shapes; ++i) {
      const JobSpec spec = bench::drawn_job(flags_.seed, i, gpu_);
      if (!flags_.kernels.empty() && !flags_.kernels.contains(spec.kernel.name)) continue;
      const Job job = job_of(spec);
      if (!has_default(job)) continue;
      const Asked asked = ask(job, handles_[handle_name(job)]);
      if (known_.contains({flags_.seed, i})) continue;
      if (Seconds(std::chrono::steady_clock::now() - begin).count() > flags_.budget) continue;
      auto row = measured(job, asked);
      if (row)
        add_row(i, spec, std::move(*row));
      else
        std::fprintf(stderr, "  %s: %s\n", spec.name.c_str(), row.error().message.c_str());
    }
  }

  // How many configs that many shapes have compiled, of each kernel.
  void count_variants() {
    std::map<std::string, Handle> handles;
    std::map<std::string, double> us;
    for (size_t i = 0; i < flags_.variants * bench::drawn_kernels(); ++i) {
      const JobSpec spec = bench::drawn_job(flags_.seed + 1, i, gpu_);
      if (!flags_.kernels.empty() && !flags_.kernels.contains(spec.kernel.name)) continue;
      const Job job = job_of(spec);
      if (!has_default(job)) continue;
      us[handle_name(job)] += ask(job, handles[handle_name(job)]).us;
    }
    std::printf("\n%-28s %8s %8s %12s\n", "kernel", "classes", "configs", "us a choice");
    for (const auto& [name, handle] : handles) {
      std::printf("%-28s %8zu %8zu %12.0f\n", name.c_str(), handle.classes.size(), handle.compiled.size() + 1,
                  us[name] / static_cast<double>(handle.classes.size()));
    }
  }

  void print_table() const {
    std::printf("%-14s %6s | %8s %8s %8s | %8s %8s %8s | %8s\n", "kernel", "shapes", "default", "95 %", "worst",
                "model", "95 %", "worst", "configs");
    std::map<std::string, std::vector<const json*>> kernels;
    for (const json& row : rows_) {
      kernels[row["kernel"]].push_back(&row);
      kernels["~ all"].push_back(&row);
    }
    for (const auto& [name, rows] : kernels) {
      std::set<std::string> configs;
      for (const json* row : rows)
        configs.insert((*row)["kernel"].get<std::string>() + (*row)["model"].get<std::string>());
      std::printf("%-14s %6zu | %s | %s | %8zu\n", name.c_str(), rows.size(), ratios(rows, "default_us").c_str(),
                  ratios(rows, "model_us").c_str(), configs.size());
    }
  }

 private:
  void read_rows() {
    if (flags_.rows.empty()) return;
    std::ifstream file(flags_.rows);
    for (std::string line; std::getline(file, line);) {
      json row = json::parse(line, nullptr, false);
      if (!row.is_object() || !row.contains("tuned_us")) fail(flags_.rows + ": a line is no row");
      known_.emplace(row["seed"].get<uint64_t>(), row["index"].get<size_t>());
      rows_.push_back(std::move(row));
    }
  }

  Job job_of(const JobSpec& spec) const { return {spec.name, spec.kernel, spec.workload, machine_.target, spec.axes}; }

  // A handle is of a kernel and the constexprs that its caller gives.
  static std::string handle_name(const Job& job) {
    return job.kernel.name + (job.workload.fixed.empty() ? "" : " " + to_string(job.workload.fixed));
  }

  // Without one a launch fails whatever anybody chooses.
  static bool has_default(const Job& job) {
    auto config = dsl::complete_constexprs(job.kernel, job.workload.fixed, job.target);
    return config && valid_configs(job.kernel, {{}, job.kernel.constraints}, job.workload, {*config});
  }

  Asked ask(const Job& job, Handle& handle) {
    std::vector<uint64_t> sizes;
    for (const auto& value : bindings(job.kernel, job.workload).params) {
      if (value) sizes.push_back(dsl::size_class(static_cast<uint64_t>(*value)));
    }
    const auto known = handle.classes.find(sizes);
    const dsl::Kernel& kernel = job.kernel;
    if (known != handle.classes.end()) {
      // Whoever launches looks whether the config's conditions hold, and else takes the default.
      const bool valid = valid_configs(kernel, {{}, kernel.constraints}, job.workload, {known->second.config}).ok();
      return {valid ? known->second : Choice{*dsl::complete_constexprs(kernel, job.workload.fixed, job.target)}};
    }
    const auto begin = std::chrono::steady_clock::now();
    const RecordKey key = need(record_key(job, runner_->info().fingerprint, compiler_->builder_id(), {}));
    Choosing choosing{handle.compiled, handle.compiled.size() + 1 < kMostConfigs, winners_for(key, nullptr, &shipped_)};
    Asked out{need(choose(job, machine_, choosing))};
    out.us = 1e6 * Seconds(std::chrono::steady_clock::now() - begin).count();
    handle.classes.emplace(sizes, out.choice);
    const Config& config = out.choice.config;
    const bool is_new =
        out.choice.source != "default" && std::ranges::find(handle.compiled, config) == handle.compiled.end();
    if (is_new) handle.compiled.push_back(config);
    return out;
  }

  // The three by turns.
  Result<json> measured(const Job& job, const Asked& asked) {
    TuneOptions options;
    options.budget = Seconds(flags_.tune);
    options.shipped = &shipped_;
    const auto tuned = tune(job, *compiler_, *runner_, *records_, machine_, options);
    if (!tuned) return tuned.error();
    const std::vector<Config> configs = {*dsl::complete_constexprs(job.kernel, job.workload.fixed, job.target),
                                         asked.choice.config, tuned->best};
    auto times_of = in_turn(job, configs);
    if (!times_of) return times_of.error();
    const std::vector<double>& us = *times_of;
    json times;
    for (const Candidate& one : tuned->candidates) {
      if (one.record.failure == Failure::kNone) times[to_string(one.config)] = one.record.median_us;
    }
    return json{{"default", to_string(configs[0])},
                {"model", to_string(configs[1])},
                {"tuned", to_string(configs[2])},
                {"default_us", us[0]},
                {"model_us", us[1]},
                {"tuned_us", us[2]},
                {"source", asked.choice.source},
                {"choice_us", asked.us},
                {"measured", times},
                {"predicted_us", asked.choice.terms.us()},
                {"predicted_default_us", asked.choice.default_terms.us()}};
  }

  Result<std::vector<double>> in_turn(const Job& job, const std::vector<Config>& configs) {
    need(runner_->begin(job.kernel, job.workload, Cache::kCold));
    std::map<Config, CandidateId> ids;
    std::vector<CandidateId> order;
    for (const Config& config : configs) {
      const auto id = static_cast<CandidateId>(ids.size());
      if (!ids.emplace(config, id).second) continue;
      const Artifact artifact =
          need(compiler_->compile(job.kernel, job.target, config, facts_of(job.kernel, job.workload)).get());
      const CandidateStatus status = need(runner_->load(id, config, artifact, Seconds(20)));
      if (status.failure != Failure::kNone) return invalid_argument(to_string(config) + ": " + status.message);
      order.push_back(id);
    }
    std::vector<std::vector<double>> us(order.size());
    compiler_->hold();  // which waits for what the tuner has in flight
    const auto begin = std::chrono::steady_clock::now();
    for (int r = 0; r < kRounds && std::chrono::steady_clock::now() - begin < kPatience; ++r) {
      const Runner::Measured round = need(runner_->measure(order, 1, Seconds(20)));
      for (size_t i = 0; i < order.size(); ++i) us[i].push_back(round.rounds[0].us[i]);
    }
    compiler_->release();
    std::vector<double> out;
    for (const Config& config : configs) {
      out.push_back(median(us[ids.at(config)]));
      if (!(out.back() > 0)) return invalid_argument(to_string(config) + ": the runner gave no times");
    }
    return out;
  }

  void add_row(size_t index, const JobSpec& spec, json row) {
    row.update({{"seed", flags_.seed},
                {"index", index},
                {"kernel", spec.kernel.name},
                {"job", spec.name},
                {"target", machine_.target},
                {"device", runner_->info().device}});
    std::fprintf(stderr, "  %-60s default %.3f  model %.3f  %s\n", spec.name.c_str(), ratio(row, "default_us"),
                 ratio(row, "model_us"), row["source"].get<std::string>().c_str());
    if (!flags_.rows.empty() && !(std::ofstream(flags_.rows, std::ios::app) << row << "\n").flush())
      fail(flags_.rows + ": cannot be written");
    rows_.push_back(std::move(row));
  }

  static double ratio(const json& row, const char* who) {
    return row[who].get<double>() / row["tuned_us"].get<double>();
  }

  static std::string ratios(const std::vector<const json*>& rows, const char* who) {
    std::vector<double> all;
    double logs = 0;
    for (const json* row : rows) all.push_back(ratio(*row, who));
    for (double one : all) logs += std::log(one);
    std::ranges::sort(all);
    const auto count = static_cast<double>(all.size());
    char out[64];
    std::snprintf(out, sizeof out, "%8.3f %8.3f %8.2f", std::exp(logs / count),
                  all[static_cast<size_t>(std::ceil(0.95 * count)) - 1], all.back());
    return out;
  }

  const Flags& flags_;
  const bool gpu_;
  std::filesystem::path directory_;
  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<Records> records_;
  Machine machine_;
  Shipped shipped_;
  std::map<std::string, Handle> handles_;
  std::set<std::pair<uint64_t, size_t>> known_;
  std::vector<json> rows_;
};

}  // namespace

int main(int argc, char** argv) {
  const Flags flags = parse_flags(argc, argv);
  Bench bench(flags);
  bench.measure_all();
  bench.print_table();
  if (flags.variants > 0) bench.count_variants();
}
