// Batch runs: one budget, failures that cost themselves only, and nothing measured twice, wherever a run is killed.
#include "kiln/autotune/batch.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <csignal>
#include <random>

#include "batch_fakes.h"
#include "kiln/dsl/config.h"

namespace kiln::autotune {
namespace {

using ::testing::HasSubstr;

TEST(Batch, TunesEveryJobAndAddsUp) {
  ScratchDirectory directory;
  auto records = fake_records(directory.file("tune.sqlite"));
  FakeCompiler compiler;
  size_t begun = 0, ended = 0;
  BatchProgress progress;
  progress.changed = [&](const BatchResult& so_far, size_t job) {
    begun += so_far.jobs[job].state == JobState::kRunning && !so_far.jobs[job].result;
    ended += so_far.jobs[job].state == JobState::kDone;
  };
  BatchOptions options;
  options.tune.search = Search::kExhaustive;
  const BatchResult result =
      run_batch(row_jobs({"row_sum", "cumsum_rows"}), compiler, fakes_of({}), *records, options, progress);
  ASSERT_EQ(result.count(JobState::kDone), 2u) << result.jobs[0].error << result.jobs[1].error;
  EXPECT_EQ(begun, 2u);
  EXPECT_EQ(ended, 2u);
  for (const JobOutcome& job : result.jobs) {
    EXPECT_EQ(to_string(job.result->best), "BLOCK=1024");
    EXPECT_EQ(job.target, "cpu:fake");
    EXPECT_TRUE(job.result->finished);
  }
  EXPECT_EQ(result.measured, result.jobs[0].result->measured + result.jobs[1].result->measured);
  EXPECT_EQ(result.measured, 16u);
  EXPECT_EQ(result.reused, 0u);
  EXPECT_FALSE(result.out_of_budget || result.stopped);
}

TEST(Batch, ASecondRunMeasuresNothing) {
  ScratchDirectory directory;
  FakeDevice device;
  device.log = directory.file("log");
  for (const bool resume : {false, false, true}) {
    auto records = fake_records(directory.file("tune.sqlite"));
    FakeCompiler compiler;
    BatchOptions options;
    options.resume = resume;
    const size_t before = lines_of(device.log).size();
    const BatchResult result =
        run_batch(row_jobs({"row_sum", "cumsum_rows"}), compiler, fakes_of(device), *records, options);
    ASSERT_EQ(result.count(JobState::kDone), 2u) << result.jobs[0].error;
    EXPECT_EQ(to_string(result.jobs[0].result->best), "BLOCK=1024");
    if (before == 0) {
      EXPECT_GT(result.measured, 0u);
    } else {
      EXPECT_EQ(result.measured, 0u);
      EXPECT_EQ(lines_of(device.log).size(), before);
      EXPECT_TRUE(compiler.compiled.empty());
    }
  }
}

TEST(Batch, AFailedJobCostsItselfOnly) {
  ScratchDirectory directory;
  auto records = fake_records(directory.file("tune.sqlite"));
  FakeCompiler compiler;
  auto jobs = row_jobs({"row_sum", "cumsum_rows", "log_softmax"});
  jobs[0].target = "cpu:nothing";
  jobs[1].target = "cuda";
  auto start = [](const std::string& kind) -> Result<std::unique_ptr<Runner>> {
    if (kind == "cuda") return error(ErrorCode::kUnavailable, "no CUDA driver");
    return std::unique_ptr<Runner>(std::make_unique<FakeRunner>(FakeDevice{}));
  };
  const BatchResult result = run_batch(jobs, compiler, start, *records, {});
  EXPECT_EQ(result.jobs[0].state, JobState::kFailed);
  EXPECT_EQ(result.jobs[0].error, "unknown target `cpu:nothing`");
  EXPECT_EQ(result.jobs[1].state, JobState::kFailed);
  EXPECT_EQ(result.jobs[1].error, "no CUDA driver");
  EXPECT_EQ(result.jobs[2].state, JobState::kDone);
}

TEST(Batch, AFailedConfigCostsItselfOnly) {
  ScratchDirectory directory;
  auto records = fake_records(directory.file("tune.sqlite"));
  FakeCompiler compiler;
  FakeDevice device;
  device.status = [](const Config& config) {
    return config.at("BLOCK") == 2048 ? CandidateStatus{Failure::kCrash, "signal 11"} : CandidateStatus();
  };
  BatchOptions options;
  options.tune.search = Search::kExhaustive;
  const BatchResult result = run_batch(row_jobs({"row_sum"}), compiler, fakes_of(device), *records, options);
  ASSERT_EQ(result.count(JobState::kDone), 1u) << result.jobs[0].error;
  EXPECT_EQ(result.failed, 1u);
  EXPECT_EQ(to_string(result.jobs[0].result->best), "BLOCK=1024");
}

TEST(Batch, ARunnerIsSharedByTheJobsOfItsDevice) {
  ScratchDirectory directory;
  auto records = fake_records(directory.file("tune.sqlite"));
  FakeCompiler compiler;
  std::vector<std::string> started;
  auto start = [&](const std::string& kind) -> Result<std::unique_ptr<Runner>> {
    started.push_back(kind);
    FakeDevice device;
    device.kind = kind;
    return std::unique_ptr<Runner>(std::make_unique<FakeRunner>(device));
  };
  BatchOptions options;
  options.targets = {"cpu", "cuda"};
  const BatchResult result = run_batch(row_jobs({"row_sum", "cumsum_rows"}), compiler, start, *records, options);
  EXPECT_EQ(result.jobs.size(), 4u);
  EXPECT_THAT(started, ::testing::UnorderedElementsAre("cpu", "cuda"));
}

TEST(Batch, ABudgetThatEndsLeavesEachJobWhatItHas) {
  ScratchDirectory directory;
  auto records = fake_records(directory.file("tune.sqlite"));
  FakeCompiler compiler;
  BatchOptions options;
  options.budget = Seconds(0);
  const auto jobs = row_jobs({"row_sum", "cumsum_rows"});
  const BatchResult none = run_batch(jobs, compiler, fakes_of({}), *records, options);
  EXPECT_TRUE(none.out_of_budget);
  EXPECT_EQ(none.measured, 0u);
  ASSERT_EQ(none.count(JobState::kDone), 2u) << none.jobs[0].error;
  EXPECT_EQ(none.jobs[0].result->best, none.jobs[0].result->fallback);

  // One that ends in the middle, and a run that goes on.
  FakeDevice slow;
  slow.pause = std::chrono::milliseconds(20);
  options.budget = Seconds(0.05);
  options.tune.search = Search::kExhaustive;
  const BatchResult some = run_batch(jobs, compiler, fakes_of(slow), *records, options);
  EXPECT_TRUE(some.out_of_budget);
  EXPECT_EQ(some.count(JobState::kDone), 2u);
  EXPECT_LT(some.measured, 16u);
  options.budget = Seconds::max();
  options.resume = true;
  const BatchResult rest = run_batch(jobs, compiler, fakes_of({}), *records, options);
  EXPECT_FALSE(rest.out_of_budget);
  EXPECT_EQ(some.measured + rest.measured, 16u);
  EXPECT_EQ(to_string(rest.jobs[1].result->best), "BLOCK=1024");
}

TEST(Batch, CalibrationIsAPartOfTheBudget) {
  ScratchDirectory directory;
  FakeCompiler compiler;
  FakeDevice slow;
  slow.log = directory.file("log");
  slow.time_us = [](const Config&) { return 100.0; };
  BatchOptions options;
  const auto jobs = row_jobs({"row_sum"});
  {
    auto records = expect_ok(Records::open(directory.file("whole.sqlite")));
    const BatchResult whole = run_batch(jobs, compiler, fakes_of(slow), *records, options);
    ASSERT_EQ(whole.count(JobState::kDone), 1u) << whole.jobs[0].error;
  }
  const auto of_calibration = [&] {
    const auto lines = lines_of(slow.log);
    return std::count_if(lines.begin(), lines.end(),
                         [](const std::string& line) { return !line.starts_with("row_sum "); });
  };
  const auto all = of_calibration();
  ASSERT_GT(all, 4);
  slow.pause = std::chrono::milliseconds(30);
  options.budget = Seconds(0.05);
  auto records = expect_ok(Records::open(directory.file("part.sqlite")));
  const BatchResult part = run_batch(jobs, compiler, fakes_of(slow), *records, options);
  EXPECT_LT(of_calibration() - all, all);
  EXPECT_TRUE(part.out_of_budget);
  ASSERT_EQ(part.count(JobState::kDone), 1u) << part.jobs[0].error;
  EXPECT_EQ(part.measured, 0u);
  ASSERT_EQ(part.notes.size(), 1u);
  EXPECT_THAT(part.notes[0], HasSubstr("calibrating a fake device: it takes longer than the budget"));
}

// Whatever ends a search, and whether it begins: without a default there is nothing to compare with.
TEST(Batch, AJobWhoseDefaultFailsHasFailed) {
  ScratchDirectory directory;
  auto records = fake_records(directory.file("tune.sqlite"));
  FakeCompiler compiler;
  FakeDevice device;
  const auto jobs = row_jobs({"row_sum"});
  const Config fallback = expect_ok(dsl::complete_constexprs(jobs[0].kernel, {}, "cpu"));
  device.status = [&](const Config& config) {
    return config.at("BLOCK") == fallback.at("BLOCK") ? CandidateStatus{Failure::kCrash, "signal 11"}
                                                      : CandidateStatus();
  };
  BatchOptions options;
  const auto expect_failed = [&](const BatchResult& result) {
    EXPECT_EQ(result.count(JobState::kFailed), 1u);
    EXPECT_THAT(result.jobs[0].error, HasSubstr("cannot be measured: signal 11"));
  };
  expect_failed(run_batch(jobs, compiler, fakes_of(device), *records, options));
  // Now it is in the records.
  options.budget = Seconds(0);
  expect_failed(run_batch(jobs, compiler, fakes_of(device), *records, options));
  options.budget = Seconds::max();
  options.tune.frozen = true;
  expect_failed(run_batch(jobs, compiler, fakes_of(device), *records, options));
}

TEST(Batch, AJobWhoseDefaultFailsOnTheWayHasFailed) {
  ScratchDirectory directory;
  auto records = fake_records(directory.file("tune.sqlite"));
  FakeCompiler compiler;
  FakeDevice device;
  const auto jobs = row_jobs({"row_sum"});
  const int64_t fallback = expect_ok(dsl::complete_constexprs(jobs[0].kernel, {}, "cpu")).at("BLOCK");
  int loads = 0;
  device.time_us = [&](const Config& config) { return config.at("BLOCK") == fallback ? 100.0 : 50.0; };
  device.status = [&](const Config& config) {
    const bool again = config.at("BLOCK") == fallback && ++loads > 1;
    return again ? CandidateStatus{Failure::kCrash, "signal 6"} : CandidateStatus();
  };
  // It is loaded a second time where its lane was lost.
  const BatchResult first = run_batch(jobs, compiler, fakes_of(device), *records, {});
  EXPECT_EQ(first.count(JobState::kDone), 1u);
  BatchOptions again;
  again.tune.search = Search::kExhaustive;
  auto fresh = fake_records(directory.file("fresh.sqlite"));
  const BatchResult second = run_batch(jobs, compiler, fakes_of(device), *fresh, again);
  EXPECT_EQ(second.count(JobState::kFailed), 1u);
  EXPECT_THAT(second.jobs[0].error, HasSubstr("cannot be measured: signal 6"));
}

TEST(Batch, AStopEndsTheRunningJobAndBeginsNoOther) {
  ScratchDirectory directory;
  auto records = fake_records(directory.file("tune.sqlite"));
  FakeCompiler compiler;
  std::stop_source stop;
  BatchProgress progress;
  progress.measured = [&](const BatchResult&, size_t, const Record&) { stop.request_stop(); };
  const BatchResult result =
      run_batch(row_jobs({"row_sum", "cumsum_rows"}), compiler, fakes_of({}), *records, {}, progress, stop.get_token());
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.jobs[0].state, JobState::kStopped);
  EXPECT_EQ(result.count(JobState::kDone), 0u);
  EXPECT_EQ(result.jobs[1].state, JobState::kWaiting);
  EXPECT_GE(result.measured, 1u);
  EXPECT_LT(result.measured, 8u);
}

TEST(Batch, AFrozenRunMeasuresNothing) {
  ScratchDirectory directory;
  auto records = expect_ok(Records::open(directory.file("tune.sqlite")));
  FakeCompiler compiler;
  FakeDevice device;
  device.log = directory.file("log");
  BatchOptions options;
  options.tune.frozen = true;
  const BatchResult result = run_batch(row_jobs({"row_sum"}), compiler, fakes_of(device), *records, options);
  ASSERT_EQ(result.count(JobState::kDone), 1u) << result.jobs[0].error;
  EXPECT_EQ(result.jobs[0].result->best, result.jobs[0].result->fallback);
  EXPECT_TRUE(lines_of(device.log).empty());
  EXPECT_TRUE(compiler.compiled.empty());
}

TEST(Batch, AGpuHasTheNextJobsFirstConfigsCompiledAhead) {
  ScratchDirectory directory;
  auto records = fake_records(directory.file("tune.sqlite"));
  for (const std::string target : {"cuda", "cpu"}) {
    FakeCompiler compiler;
    size_t ahead = 0;
    BatchProgress progress;
    progress.changed = [&](const BatchResult& so_far, size_t job) {
      if (job != 1 || so_far.jobs[1].state != JobState::kRunning || so_far.jobs[1].result) return;
      for (const std::string& what : compiler.compiled) ahead += what.starts_with("cumsum_rows ");
    };
    run_batch(row_jobs({"row_sum", "cumsum_rows"}, target), compiler, fakes_of({}), *records, {}, progress);
    EXPECT_EQ(ahead > 1, target == "cuda") << ahead;
  }
}

// What a database holds of finished measurements, in the words of the fake runner's log. A search compares what it
// tries with the default and with the best so far: these two may be measured again.
std::set<std::string> finished_measurements(const std::string& database, const std::string& scratch) {
  expect_ok(expect_ok(Records::open(database))->export_lines(scratch));
  std::map<std::string, std::pair<double, std::string>> best;
  std::set<std::string> out;
  std::vector<std::string> defaults;
  for (const std::string& line : lines_of(scratch)) {
    const auto object = nlohmann::json::parse(line);
    if (!object.contains("config")) continue;
    const std::string kernel = object["kernel_name"];
    const std::string name = kernel + " " + to_string(object["config"].get<Config>());
    out.insert(name);
    if (object["is_default"]) defaults.push_back(name);
    const std::pair candidate{object["median_us"].get<double>(), name};
    const auto [found, first] = best.emplace(kernel, candidate);
    if (!first) found->second = std::min(found->second, candidate);
  }
  for (const std::string& name : defaults) out.erase(name);
  for (const auto& [kernel, candidate] : best) out.erase(candidate.second);
  return out;
}

TEST(Batch, KilledAnywhereItRepeatsNoFinishedMeasurement) {
  ScratchDirectory directory;
  const std::string database = directory.file("tune.sqlite");
  FakeDevice device;
  device.log = directory.file("log");
  device.pause = std::chrono::microseconds(400);
  const auto jobs = row_jobs({"row_sum", "cumsum_rows", "log_softmax", "cross_entropy"});
  fake_records(database);
  auto run = [&]() -> Result<BatchResult> {
    auto records = Records::open(database);
    if (!records) return records.error();
    FakeCompiler compiler;
    BatchOptions options;
    options.tune.search = Search::kExhaustive;
    options.resume = true;
    return run_batch(jobs, compiler, fakes_of(device), **records, options);
  };
  std::mt19937 random(11);
  size_t killed = 0;
  for (int kill = 0; kill < 50; ++kill) {
    const std::set<std::string> before = finished_measurements(database, directory.file("all.jsonl"));
    const size_t start = lines_of(device.log).size();
    const pid_t child = ::fork();
    if (child == 0) ::_exit(run() ? 0 : 1);
    std::this_thread::sleep_for(std::chrono::microseconds(3'000 + random() % 40'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    killed += WIFSIGNALED(status);
    const std::vector<std::string> log = lines_of(device.log);
    for (size_t i = start; i < log.size(); ++i) EXPECT_FALSE(before.contains(log[i])) << log[i] << ", kill " << kill;
  }
  EXPECT_GT(killed, 0u);
  const BatchResult last = expect_ok(run());
  EXPECT_EQ(last.count(JobState::kDone), jobs.size());
  for (const JobOutcome& job : last.jobs) EXPECT_EQ(job.result->candidates.size(), 8u);
  const size_t all = lines_of(device.log).size();
  EXPECT_EQ(expect_ok(run()).measured, 0u);
  EXPECT_EQ(lines_of(device.log).size(), all);
}

}  // namespace
}  // namespace kiln::autotune
