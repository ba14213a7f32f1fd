// `kiln tune` as a user meets it: the built programs, with a runner that needs no device (fake_runner.cpp), whose
// configs say themselves how long they take and how they fail.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "batch_helpers.h"
#include "how_long_kernel.h"
#include "waiting.h"

namespace kiln::autotune {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kKernel = says_how_long_text({"us = [40, 70, 100, 150, 220, 330, 500, 750]", "behave = [0]"});

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
                                     {"KILN_FAKE_RUNNER_LOG", "log"},
                                     {"KILN_FAKE_RUNNER_COUNT", "runners"},
                                     {"KILN_FAKE_RUNNER_CONFIGS", "configs"}}) {
      ::setenv(name, directory_.file(file).c_str(), 1);
    }
    write_text(directory_.file("how_long.kiln"), kKernel);
    write_text(directory_.file("jobs.jsonl"), R"({"kernel":"how_long.kiln","shapes":[{"n":8},{"n":16}]})");
  }
  ~TuneCommand() override {
    run("stop", false);
    for (const char* name : {"KILN_RUNTIME_DIR", "KILN_CACHE_DIR", "XDG_DATA_HOME", "KILN_FAKE_RUNNER_LOG",
                             "KILN_FAKE_RUNNER_COUNT", "KILN_FAKE_RUNNER_CONFIGS"}) {
      ::unsetenv(name);
    }
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

  // Of a batch that goes on by itself; its object is in the file `output`.
  pid_t start(const std::string& jobs, const char* more = "--json") {
    const std::string path = directory_.file(jobs), output = directory_.file("output");
    const pid_t child = ::fork();
    if (child != 0) return child;
    if (!std::freopen(output.c_str(), "w", stdout) || !std::freopen("/dev/null", "w", stderr)) ::_exit(1);
    const std::string kiln = std::string(KILN_BIN_DIR) + "/kiln";
    ::execl(kiln.c_str(), "kiln", "tune", "--runner", FAKE_RUNNER, path.c_str(), "--json", more,
            static_cast<char*>(nullptr));
    ::_exit(1);
  }
  static int end_of(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::vector<std::string> lines(const std::string& name) const {
    std::vector<std::string> out;
    std::istringstream text(read_text(directory_.file(name)));
    for (std::string line; std::getline(text, line);) out.push_back(line);
    return out;
  }

  // A runner ends when its tuner has, but not at once: it may be in a measurement.
  bool runners_end() const {
    return eventually([&] {
      const std::vector<std::string> started = lines("runners");  // "started PID …"
      return std::none_of(started.begin(), started.end(),
                          [](const std::string& line) { return state_of(std::stoi(line.substr(8))).is_alive; });
    });
  }

  // Launches that a runner was asked for, calibration included.
  size_t launches() const {
    const std::string log = read_text(directory_.file("log"));
    return static_cast<size_t>(std::count(log.begin(), log.end(), '\n'));
  }

  ScratchDirectory directory_;
};

TEST_F(TuneCommand, ShipsWhatItChoseAndTakesWhatShips) {
  ASSERT_EQ(std::system(("mkdir " + directory_.file("tuned") + " && cp " + directory_.file("how_long.kiln") + " " +
                         directory_.file("tuned"))
                            .c_str()),
            0);
  const Outcome first = run("jobs.jsonl --search exhaustive --ship tuned/mine.jsonl");
  ASSERT_EQ(first.code, 0) << first.errors;
  EXPECT_EQ(lines("tuned/mine.jsonl").size(), 2u);
  const Outcome frozen = run("jobs.jsonl --json --frozen --db other.sqlite --shipped tuned");
  ASSERT_EQ(frozen.code, 0) << frozen.errors;
  const json frozen_jobs = json::parse(frozen.output)["jobs"];
  EXPECT_FALSE(frozen_jobs.empty());
  for (const json& job : frozen_jobs) EXPECT_EQ(job["best"]["us"], 40) << job;
  const Outcome without = run("jobs.jsonl --json --frozen --db other.sqlite --shipped /nonexistent");
  const json without_jobs = json::parse(without.output)["jobs"];
  EXPECT_FALSE(without_jobs.empty());
  for (const json& job : without_jobs) EXPECT_EQ(job["best"]["us"], 100) << job;
  write_text(directory_.file("tuned/mine.jsonl"), "nonsense");
  const Outcome wrong = run("jobs.jsonl --frozen --shipped tuned");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.errors, HasSubstr("mine.jsonl:1: not a JSON object"));
  EXPECT_THAT(run("jobs.jsonl --ship /nonexistent/x").errors, HasSubstr("--ship /nonexistent/x"));
}

