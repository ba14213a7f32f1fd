// The tuner's end of the runner's protocol, against a fake that misbehaves as its candidates tell it to.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "kiln/autotune/runner_protocol.h"
#include "runner_case.h"
#include "waiting.h"

namespace kiln::autotune {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Seconds kTime(20);
constexpr Seconds kShort(1);  // of what hangs

class RunnerLink : public RunnerCase {
 protected:
  void begin() {
    auto runner = start_runner({.executable = FAKE_RUNNER});
    ASSERT_TRUE(runner) << runner.error().message;
    runner_ = std::move(*runner);
    kernel_ = parsed("kernel k(%x: ptr<f32>) {\n  constexpr B = 1\n}\n");
    auto begun = runner_->begin(kernel_, Workload{{{0, 4, {}}}, {}, 0}, Cache::kHot);
    ASSERT_TRUE(begun) << begun.error().message;
  }
  CandidateStatus load(CandidateId id, int behave, Seconds deadline = kTime) {
    auto status = runner_->load(id, {{"behave", behave}, {"us", 10 + id}}, {}, deadline);
    if (!status) ADD_FAILURE() << status.error().message;
    return status ? *status : CandidateStatus{};
  }
  Runner::Measured measure(const std::vector<CandidateId>& ids, int rounds = 1, Seconds deadline = kTime) {
    auto measured = runner_->measure(ids, rounds, deadline);
    if (!measured) ADD_FAILURE() << measured.error().message;
    return measured ? *measured : Runner::Measured{};
  }
  size_t processes() const { return lines("count").size(); }

  std::unique_ptr<Runner> runner_;
  dsl::Kernel kernel_;
};

TEST_F(RunnerLink, TellsOfItsDevice) {
  begin();
  EXPECT_EQ(runner_->info().device, "a fake");
  EXPECT_EQ(runner_->info().fingerprint, "fake device");
}

TEST_F(RunnerLink, RotatesTheOrderBetweenRounds) {
  begin();
  for (CandidateId id : {1, 2, 3}) EXPECT_EQ(load(id, 0).failure, Failure::kNone);
  const auto measured = measure({1, 2, 3}, 3);
  ASSERT_EQ(measured.rounds.size(), 3u);
  for (const Round& round : measured.rounds) EXPECT_THAT(round.us, ElementsAre(11, 12, 13));
  std::vector<std::string> order = lines("log");
  order.erase(order.begin(), order.begin() + 3);
  EXPECT_THAT(order, ElementsAre("measure 1", "measure 2", "measure 3", "measure 2", "measure 3", "measure 1",
                                 "measure 3", "measure 1", "measure 2"));
}

TEST_F(RunnerLink, FailuresOfALoadAreTheCandidatesOwn) {
  begin();
  EXPECT_EQ(load(0, 0).failure, Failure::kNone);
  EXPECT_EQ(load(1, 2).failure, Failure::kResources);
  EXPECT_EQ(load(2, 3).failure, Failure::kCompile);
  EXPECT_EQ(processes(), 1u);
  const CandidateStatus crash = load(3, 4);
  EXPECT_EQ(crash.failure, Failure::kCrash);
  EXPECT_THAT(crash.message, AllOf(HasSubstr("Segmentation fault"), HasSubstr("something is wrong")));
  const CandidateStatus hang = load(4, 5, kShort);
  EXPECT_EQ(hang.failure, Failure::kHang);
  EXPECT_EQ(load(5, 11).failure, Failure::kCrash);
  EXPECT_THAT(measure({0}).rounds[0].us, ElementsAre(10));
  EXPECT_EQ(processes(), 4u);
}

TEST_F(RunnerLink, AWrongResultIsKeptWithWhatIsNeededToSeeItAgain) {
  begin();
  EXPECT_EQ(load(0, 0).failure, Failure::kNone);
  const CandidateStatus status = load(1, 1);
  EXPECT_EQ(status.failure, Failure::kWrongResult);
  const size_t at = status.message.find("kept in ");
  ASSERT_NE(at, std::string::npos) << status.message;
  const std::string kept = status.message.substr(at + 8);
  for (const char* file : {"kernel.kiln", "kernel.bin", "workload.json", "expected", "expected.json", "actual",
                           "actual.json", "README.txt"}) {
    EXPECT_TRUE(std::filesystem::exists(kept + "/" + file)) << kept << "/" << file;
  }
  const auto text = read_file(kept + "/README.txt");
  ASSERT_TRUE(text);
  EXPECT_THAT(
      std::string(reinterpret_cast<const char*>(text->data()), text->size()),
      AllOf(HasSubstr("behave=0"), HasSubstr("behave=1"), HasSubstr("kiln-runner --kind cpu --reproduce " + kept)));
  // Again: the same directory, and nothing half-written beside it.
  EXPECT_THAT(load(1, 1).message, HasSubstr(kept));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("data/kiln/reproducers")), {}), 1);
}

