// The search on simulated machines: how good, how many measurements, and what survives a kill or a failure.
#include <algorithm>

#include "simulated.h"

namespace kiln::autotune {
namespace {

using namespace simulated;

// How far from the best, in steps of each axis, and what a step costs.
double bowl(const Config& c, double a, double b, double cc, double cost) {
  const double da = steps(c, "A", a), db = steps(c, "B", b), dc = steps(c, "C", cc);
  return 1000 * std::exp(cost * (da * da + db * db + dc * dc));
}

struct Case {
  const char* name;
  TimeOf time_of;
};

std::vector<Case> cases() {
  auto ridge = [](const Config& c) {
    const double area = steps(c, "A", 32) + steps(c, "B", 32), skew = steps(c, "A", 32) - steps(c, "B", 32);
    return 1000 * std::exp(0.12 * area * area + 0.03 * skew * skew + 0.05 * std::abs(steps(c, "C", 16)));
  };
  return {
      {"bowl near the default", [](const Config& c) { return bowl(c, 32, 64, 32, 0.1); }},
      {"bowl in a corner", [](const Config& c) { return bowl(c, 4, 16, 8, 0.05); }},
      {"bowl in the other corner", [](const Config& c) { return bowl(c, 64, 128, 64, 0.05); }},
      {"steep bowl", [](const Config& c) { return bowl(c, 8, 128, 16, 0.4); }},
      {"flat bowl", [](const Config& c) { return bowl(c, 64, 32, 64, 0.01); }},
      {"ridge", ridge},
      {"slopes", [](const Config& c) { return 1000 * std::exp(0.2 * steps(c, "A", 4) - 0.3 * steps(c, "B", 128)); }},
      {"one axis matters", [](const Config& c) { return 1000 + 300 * std::abs(steps(c, "C", 64)); }},
      {"rugged", [](const Config& c) { return bowl(c, 8, 32, 64, 0.08) * std::exp(0.01 * ruggedness(c, 7)); }},
      {"rugged ridge", [ridge](const Config& c) { return ridge(c) * std::exp(0.01 * ruggedness(c, 3)); }},
      {"a cliff beside the best",
       [](const Config& c) { return bowl(c, 32, 64, 16, 0.1) * (c.at("A") * c.at("B") > 2048 ? 3 : 1); }},
      {"a cliff along an axis", [](const Config& c) { return bowl(c, 16, 32, 8, 0.06) * (c.at("C") > 16 ? 2 : 1); }},
      {"steps of whole waves",
       [](const Config& c) {
         const double programs = std::ceil(65536.0 / static_cast<double>(c.at("A") * c.at("B")));
         return std::ceil(programs / 24) * 40 * static_cast<double>(c.at("A") * c.at("B")) / 1024 +
                20 * std::abs(steps(c, "C", 16));
       }},
  };
}

double true_best(const Job& job, const TimeOf& time_of, size_t* count = nullptr) {
  auto space = space_for(job.kernel, job.target, job.axes);
  auto configs = enumerate(job.kernel, job.target, *space, job.workload);
  if (count) *count = configs->size();
  double best = INFINITY;
  for (const Config& config : *configs) best = std::min(best, time_of(config));
  return best;
}

TEST(Tune, FindsTheBestOfAQuarterOfTheSpace) {
  const Job job = blocks_job();
  for (const Case& one : cases()) {
    size_t space = 0;
    const double best = true_best(job, one.time_of, &space);
    FakeCompiler compiler;
    FakeRunner runner(one.time_of);
    MemoryRecords records;
    auto result = tune(job, compiler, runner, records, machine(), {});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_LE(one.time_of(result->best), 1.02 * best) << one.name << ": " << to_string(result->best);
    EXPECT_LE(result->measured, space / 4) << one.name;
    EXPECT_EQ(result->space, space);
    EXPECT_TRUE(result->finished);
  }
}

TEST(Tune, IsRightInNoise) {
  const Job job = blocks_job();
  int good = 0, runs = 0;
  const std::vector<Case> all = cases();
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Case& one = all[seed % all.size()];
    FakeCompiler compiler;
    FakeRunner runner(one.time_of, {.sigma = 0.05, .outliers = 0.05}, seed + 1);
    MemoryRecords records;
    auto result = tune(job, compiler, runner, records, machine(), {.seed = seed});
    ASSERT_TRUE(result) << result.error().message;
    const double ratio = one.time_of(result->best) / true_best(job, one.time_of);
    good += ratio <= 1.05;
    ++runs;
  }
  EXPECT_GE(good, 95) << "of " << runs;
}

TEST(Tune, TwoRunsAgree) {
  const Job job = blocks_job();
  for (const Case& one : cases()) {
    double us[2];
    for (uint64_t seed : {0, 1}) {
      FakeCompiler compiler;
      FakeRunner runner(one.time_of, {.sigma = 0.01, .outliers = 0.02}, seed + 17);
      MemoryRecords records;
      auto result = tune(job, compiler, runner, records, machine(), {.seed = seed});
      ASSERT_TRUE(result) << result.error().message;
      us[seed] = one.time_of(result->best);
    }
    EXPECT_LE(std::max(us[0], us[1]), 1.02 * std::min(us[0], us[1])) << one.name;
  }
}

TEST(Tune, EverySearchKeepsToItsShareAndBeatsTheDefault) {
  const Job job = blocks_job();
  const TimeOf time_of = cases()[2].time_of;
  for (Search search : {Search::kAuto, Search::kExhaustive, Search::kRandom, Search::kHalving, Search::kLocal}) {
    FakeCompiler compiler;
    FakeRunner runner(time_of);
    MemoryRecords records;
    auto result = tune(job, compiler, runner, records, machine(), {.search = search, .seed = 3});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_LE(result->measured, search == Search::kExhaustive ? 80u : 20u);
    EXPECT_LT(result->best_us, result->default_us) << static_cast<int>(search);
    if (search == Search::kExhaustive) {
      EXPECT_EQ(result->measured, 80u);
      EXPECT_EQ(time_of(result->best), true_best(job, time_of));
    }
    EXPECT_EQ(result->convergence.back().first, result->measured);
  }
}

TEST(Tune, TheSameTimesGiveTheSameSearch) {
  const Job job = blocks_job();
  std::map<Config, int> compiled[2];
  for (int run : {0, 1}) {
    FakeCompiler compiler;
    FakeRunner runner(cases()[4].time_of, {.sigma = 0.05, .outliers = 0.05}, 9);
    MemoryRecords records;
    ASSERT_TRUE(tune(job, compiler, runner, records, machine(), {.search = Search::kRandom, .seed = 5}));
    compiled[run] = compiler.compiled;
  }
  EXPECT_EQ(compiled[0], compiled[1]);
}

// All configs but the default are slower, or as fast but for noise.
TEST(Tune, ShipsTheDefaultUnlessAnotherIsFaster) {
  const Job job = blocks_job();
  const Config fallback = {{"A", 16}, {"B", 64}, {"C", 32}};
  for (double others : {1.0, 1.1}) {
    FakeCompiler compiler;
    FakeRunner runner([&](const Config& c) { return c == fallback ? 1000 : 1000 * others; }, {.sigma = 0.03}, 4);
    MemoryRecords records;
    auto result = tune(job, compiler, runner, records, machine(), {});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(to_string(result->best), to_string(fallback));
    EXPECT_EQ(result->best_us, result->default_us);
  }
}

TEST(Tune, ASecondRunMeasuresNothing) {
  const Job job = blocks_job();
  FakeCompiler compiler;
  FakeRunner runner(cases()[0].time_of);
  MemoryRecords records;
  auto first = tune(job, compiler, runner, records, machine(), {});
  ASSERT_TRUE(first) << first.error().message;
  FakeCompiler other_compiler;
  FakeRunner other_runner(cases()[0].time_of);
  for (uint64_t seed : {0, 7}) {
    auto second = tune(job, other_compiler, other_runner, records, machine(), {.seed = seed});
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->measured, 0u);
    EXPECT_EQ(second->reused, first->measured);
    EXPECT_EQ(second->best, first->best);
    EXPECT_TRUE(second->finished);
  }
  EXPECT_TRUE(other_runner.launches.empty());
  EXPECT_TRUE(other_compiler.compiled.empty());
}