TEST_F(TuneCommand, PredictsForADeviceThatIsNotHere) {
  write_text(directory_.file("softmax.jsonl"), R"({"kernel":"softmax","type":"bf16","shape":{"rows":4096,"cols":1024,)"
                                               R"("stride":1024},"space":{"BLOCK":[1024],"num_warps":[1,2]}})");
  const Outcome done = run("softmax.jsonl --predict a100 --ship a100.jsonl");
  ASSERT_EQ(done.code, 0) << done.errors;
  EXPECT_THAT(done.output, HasSubstr("predicted"));
  ASSERT_EQ(lines("a100.jsonl").size(), 1u);
  EXPECT_EQ(json::parse(lines("a100.jsonl")[0])["predicted_for"], "NVIDIA A100 80GB");
  EXPECT_EQ(launches(), 0u);
  EXPECT_THAT(run("softmax.jsonl --predict abacus").errors, HasSubstr("a100, l40s"));
}

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

// Also when its failure is but remembered, and where no config meets the kernel's conditions.
TEST_F(TuneCommand, AJobWithoutAWorkingDefaultEndsWithAFailure) {
  write_text(directory_.file("crash.jsonl"), R"({"kernel":"how_long.kiln","shape":{"n":8},"set":{"behave":4}})");
  for (const char* words : {"crash.jsonl", "crash.jsonl", "crash.jsonl --frozen"}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 1) << words;
    EXPECT_THAT(outcome.output, HasSubstr("cannot be measured: ")) << words;
  }
  std::string none = kKernel;
  none.insert(none.find("grid"), "where le(us, 0)\n  ");
  write_text(directory_.file("none.kiln"), none);
  write_text(directory_.file("none.jsonl"), R"({"kernel":"none.kiln","shape":{"n":8}})");
  const Outcome outcome = run("none.jsonl");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("le(us, 0) is false"));
}

// Names of jobs, of devices, messages of runners: a terminal shows them, and obeys none.
TEST_F(TuneCommand, WhatOthersSayIsNoEscapeSequence) {
  const std::string evil =
      "\x1b]0;owned\a\x7f\xc2\x9b"
      "2J";
  ::setenv("KILN_FAKE_RUNNER_SAYS", evil.c_str(), 1);
  write_text(directory_.file("evil.jsonl"),
             R"({"name":"job\u001b]0;owned\u0007","kernel":"how_long.kiln","shape":{"n":8},)"
             R"("space":{"us":[40,100],"behave":[0,2,4]}})");
  write_text(directory_.file("lost.jsonl"),
             R"({"name":"job\u001b]0;owned\u0007","kernel":"how_long.kiln","shape":{"n":8},)"
             R"("space":{"us":[40,70,100,150],"behave":[4]}})");
  const auto obeyed = [](const std::string& text) {
    const bool c0 = std::any_of(text.begin(), text.end(), [](unsigned char byte) {
      return byte == 0x7f || (byte < 0x20 && byte != '\n' && byte != '\t');
    });
    return c0 || text.find("\xc2\x9b") != std::string::npos;
  };
  std::string all;
  for (const char* words : {"evil.jsonl --search exhaustive --verbose", "evil.jsonl --search exhaustive --json",
                            "lost.jsonl --search exhaustive", "/nonexistent/\x1b[31m", "import evil.jsonl",
                            "evil.jsonl --predict 'a\x1b[31m'", "evil.jsonl --search '\x1b[31m'"}) {
    const Outcome outcome = run(words);
    EXPECT_FALSE(obeyed(outcome.output)) << words << "\n" << outcome.output;
    EXPECT_FALSE(obeyed(outcome.errors)) << words << "\n" << outcome.errors;
    all += outcome.output + outcome.errors;
  }
  for (const char* said : {"job?]0;owned?", "too many registers?]0;owned?", "something is wrong?]0;owned?"})
    EXPECT_THAT(all, HasSubstr(said));
  ::unsetenv("KILN_FAKE_RUNNER_SAYS");
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
  for (const char* words : {"jobs.jsonl --no-such-flag", "jobs.jsonl --threads many", "jobs.jsonl --budget"}) {
    EXPECT_EQ(run(words).code, 1) << words;
  }
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
  const pid_t child = start("many.jsonl");
  EXPECT_TRUE(eventually([&] { return launches() >= 5; }));
  ::kill(child, SIGINT);
  EXPECT_EQ(end_of(child), 130);
  const json result = json::parse(read_text(output));
  EXPECT_TRUE(result["stopped"]);
  EXPECT_EQ(result["jobs"].size(), 200u);
  EXPECT_EQ(result["jobs"][199]["state"], "not begun");
}

// A runner that says nothing for as long as its deadline lets it.
TEST_F(TuneCommand, AnInterruptDoesNotWaitForAHungRunner) {
  write_text(directory_.file("hung.jsonl"),
             R"({"kernel":"how_long.kiln","shape":{"n":8},"space":{"us":[40,100],"behave":[0,5]}})");
  ASSERT_EQ(run("hung.jsonl --frozen").code, 0);
  const pid_t child = start("hung.jsonl", "--search=exhaustive");
  auto hangs = [&] {
    const std::string log = read_text(directory_.file("log"));
    return log.ends_with("load 1\n") || log.ends_with("load 2\n") || log.ends_with("load 3\n");
  };
  // Still so after a while: others go on at once.
  int seen = 0;
  EXPECT_TRUE(eventually([&] { return (seen = hangs() ? seen + 1 : 0) >= 50; }));
  ::kill(child, SIGTERM);
  EXPECT_EQ(end_of(child), 130);
  const json result = json::parse(read_text(directory_.file("output")));
  EXPECT_TRUE(result["stopped"]);
  EXPECT_EQ(result["jobs"][0]["state"], "stopped");
  EXPECT_EQ(result["failed"], 0) << "it waited until the runner's time was over";
}