// What each failure in a measurement costs: the candidate alone. The others have all their times.
TEST_F(RunnerLink, AFailureInAMeasurementCostsOneCandidate) {
  const std::map<int, Failure> behaviours = {{6, Failure::kCrash}, {7, Failure::kHang},   {8, Failure::kCrash},
                                             {9, Failure::kCrash}, {12, Failure::kCrash}, {13, Failure::kCrash},
                                             {14, Failure::kHang}, {15, Failure::kCrash}, {16, Failure::kCrash}};
  for (const auto& [behave, failure] : behaviours) {
    std::filesystem::remove(path("count"));
    begin();
    for (CandidateId id : {1, 2, 3}) EXPECT_EQ(load(id, id == 2 ? behave : 0).failure, Failure::kNone);
    const auto measured = measure({1, 2, 3}, 3, failure == Failure::kHang ? kShort : kTime);
    ASSERT_EQ(measured.status.size(), 3u);
    EXPECT_EQ(measured.status[1].failure, failure) << behave << ": " << measured.status[1].message;
    for (size_t other : {0, 2}) EXPECT_EQ(measured.status[other].failure, Failure::kNone) << behave;
    for (const Round& round : measured.rounds) {
      EXPECT_EQ(round.us[0], 11);
      EXPECT_TRUE(std::isnan(round.us[1]));
      EXPECT_EQ(round.us[2], 13);
    }
    EXPECT_EQ(processes(), 2u) << behave;
    // It stays out, without another process.
    EXPECT_EQ(measure({1, 2}).status[1].failure, failure);
    EXPECT_EQ(processes(), 2u) << behave;
  }
}

TEST_F(RunnerLink, TheFirstValidCandidateIsLoadedAnewThoughItWasUnloaded) {
  begin();
  EXPECT_EQ(load(0, 0).failure, Failure::kNone);
  runner_->unload(0);
  EXPECT_EQ(load(1, 0).failure, Failure::kNone);
  EXPECT_EQ(load(2, 4).failure, Failure::kCrash);
  EXPECT_THAT(measure({1}).rounds[0].us, ElementsAre(11));
  EXPECT_THAT(lines("log"), ElementsAre("load 0", "load 1", "load 2", "load 4294967295", "load 1", "measure 1"));
}

TEST_F(RunnerLink, ThreeDeathsInARowAreTheDevices) {
  set("KILN_FAKE_RUNNER_SICK", "100");
  begin();
  EXPECT_EQ(load(1, 0).failure, Failure::kCrash);
  EXPECT_EQ(load(2, 0).failure, Failure::kCrash);
  auto third = runner_->load(3, {}, {}, kTime);
  ASSERT_FALSE(third);
  EXPECT_THAT(third.error().message, AllOf(HasSubstr("a fake seems unhealthy"), HasSubstr("Segmentation fault")));
}

TEST_F(RunnerLink, DeathsBetweenSuccessesAreTheCandidates) {
  begin();
  EXPECT_EQ(load(0, 0).failure, Failure::kNone);
  for (CandidateId id = 1; id < 6; ++id) EXPECT_EQ(load(id, 4).failure, Failure::kCrash);
  EXPECT_THAT(measure({0}).rounds[0].us, ElementsAre(10));
}

TEST_F(RunnerLink, WaitingForTheDeviceIsNoHang) {
  begin();
  EXPECT_EQ(load(1, 10, kShort).failure, Failure::kNone);
}