// The new value is the best; nothing that the first search passed over is measured now.
TEST(Tune, AGrownSpaceMeasuresOnlyTheNew) {
  const TimeOf time_of = [](const Config& c) { return bowl(c, 16, 128, 128, 0.1); };
  FakeCompiler compiler;
  FakeRunner runner(time_of);
  MemoryRecords records;
  ASSERT_TRUE(tune(blocks_job(1 << 16, {{"A", {16}}, {"B", {64, 128}}, {"C", {8, 16, 32, 64}}}), compiler, runner,
                   records, machine(), {}));
  const Job grown = blocks_job(1 << 16, {{"A", {16}}, {"B", {64, 128}}, {"C", {8, 16, 32, 64, 128}}});
  auto result = tune(grown, compiler, runner, records, machine(), {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->measured, 2u);
  for (const Candidate& candidate : result->candidates) {
    EXPECT_EQ(candidate.measured, candidate.config.at("C") == 128) << to_string(candidate.config);
  }
  EXPECT_EQ(to_string(result->best), "A=16,B=128,C=128");
  EXPECT_EQ(tune(grown, compiler, runner, records, machine(), {})->measured, 0u);
}

// A run that ends anywhere leaves what it measured in the records, and the next goes on from there: together they
// measure what one run does, each config once.
TEST(Tune, AKilledRunRepeatsNothing) {
  const Job job = blocks_job();
  const TimeOf time_of = cases()[8].time_of;
  std::mt19937_64 random(11);
  for (int kill = 0; kill < 50; ++kill) {
    MemoryRecords records;
    size_t measured = 0;
    bool finished = false;
    for (int run = 0; run < 200 && !finished; ++run) {
      const size_t before = records.count();
      std::map<Config, int> known;
      for (const auto& [key, rows] : records.rows) {
        for (const auto& [config, record] : rows) known[config] = record.samples;
      }
      FakeCompiler compiler;
      FakeRunner runner(time_of);
      if (run < 3) runner.calls_left = 1 + static_cast<int>(random() % 40);
      size_t fresh = 0;
      const Progress counting{.measured = [&](const std::string&, const Record& r) {
        fresh += !known.contains(r.config);
        known.emplace(r.config, 0);
      }};
      auto result = tune(job, compiler, runner, records, machine(), {}, counting);
      EXPECT_EQ(records.count() - before, fresh);
      measured += fresh;
      if (!result) {
        EXPECT_EQ(result.error().message, "killed");
        continue;
      }
      finished = true;
      EXPECT_EQ(result->measured, fresh);
      EXPECT_EQ(result->reused, before);
      EXPECT_LE(time_of(result->best), 1.02 * true_best(job, time_of));
    }
    EXPECT_TRUE(finished);
    EXPECT_EQ(measured, records.count());
    EXPECT_LE(measured, 20u);
  }
}

TEST(Tune, AStopEndsTheRunAndTheNextGoesOn) {
  const Job job = blocks_job();
  FakeCompiler compiler;
  FakeRunner runner(cases()[2].time_of);
  MemoryRecords records;
  std::stop_source stop;
  const Progress progress{.measured = [&](const std::string&, const Record&) {
    if (records.count() == 9) stop.request_stop();
  }};
  auto first = tune(job, compiler, runner, records, machine(), {}, progress, stop.get_token());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_FALSE(first->finished);
  EXPECT_GE(first->measured, 9u);
  auto second = tune(job, compiler, runner, records, machine(), {});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(second->finished);
  EXPECT_EQ(second->reused, first->measured);
  EXPECT_EQ(first->measured + second->measured, 20u);
}

TEST(Tune, AnExhaustedBudgetGivesWhatItHas) {
  const Job job = blocks_job();
  FakeCompiler compiler;
  FakeRunner runner(cases()[2].time_of);
  MemoryRecords records;
  auto result = tune(job, compiler, runner, records, machine(), {.budget = Seconds(0)});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_FALSE(result->finished);
  EXPECT_EQ(result->best, result->fallback);
  EXPECT_TRUE(records.chosen.empty());
}

TEST(Tune, FrozenNeverMeasures) {
  const Job job = blocks_job();
  FakeCompiler compiler;
  FakeRunner runner(cases()[2].time_of);
  MemoryRecords records;
  auto unknown = tune(job, compiler, runner, records, machine(), {.frozen = true});
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->best, unknown->fallback);
  EXPECT_TRUE(runner.launches.empty());
  auto tuned = tune(job, compiler, runner, records, machine(), {});
  FakeRunner idle(cases()[2].time_of);
  auto known = tune(job, compiler, idle, records, machine(), {.frozen = true});
  ASSERT_TRUE(known);
  EXPECT_EQ(known->best, tuned->best);
  EXPECT_TRUE(idle.launches.empty());
}

