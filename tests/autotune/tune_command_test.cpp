// `kiln tune` as a user meets it: the built programs, with a runner that needs no device (fake_runner.cpp), whose
// configs say themselves how long they take and how they fail.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "batch_helpers.h"

namespace kiln::autotune {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kKernel = R"(kernel says_how_long(%x: ptr<f32>, %n: i32) {
  constexpr us = 100
  constexpr behave = 0
  space us = [40, 70, 100, 150, 220, 330, 500, 750]
  space behave = [0]
  array x = n
  grid [1, 1, 1]

  %time = constant {value = us, type = i32} : i32
  %how = constant {value = behave, type = i32} : i32
  %sum = add %time, %how : i32
  %value = cast %sum {to = f32} : f32
  store %x, %value
}
)";

class TuneCommand : public ::testing::Test {
 protected:
  struct Outcome {
    int code = -1;
    std::string output, errors;
  };

  TuneCommand() {
    for (const auto& [name, file] : {std::pair("KILN_RUNTIME_DIR", "run"),
                                     {"KILN_CACHE_DIR", "cache"},
                                     {"XDG_DATA_HOME", "data"},
                                     {"FAKE_RUNNER_LOG", "log"}}) {
      ::setenv(name, directory_.file(file).c_str(), 1);
    }
    write_text(directory_.file("how_long.kiln"), kKernel);
    write_text(directory_.file("jobs.jsonl"), R"({"kernel":"how_long.kiln","shapes":[{"n":8},{"n":16}]})");
  }
  ~TuneCommand() override {
    run("stop", false);
    for (const char* name : {"KILN_RUNTIME_DIR", "KILN_CACHE_DIR", "XDG_DATA_HOME", "FAKE_RUNNER_LOG"})
      ::unsetenv(name);
  }

  Outcome run(const std::string& words, bool tune = true) {
    const std::string command = std::string("cd ") + directory_.path() + " && " + KILN_BIN_DIR + "/kiln " +
                                (tune ? "tune --runner " FAKE_RUNNER " " : "") + words + " 2>errors";
    Outcome out;
    std::FILE* pipe = ::popen(command.c_str(), "re");
    std::array<char, 4096> buffer;
    for (size_t count; (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
      out.output.append(buffer.data(), count);
    }
    const int status = ::pclose(pipe);
    out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    out.errors = read_text(directory_.file("errors"));
    return out;
  }

  // Launches that a runner was asked for, calibration included.
  size_t launches() const {
    const std::string log = read_text(directory_.file("log"));
    return static_cast<size_t>(std::count(log.begin(), log.end(), '\n'));
  }

  ScratchDirectory directory_;
};

TEST_F(TuneCommand, PrintsOneObjectAndMeasuresNothingTwice) {
  const Outcome first = run("jobs.jsonl --json --search exhaustive --report report.html");
  ASSERT_EQ(first.code, 0) << first.errors;
  const json result = json::parse(first.output);
  EXPECT_EQ(result["measured"], 16);
  EXPECT_EQ(result["failed"], 0);
  ASSERT_EQ(result["jobs"].size(), 2u);
  for (const json& job : result["jobs"]) EXPECT_EQ(job["best"]["us"], 40) << job;
  EXPECT_THAT(first.errors, HasSubstr("[2/2] says_how_long n=16: "));
  EXPECT_THAT(first.errors, ::testing::Not(HasSubstr("\r")));
  EXPECT_THAT(read_text(directory_.file("report.html")), HasSubstr("says_how_long n=16"));
  const size_t before = launches();
  const Outcome second = run("jobs.jsonl --json --search exhaustive");
  EXPECT_EQ(json::parse(second.output)["measured"], 0);
  EXPECT_EQ(json::parse(second.output)["jobs"][1]["best"]["us"], 40);
  EXPECT_EQ(launches(), before);
  // The same records by another way: exported, imported into another file, frozen.
  ASSERT_EQ(run("export records.jsonl").code, 0);
  ASSERT_EQ(run("import records.jsonl --db other.sqlite").code, 0);
  const Outcome frozen = run("jobs.jsonl --json --frozen --db other.sqlite");
  EXPECT_EQ(json::parse(frozen.output)["jobs"][0]["best"]["us"], 40) << frozen.errors;
  const Outcome golden = run("jobs.jsonl --json --frozen --golden records.jsonl --db third.sqlite");
  EXPECT_EQ(json::parse(golden.output)["jobs"][0]["best"]["us"], 40) << golden.errors;
  EXPECT_EQ(launches(), before);
}

TEST_F(TuneCommand, ConfigsThatFailCostThemselvesOnly) {
  write_text(directory_.file("failing.jsonl"),
             R"({"kernel":"how_long.kiln","shape":{"n":8},"space":{"us":[40,100],"behave":[0,1,2,4,6]}})");
  const Outcome outcome = run("failing.jsonl --json --search exhaustive");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const json result = json::parse(outcome.output);
  EXPECT_EQ(result["failed"], 8) << result;
  EXPECT_EQ(result["jobs"][0]["best"], json({{"behave", 0}, {"us", 40}}));
}

TEST_F(TuneCommand, PrintsRankedTables) {
  const Outcome outcome = run("jobs.jsonl --search exhaustive");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("rank  config"));
  EXPECT_THAT(outcome.output, HasSubstr("   1  behave=0,us=40 "));
  EXPECT_THAT(outcome.output, HasSubstr("2 of 2 jobs in "));
}