// Whatever a runner says in between, only its answer ends the wait: a deadline is wall time. Else this would not end.
TEST_F(RunnerLink, ChatterGivesNoMoreTime) {
  begin();
  for (CandidateId id : {1, 2}) EXPECT_EQ(load(id, id == 2 ? 14 : 0).failure, Failure::kNone);
  EXPECT_EQ(measure({1, 2}, 1, kShort).status[1].failure, Failure::kHang);
}

pid_t last_started(const std::vector<std::string>& lines) {
  return lines.empty() ? -1 : std::stoi(lines.back().substr(lines.back().find(' ')));
}

// A machine that stands still, here by signals: nobody is blamed for the time that passed meanwhile.
TEST_F(RunnerLink, WhatATunerDoesNotSeePassIsNoHang) {
  const pid_t tuner = ::fork();
  if (tuner == 0) {
    begin();
    ::_exit(load(1, 10, kShort).failure == Failure::kNone ? 0 : 1);
  }
  ASSERT_TRUE(eventually([&] { return !lines("log").empty(); }));
  const pid_t runner = last_started(lines("count"));
  ASSERT_GT(runner, 0);
  for (pid_t each : {runner, tuner}) {
    ::kill(each, SIGSTOP);
    ::usleep(100'000);
  }
  ::usleep(1'500'000);
  for (pid_t each : {tuner, runner}) {
    ::kill(each, SIGCONT);
    ::usleep(20'000);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(tuner, &status, 0), tuner);
  EXPECT_EQ(status, 0);
}

// Each candidate of a request has a turn of its own: three of them may take longer together than one may.
TEST_F(RunnerLink, TheDeadlineIsOfOneTurn) {
  set("KILN_FAKE_RUNNER_LAUNCH", "1500");
  begin();
  for (CandidateId id : {1, 2, 3}) EXPECT_EQ(load(id, 0).failure, Failure::kNone);
  const auto measured = measure({1, 2, 3}, 1, Seconds(4));
  for (const CandidateStatus& status : measured.status) EXPECT_EQ(status.failure, Failure::kNone) << status.message;
}

// The beginning and the end are in the message, however much there is between them.
TEST_F(RunnerLink, LastWordsAreFew) {
  begin();
  EXPECT_EQ(load(1, 15).failure, Failure::kNone);
  const CandidateStatus status = measure({1}).status[0];
  EXPECT_EQ(status.failure, Failure::kCrash);
  EXPECT_THAT(status.message, AllOf(HasSubstr("Segmentation fault"), HasSubstr("its last words: it begins..."),
                                    HasSubstr("bytes are left out"), HasSubstr("something is wrong")));
  EXPECT_LT(status.message.size(), 1500u);
}

TEST_F(RunnerLink, NoiseIsAroundTheTime) {
  set("KILN_FAKE_RUNNER_NOISE", "7");
  begin();
  EXPECT_EQ(load(0, 0).failure, Failure::kNone);
  auto measured = measure({0}, 101);
  std::vector<double> us;
  for (const Round& round : measured.rounds) us.push_back(round.us[0]);
  std::sort(us.begin(), us.end());
  EXPECT_NEAR(us[50], 10, 0.3);
  EXPECT_LT(us.front(), 9.5);
  EXPECT_GT(us.back(), 13);
}

// Directories of tuners that were killed go, those of living ones and of a moment ago stay.
TEST_F(RunnerLink, LeavesNoDirectoriesBehind) {
  namespace fs = std::filesystem;
  const fs::path temporary = path("temporary");
  set("TMPDIR", temporary.string());
  fs::create_directories(temporary / "kiln-runner-old");
  fs::create_directories(temporary / "kiln-runner-new");
  std::ofstream(temporary / "kiln-runner-old" / "stderr") << "x";
  fs::last_write_time(temporary / "kiln-runner-old", fs::file_time_type::clock::now() - std::chrono::hours(1));
  begin();
  EXPECT_FALSE(fs::exists(temporary / "kiln-runner-old"));
  EXPECT_TRUE(fs::exists(temporary / "kiln-runner-new"));
  EXPECT_EQ(std::distance(fs::directory_iterator(temporary), {}), 2);
  runner_.reset();
  EXPECT_EQ(std::distance(fs::directory_iterator(temporary), {}), 1);
}

TEST_F(RunnerLink, WhatIsNotLoadedIsAnError) {
  begin();
  auto measured = runner_->measure(std::vector<CandidateId>{5}, 1, kTime);
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().message, "candidate 5 is not loaded");
}

TEST_F(RunnerLink, ABadGreetingIsAnErrorThatSaysWhy) {
  const std::map<std::string, std::string> greetings = {
      {"hello", "no greeting"},
      {R"({"hello": {"protocol": 99}})", "it speaks protocol 99, this tuner 1"},
      {R"({"hello": {"protocol": 1}})", "lacks `target` or `fingerprint`"}};
  for (const auto& [line, problem] : greetings) {
    set("KILN_FAKE_RUNNER_HELLO", line);
    auto runner = start_runner({.executable = FAKE_RUNNER});
    ASSERT_FALSE(runner);
    EXPECT_THAT(runner.error().message, HasSubstr(problem));
  }
  EXPECT_THAT(start_runner({.executable = "/nonexistent"}).error().message, HasSubstr("/nonexistent"));
  EXPECT_THAT(start_runner({.executable = "/bin/false"}).error().message, HasSubstr("ended with code 1"));
}

// Named or in the environment, where others could have put it.
TEST_F(RunnerLink, ThatOthersCouldHavePutThereIsNotStarted) {
  const std::string shared = path("shared"), program = shared + "/kiln-runner";
  std::filesystem::create_directory(shared);
  std::filesystem::copy_file(FAKE_RUNNER, program);
  std::filesystem::permissions(shared, std::filesystem::perms::all);
  set("KILN_RUNNER", program);
  for (const RunnerOptions& options : {RunnerOptions{.executable = program}, RunnerOptions()}) {
    auto refused = start_runner(options);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr(shared + " can be written by everybody"));
  }
  EXPECT_TRUE(lines("count").empty()) << "it ran";
}

// A name is of a program in PATH, and what is looked at there is what is started.
TEST_F(RunnerLink, ANameInPathIsHeldToTheSame) {
  const std::string shared = path("shared"), ours = path("ours"), before = ::getenv("PATH");
  for (const std::string& place : {shared, ours}) {
    std::filesystem::create_directory(place);
    std::filesystem::copy_file(FAKE_RUNNER, place + "/kiln-runner");
  }
  std::filesystem::permissions(shared, std::filesystem::perms::all);
  set("KILN_RUNNER", "kiln-runner");
  ::setenv("PATH", (shared + ":" + before).c_str(), 1);
  auto named = start_runner({.executable = "kiln-runner"}), by_environment = start_runner({});
  const bool ran = !lines("count").empty();
  ::setenv("PATH", (shared + ":" + ours).c_str(), 1);
  auto next = start_runner({.executable = "kiln-runner"});
  ::setenv("PATH", before.c_str(), 1);
  EXPECT_FALSE(ran);
  for (const auto* refused : {&named, &by_environment}) {
    ASSERT_FALSE(*refused);
    EXPECT_THAT(refused->error().message, HasSubstr(shared + " can be written by everybody"));
  }
  EXPECT_TRUE(next) << next.error().message;
}

TEST(RunnerProtocol, WorkloadsSurviveTheWay) {
  Workload workload;
  workload.arguments = {{~uint64_t{0}, 0, {}}, {0, 1 << 20, {{-3, 5}}}};
  workload.fixed = {{"D", 64}};
  workload.seed = ~uint64_t{1};
  auto back = workload_from_json(nlohmann::json::parse(workload_to_json(workload).dump()));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->arguments, workload.arguments);
  EXPECT_EQ(back->fixed, workload.fixed);
  EXPECT_EQ(back->seed, workload.seed);
  for (const char* bad : {"1", "{}", R"({"arguments": [1]})", R"({"arguments": [], "fixed": {"D": "x"}})"}) {
    EXPECT_FALSE(workload_from_json(nlohmann::json::parse(bad))) << bad;
  }
}

}  // namespace
}  // namespace kiln::autotune