// What the records have of finished measurements, in the words of the runner's log. A search compares what it tries
// with the default and the best so far: these two are launched again.
std::set<std::string> finished_measurements(const std::string& records) {
  std::map<std::string, std::pair<double, std::string>> best;
  std::set<std::string> out, compared;
  std::istringstream text(read_text(records));
  for (std::string line; std::getline(text, line);) {
    const json object = json::parse(line);
    if (!object.contains("config")) continue;
    const std::string bucket = object["bucket"], shape = bucket.substr(2, bucket.find(';') - 2);
    const std::string name = shape + " " + to_string(object["config"].get<Config>());
    out.insert(name);
    if (object["is_default"] == true) compared.insert(name);
    const std::pair candidate{object["median_us"].get<double>(), name};
    const auto [found, first] = best.emplace(shape, candidate);
    if (!first) found->second = std::min(found->second, candidate);
  }
  for (const auto& [shape, candidate] : best) compared.insert(candidate.second);
  for (const std::string& name : compared) out.erase(name);
  return out;
}

// KILN_AUTOTUNE_FULL=1: 50 kills.
TEST_F(TuneCommand, KilledAnywhereItRepeatsNothing) {
  const int kills = std::getenv("KILN_AUTOTUNE_FULL") ? 50 : 6;
  write_text(
      directory_.file("batch.jsonl"),
      R"({"kernel":"how_long.kiln","shapes":[{"n":1},{"n":2},{"n":3},{"n":4},{"n":5},{"n":6},{"n":7},{"n":8}]})");
  ASSERT_EQ(run("batch.jsonl --frozen").code, 0);
  std::mt19937 random(17);
  int killed = 0;
  for (int i = 0; i < kills; ++i) {
    ASSERT_EQ(run("export records.jsonl").code, 0);
    const std::set<std::string> before = finished_measurements(directory_.file("records.jsonl"));
    const size_t begin = lines("configs").size();
    const pid_t child = start("batch.jsonl", i % 2 == 0 ? "--resume" : "--search=exhaustive");
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 600));
    ::kill(child, SIGKILL);
    killed += end_of(child) == 128 + SIGKILL;
    ASSERT_TRUE(runners_end());
    const std::vector<std::string> measured = lines("configs");
    for (size_t line = begin; line < measured.size(); ++line) {
      EXPECT_FALSE(before.contains(measured[line])) << measured[line] << ", kill " << i;
    }
  }
  EXPECT_GT(killed, 0);
  // Without --resume, which is content with what a search of a part of the space has finished.
  const Outcome last = run("batch.jsonl --json --search exhaustive");
  ASSERT_EQ(last.code, 0) << last.errors;
  const json result = json::parse(last.output);
  EXPECT_EQ(result["measured"].get<int>() + result["reused"].get<int>(), 64) << last.output;
  for (const json& job : result["jobs"]) EXPECT_EQ(job["best"]["us"], 40) << job;
  EXPECT_EQ(json::parse(run("batch.jsonl --json").output)["measured"], 0);
}

TEST_F(TuneCommand, NoiseLeavesTheChoiceWithinFivePercent) {
  write_text(directory_.file("noisy.jsonl"),
             R"({"kernel":"how_long.kiln","shape":{"n":8},"space":{"us":[70,77,84,92,105,120,150,200]}})");
  for (const char* seed : {"1", "2", "3"}) {
    ::setenv("KILN_FAKE_RUNNER_NOISE", seed, 1);
    const Outcome outcome = run(std::string("noisy.jsonl --json --share 1 --db noisy") + seed + ".sqlite");
    ::unsetenv("KILN_FAKE_RUNNER_NOISE");
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(json::parse(outcome.output)["jobs"][0]["best"]["us"], 70) << seed;
  }
}

TEST(KilnTune, IsMissedByName) {
  ScratchDirectory directory;
  std::filesystem::copy(std::string(KILN_BIN_DIR) + "/kiln", directory.file("kiln"));
  std::FILE* pipe = ::popen((directory.file("kiln") + " tune jobs.jsonl 2>&1").c_str(), "re");
  std::array<char, 4096> buffer{};
  const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe);
  EXPECT_NE(::pclose(pipe), 0);
  EXPECT_THAT(std::string(buffer.data(), count), HasSubstr("kiln-tune not found beside " + directory.file("")));
}

}  // namespace
}  // namespace kiln::autotune
