// How good the search is on real times: those of every config of bench-autotune's cases on an NVIDIA H200 (driver
// 13000), as its exhaustive search recorded them; with the cost model as it is, by the roofs of that machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>

#include "kiln/autotune/jobs.h"
#include "kiln/dsl/config.h"
#include "search.h"
#include "tune_entries.h"

namespace kiln::autotune {
namespace {

using nlohmann::json;

constexpr const char* kTimes = KILN_SOURCE_DIR "/tests/autotune/h200_times.jsonl";
constexpr const char* kCases = KILN_SOURCE_DIR "/tests/bench/autotune_cuda.jsonl";
constexpr int kSeeds = 20;

struct Case {
  std::string name;
  Space space;
  std::vector<Config> configs;
  std::vector<double> predicted, us;  // infinite where it cannot run
  std::vector<char> open;
};

std::vector<Case> read_cases() {
  std::ifstream file(kTimes);
  std::string line;
  std::getline(file, line);
  auto machine = parse_machine(json::parse(line).at("machine"));
  std::map<std::string, json> times;
  while (std::getline(file, line)) {
    const json one = json::parse(line);
    times[one.at("name")] = one.at("us");
  }
  auto jobs = read_jobs(kCases);
  EXPECT_TRUE(machine && jobs);
  std::vector<Case> out;
  for (const JobSpec& spec : *jobs) {
    const Job job{spec.name, spec.kernel, spec.workload, machine->target, spec.axes};
    Case one{spec.name, *space_for(job.kernel, job.target, job.axes), {}, {}, {}, {}};
    auto entries = list_entries(job, one.space, *machine, Search::kAuto);
    EXPECT_TRUE(entries);
    for (const Entry& entry : *entries) {
      const json us = times[spec.name].value(to_string(entry.config), json());
      one.configs.push_back(entry.config);
      one.predicted.push_back(entry.predicted_us);
      one.us.push_back(us.is_number() ? us.get<double>() : INFINITY);
      one.open.push_back(entry.pruned.empty() ? 1 : 0);
    }
    out.push_back(std::move(one));
  }
  return out;
}

// The time of its choice, as tune() goes on, one by one, by medians that are off by as much as medians are.
double search(const Case& one, size_t limit, uint64_t seed) {
  std::mt19937_64 random(seed + 1);
  std::normal_distribution<double> error(0, 0.003);
  std::vector<double> measured(one.configs.size(), std::nan(""));
  std::vector<char> open = one.open;
  size_t best = 0, tried = 0;
  for (std::vector<size_t> next = {0}; !next.empty();) {
    measured[next[0]] = one.us[next[0]] * std::exp(error(random));
    open[next[0]] = 0;
    ++tried;
    if (measured[next[0]] < measured[best]) best = next[0];
    next = propose(Search::kAuto, {one.space, one.configs, one.predicted, measured, open, best, tried, limit, {}, {}},
                   seed, 1);
  }
  return one.us[best];
}

TEST(OnAnH200, AQuarterOfTheConfigsThatRunHasOneWithinTwoPercentOfTheBest) {
  const std::vector<Case> cases = read_cases();
  EXPECT_EQ(cases.size(), 9u);
  for (const Case& one : cases) {
    const double best = *std::min_element(one.us.begin(), one.us.end());
    const auto runnable = static_cast<size_t>(std::count(one.open.begin(), one.open.end(), 1));
    int good = 0;
    for (int seed = 0; seed < kSeeds; ++seed) {
      good += search(one, search_limit(Search::kAuto, 0.25, runnable), seed) <= 1.02 * best ? 1 : 0;
    }
    EXPECT_GE(good, kSeeds - 1) << one.name;
  }
}

// What is pruned before it is compiled spills, or was not even tried.
TEST(OnAnH200, NothingThatRunsWellIsPruned) {
  for (const Case& one : read_cases()) {
    for (size_t i = 0; i < one.configs.size(); ++i) {
      EXPECT_TRUE(one.open[i] || std::isinf(one.us[i])) << one.name << " " << to_string(one.configs[i]);
    }
  }
}

}  // namespace
}  // namespace kiln::autotune