TEST_F(TuneCommand, RefusesBadInputBeforeAnythingRuns) {
  auto refusal = [&](const std::string& words) {
    const Outcome outcome = run(words);
    EXPECT_NE(outcome.code, 0) << words;
    return outcome.errors;
  };
  EXPECT_EQ(refusal("none.jsonl"), "kiln tune: none.jsonl: cannot be opened: No such file or directory\n");
  write_text(directory_.file("bad.jsonl"), R"({"kernel":"how_long.kiln","shape":{"m":8}})");
  EXPECT_THAT(refusal("jobs.jsonl bad.jsonl"), HasSubstr("bad.jsonl:1: `shape`: "));
  EXPECT_THAT(refusal("jobs.jsonl --budget soon"), HasSubstr("--budget soon: write a time such as 90s, 30m or 1h30m"));
  EXPECT_THAT(refusal("jobs.jsonl --search quick"), HasSubstr("--search quick: must be one of auto, exhaustive, "));
  EXPECT_THAT(refusal("jobs.jsonl --share 2"), HasSubstr("--share: must be above 0 and at most 1"));
  EXPECT_THAT(refusal("jobs.jsonl --report none/r.html"), HasSubstr("--report none/r.html: cannot be written there"));
  EXPECT_THAT(refusal(""), HasSubstr("no jobs file is named"));
  EXPECT_EQ(launches(), 0u);
}

TEST_F(TuneCommand, ReadsJobsFromStandardInput) {
  const Outcome outcome = run("- --json --frozen < jobs.jsonl");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(json::parse(outcome.output)["jobs"][1]["place"], "<stdin>:1");
}

TEST_F(TuneCommand, AnEndedBudgetIsNoFailure) {
  const Outcome outcome = run("jobs.jsonl --json --budget 0s");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const json result = json::parse(outcome.output);
  EXPECT_TRUE(result["out_of_budget"]);
  EXPECT_EQ(result["jobs"][1]["best"]["us"], 100);  // the default
}

TEST_F(TuneCommand, AnInterruptReportsWhatThereIs) {
  ASSERT_EQ(run("jobs.jsonl --frozen").code, 0);  // a daemon runs, so that the signal meets a search
  const std::string jobs = directory_.file("many.jsonl"), output = directory_.file("output");
  std::string shapes;
  for (int n = 1; n <= 200; ++n) shapes += (n > 1 ? "," : "") + std::string("{\"n\":") + std::to_string(n) + "}";
  write_text(jobs, R"({"kernel":"how_long.kiln","shapes":[)" + shapes + "]}");
  const pid_t child = ::fork();
  if (child == 0) {
    if (!std::freopen(output.c_str(), "w", stdout) || !std::freopen("/dev/null", "w", stderr)) ::_exit(1);
    const std::string kiln = std::string(KILN_BIN_DIR) + "/kiln";
    ::execl(kiln.c_str(), "kiln", "tune", "--runner", FAKE_RUNNER, jobs.c_str(), "--json", static_cast<char*>(nullptr));
    ::_exit(1);
  }
  for (int i = 0; i < 1000 && launches() < 5; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ::kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  const json result = json::parse(read_text(output));
  EXPECT_TRUE(result["stopped"]);
  EXPECT_EQ(result["jobs"].size(), 200u);
  EXPECT_EQ(result["jobs"][199]["state"], "not begun");
}

TEST(KilnTune, IsMissedByName) {
  ScratchDirectory directory;
  std::filesystem::copy(std::string(KILN_BIN_DIR) + "/kiln", directory.file("kiln"));
  std::FILE* pipe = ::popen((directory.file("kiln") + " tune jobs.jsonl 2>&1").c_str(), "re");
  std::array<char, 4096> buffer{};
  const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe);
  EXPECT_NE(::pclose(pipe), 0);
  EXPECT_THAT(std::string(buffer.data(), count), HasSubstr("/kiln-tune: cannot be started: No such file or directory"));
}

}  // namespace
}  // namespace kiln::autotune
