// Times of all configs of bench-autotune's cases that were recorded on a machine (bench-autotune --times), and the
// search on them, with the cost model as it is, by the roofs of that machine.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>

#include "kiln/autotune/jobs.h"
#include "kiln/dsl/config.h"
#include "search/search.h"
#include "search/tune_entries.h"

namespace kiln::autotune::recorded {

struct Case {
  std::string name;
  Space space;
  std::vector<Config> configs;
  std::vector<double> predicted, us;  // infinite where it cannot run
  std::vector<char> open;

  double best_us() const { return *std::min_element(us.begin(), us.end()); }
};

inline Case make_case(const JobSpec& spec, const Machine& machine, const nlohmann::json& times) {
  const Job job{spec.name, spec.kernel, spec.workload, machine.target, spec.axes};
  Case out{spec.name, *space_for(job.kernel, job.target, job.axes), {}, {}, {}, {}};
  auto entries = list_entries(job, out.space, machine, Search::kAuto);
  EXPECT_TRUE(entries);
  for (const Entry& entry : *entries) {
    const nlohmann::json us = times.value(to_string(entry.config), nlohmann::json());
    out.configs.push_back(entry.config);
    out.predicted.push_back(entry.predicted_us);
    out.us.push_back(us.is_number() ? us.get<double>() : INFINITY);
    out.open.push_back(entry.pruned.empty() ? 1 : 0);
  }
  return out;
}

inline std::vector<Case> read_cases(const std::string& times_file, const std::string& jobs_file) {
  std::ifstream file(times_file);
  std::string line;
  std::getline(file, line);
  auto machine = parse_machine(nlohmann::json::parse(line).at("machine"));
  std::map<std::string, nlohmann::json> times;
  while (std::getline(file, line)) {
    const nlohmann::json one = nlohmann::json::parse(line);
    times[one.at("name")] = one.at("us");
  }
  auto jobs = read_jobs(jobs_file);
  EXPECT_TRUE(machine && jobs);
  std::vector<Case> out;
  for (const JobSpec& spec : *jobs) out.push_back(make_case(spec, *machine, times[spec.name]));
  return out;
}

// By how much medians are off: of the search's races, and of the last one, among what is close by them.
struct Errors {
  double search = 0.003, last = 0.003;
};

// The config that the search chooses, as tune() goes on, one by one.
inline size_t search(const Case& one, size_t limit, uint64_t seed, const Errors& errors) {
  std::mt19937_64 random(seed + 1);
  std::normal_distribution<double> error(0, 1);
  std::vector<double> measured(one.configs.size(), std::nan(""));
  std::vector<char> open = one.open;
  size_t best = 0, tried = 0;
  for (std::vector<size_t> next = {0}; !next.empty();) {
    measured[next[0]] = one.us[next[0]] * std::exp(errors.search * error(random));
    open[next[0]] = 0;
    ++tried;
    if (measured[next[0]] < measured[best]) best = next[0];
    next = propose(Search::kAuto, {one.space, one.configs, one.predicted, measured, open, best, tried, limit, {}, {}},
                   seed, 1);
  }
  const double close = 1.05 * measured[best];
  double best_us = INFINITY;
  for (size_t i = 0; i < measured.size(); ++i) {
    if (!(measured[i] <= close)) continue;
    const double us = one.us[i] * std::exp(errors.last * error(random));
    if (us < best_us) best = i;
    best_us = std::min(best_us, us);
  }
  return best;
}

// In how many of the seeds a quarter of the configs that can run is enough for a choice within 2 % of the best.
inline int count_good(const Case& one, int seeds, const Errors& errors = {}) {
  const auto runnable = static_cast<size_t>(std::count(one.open.begin(), one.open.end(), 1));
  const size_t limit = search_limit(Search::kAuto, 0.25, runnable);
  int good = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    good += one.us[search(one, limit, static_cast<uint64_t>(seed), errors)] <= 1.02 * one.best_us() ? 1 : 0;
  }
  return good;
}

}  // namespace kiln::autotune::recorded