// One of each sort, where they would be the best or near it.
TEST(Tune, AFailureCostsOnlyItself) {
  const Job job = blocks_job();
  const TimeOf time_of = [](const Config& c) { return bowl(c, 64, 128, 64, 0.05); };
  const Config best = {{"A", 64}, {"B", 128}, {"C", 64}}, second = {{"A", 32}, {"B", 128}, {"C", 64}},
               third = {{"A", 64}, {"B", 64}, {"C", 64}}, fourth = {{"A", 64}, {"B", 128}, {"C", 32}},
               fifth = {{"A", 32}, {"B", 64}, {"C", 64}};
  FakeCompiler compiler;
  compiler.refusals.emplace(best, error(ErrorCode::kCompileFailed, "no"));
  FakeRunner runner(time_of);
  runner.failing_loads = {{second, Failure::kCrash}, {third, Failure::kWrongResult}, {fourth, Failure::kResources}};
  runner.failing_launches = {{fifth, Failure::kHang}};
  MemoryRecords records;
  auto result = tune(job, compiler, runner, records, machine(), {.search = Search::kExhaustive});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->failed, 5u);
  EXPECT_EQ(result->measured, 80u);
  EXPECT_EQ(result->candidates.size(), 80u);
  EXPECT_EQ(result->candidates.back().record.failure == Failure::kNone, false);
  double rest = INFINITY;
  for (const Candidate& candidate : result->candidates) {
    if (candidate.record.failure == Failure::kNone) rest = std::min(rest, time_of(candidate.config));
  }
  EXPECT_EQ(time_of(result->best), rest);
  const RecordKey key = result->key;
  EXPECT_EQ(records.rows[key][best].failure, Failure::kCompile);
  EXPECT_EQ(records.rows[key][fifth].failure, Failure::kHang);
  EXPECT_EQ(runner.loads[second], 1);
  auto again = tune(job, compiler, runner, records, machine(), {.search = Search::kExhaustive});
  EXPECT_EQ(again->measured, 0u);
  EXPECT_EQ(runner.loads[second], 1);
}

// The default runs all the same: there is nothing else to ship.
TEST(Tune, WhatSpillsFarNeverRuns) {
  FakeCompiler compiler;
  abi::Device& device = compiler.metadata.device.emplace();
  device.threads = 128;
  device.spill_bytes = 4096;
  FakeRunner runner(cases()[2].time_of);
  MemoryRecords records;
  auto result = tune(blocks_job(), compiler, runner, records, machine(), {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->best, result->fallback);
  EXPECT_EQ(result->failed, 19u);
  EXPECT_EQ(result->candidates.back().record.message, "spills 4096 bytes of registers a thread");
  EXPECT_EQ(runner.loads.size(), 1u);
}

TEST(Tune, ADefaultThatFailsIsAnError) {
  FakeCompiler compiler;
  FakeRunner runner(cases()[0].time_of);
  runner.failing_loads = {{{{"A", 16}, {"B", 64}, {"C", 32}}, Failure::kCrash}};
  MemoryRecords records;
  auto result = tune(blocks_job(), compiler, runner, records, machine(), {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "the default config A=16,B=64,C=32 of blocks cannot be measured: as the test wants it");
}

TEST(Tune, AServiceInTroubleIsNoFailureOfAConfig) {
  const Job job = blocks_job();
  FakeCompiler compiler;
  auto configs = enumerate(job.kernel, job.target, *space_for(job.kernel, job.target), job.workload);
  for (size_t i = 1; i < configs->size(); ++i) {
    compiler.refusals.emplace((*configs)[i], error(ErrorCode::kUnavailable, "no daemon"));
  }
  FakeRunner runner(cases()[0].time_of);
  MemoryRecords records;
  auto result = tune(job, compiler, runner, records, machine(), {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "no daemon");
  EXPECT_EQ(records.count(), 1u);
}

// Times that the machine's roofs rule out: a kernel that did not run, or a clock that did not.
TEST(Tune, RejectsImpossibleTimes) {
  const Config broken = {{"A", 64}, {"B", 128}, {"C", 64}};
  FakeCompiler compiler;
  FakeRunner runner([&](const Config& c) { return c == broken ? 0.01 : bowl(c, 16, 64, 32, 0.1); });
  MemoryRecords records;
  auto result = tune(blocks_job(), compiler, runner, records, machine(), {.search = Search::kExhaustive});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(records.rows[result->key][broken].failure, Failure::kImpossibleTime);
  EXPECT_NE(result->best, broken);
}

// A machine that was calibrated while it was busy.
TEST(Tune, RoofsThatTheDefaultBeatsRuleOutNothing) {
  Machine busy = machine();
  busy.read_bytes_per_us = busy.copy_bytes_per_us = busy.cache_bytes_per_us = 10;
  const TimeOf time_of = cases()[0].time_of;
  FakeCompiler compiler;
  FakeRunner runner(time_of);
  MemoryRecords records;
  auto result = tune(blocks_job(), compiler, runner, records, busy, {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->failed, 0u);
  EXPECT_EQ(time_of(result->best), true_best(blocks_job(), time_of));
}

TEST(Tune, BeginsWithWhatWasBestForOtherShapes) {
  const TimeOf time_of = [](const Config& c) { return bowl(c, 4, 128, 8, 0.1) * (c.at("C") == 8 ? 0.5 : 1); };
  MemoryRecords records;
  FakeCompiler compiler;
  FakeRunner runner(time_of);
  auto first = tune(blocks_job(1 << 16), compiler, runner, records, machine(), {.search = Search::kExhaustive});
  ASSERT_TRUE(first) << first.error().message;
  std::vector<Config> order;
  const Progress progress{
      .measured = [&](const std::string&, const Record& record) { order.push_back(record.config); }};
  auto second = tune(blocks_job(1 << 15), compiler, runner, records, machine(), {}, progress);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->best, first->best);
  const auto found = std::find(order.begin(), order.end(), first->best);
  EXPECT_LE(std::set<Config>(order.begin(), found).size(), 5u);
}

TEST(Tune, TheKeyTellsKernelsConstexprsAndCachesApart) {
  const Job job = blocks_job();
  auto key = [](const Job& one, TuneOptions options = {}) {
    auto made = record_key(one, "hardware", "builder", options);
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : RecordKey();
  };
  Job renamed = job, fixed = job, other_defaults = job;
  renamed.kernel.constexprs[0].name = renamed.kernel.space[0].name = "Z";
  fixed.workload.fixed["C"] = 64;
  other_defaults.kernel.constexprs[2].default_value = 8;
  other_defaults.kernel.space[0].values.push_back(128);
  EXPECT_NE(key(job).kernel, key(renamed).kernel);
  EXPECT_NE(key(job).kernel, key(fixed).kernel);
  EXPECT_EQ(key(job), key(other_defaults));
  // Lines of source change no code, other options do.
  Job with_lines = job, with_checks = job;
  with_lines.kernel.options.lines = true;
  with_checks.kernel.options.debug = true;
  EXPECT_EQ(key(job), key(with_lines));
  EXPECT_NE(key(job), key(with_checks));
  EXPECT_NE(key(job), key(job, {.cache = Cache::kHot}));
  EXPECT_NE(key(job), key(blocks_job(1 << 15)));
  EXPECT_EQ(key(blocks_job(40000), {.bucket = Bucket::kPowers}), key(blocks_job(50000), {.bucket = Bucket::kPowers}));
}

}  // namespace
}  // namespace kiln::autotune
