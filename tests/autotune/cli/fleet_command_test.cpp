// `kiln tune --fleet` and `kilnd --tune-worker` as a user meets them: the built programs, a real redis-server, and a
// runner that needs no device.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>

#include "batch_helpers.h"
#include "how_long_kernel.h"
#include "kiln/client/connection.h"
#include "kiln/wire/process.h"
#include "redis/redis_process.h"
#include "waiting.h"

namespace kiln::autotune {
namespace {

using nlohmann::json;
using redis_test::RedisProcess;
using ::testing::HasSubstr;

const std::string kKernel = says_how_long_text({"us = [40, 100, 330, 500]", "behave = [0]"});

class FleetCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!redis_test::redis_installed()) GTEST_SKIP() << "redis-server is not installed (tests/run.sh installs it)";
    write_text(directory_.file("how_long.kiln"), kKernel);
    write_text(directory_.file("jobs.jsonl"),
               R"({"kernel":"how_long.kiln","shapes":[{"n":8},{"n":16},{"n":32},{"n":64}]})");
    write_text(directory_.file("key"), std::string(40, 'k') + "\n");
    ::chmod(directory_.file("key").c_str(), 0600);
  }
  void TearDown() override {
    for (auto& [name, pid] : daemons_) end(pid, SIGKILL);
    run("asker", "kiln stop");
  }

  // The environment of a machine, as it were.
  std::string machine(const std::string& name) const {
    std::string out = "env KILN_RUNNER=" FAKE_RUNNER;
    for (const auto& [variable, file] : {std::pair("KILN_RUNTIME_DIR", "run"),
                                         {"KILN_CACHE_DIR", "cache"},
                                         {"XDG_DATA_HOME", "data"},
                                         {"KILN_FAKE_RUNNER_CONFIGS", "configs"}}) {
      out += std::string(" ") + variable + "=" + directory_.file(name + "-" + file);
    }
    return out + " ";
  }

  struct Outcome {
    int code = -1;
    std::string output, errors;
  };
  Outcome run(const std::string& name, const std::string& words) const {
    const std::string command = "cd " + directory_.path() + " && " + machine(name) + KILN_BIN_DIR "/" + words + " 2>" +
                                directory_.file(name + "-errors");
    Outcome out;
    std::FILE* pipe = ::popen(command.c_str(), "re");
    std::array<char, 4096> buffer;
    for (size_t count; (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
      out.output.append(buffer.data(), count);
    }
    const int status = ::pclose(pipe);
    out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    out.errors = read_text(directory_.file(name + "-errors"));
    return out;
  }

  void start_worker(const std::string& name, const std::string& url, const std::string& more = "") {
    const std::string command = "exec " + machine(name) +
                                "KILN_FAKE_RUNNER_LAUNCH=10 " KILN_BIN_DIR "/kilnd --foreground " + more +
                                " --tune-lease 5 --tune-worker " + url + " --remote-key " + directory_.file("key") +
                                " 2>" + directory_.file(name + "-log");
    auto pid = wire::spawn({.command = {"/bin/sh", "-c", command}});
    ASSERT_TRUE(pid) << pid.error().message;
    daemons_[name] = *pid;
    EXPECT_TRUE(eventually([&] { return log(name).find("tune_worker_started") != std::string::npos; })) << log(name);
  }
  int end(pid_t& pid, int signal) const {
    if (pid <= 0) return 0;
    ::kill(pid, signal);
    int status = 0;
    ::waitpid(pid, &status, 0);
    pid = -1;
    return status;
  }
  std::string log(const std::string& name) const { return read_text(directory_.file(name + "-log")); }
  size_t measured(const std::string& name) const {
    const std::string lines = read_text(directory_.file(name + "-configs"));
    return static_cast<size_t>(std::count(lines.begin(), lines.end(), '\n'));
  }

  std::string records(const std::string& name) const {
    EXPECT_EQ(run(name, "kiln tune export records.jsonl").code, 0);
    std::istringstream text(read_text(directory_.file("records.jsonl")));
    std::string out;
    for (std::string line; std::getline(text, line);) {
      auto object = json::parse(line);
      // Workers calibrated their own machines.
      if (!object.contains("config")) continue;
      for (const char* field : {"created_ms", "predicted_us", "samples"}) object.erase(field);
      out += object.dump() + "\n";
    }
    return out;
  }

  ScratchDirectory directory_;
  std::map<std::string, pid_t> daemons_;
};

// Stopped it gives its job back, and nobody waits for its lease to end; killed, its job is taken over after the lease.
class FleetOfTwo : public FleetCommand, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Ends, FleetOfTwo, ::testing::Values(SIGTERM, SIGKILL));

TEST_P(FleetOfTwo, OfWhichOneEndsMidwayGivesTheRecordsOfOneMachine) {
  RedisProcess redis(directory_.path());
  start_worker("first", redis.url());
  const std::string key = directory_.file("key");
  Outcome fleet;
  {
    std::jthread asker([&] {
      fleet = run("asker",
                  "kiln tune jobs.jsonl --json --search exhaustive --fleet " + redis.url() + " --remote-key " + key);
    });
    EXPECT_TRUE(eventually([&] { return measured("first") > 2; })) << log("first");
    EXPECT_EQ(end(daemons_["first"], GetParam()), GetParam() == SIGKILL ? SIGKILL : 0) << log("first");
    start_worker("second", redis.url());
  }
  ASSERT_EQ(fleet.code, 0) << fleet.errors << log("second");
  const json result = json::parse(fleet.output);
  ASSERT_EQ(result["jobs"].size(), 4u);
  for (const json& job : result["jobs"]) {
    EXPECT_EQ(job["state"], "done");
    EXPECT_EQ(job["best"]["us"], 40) << job;
  }
  EXPECT_THAT(fleet.errors, HasSubstr("[4/4] says_how_long "));
  const Outcome alone = run("alone", "kiln tune jobs.jsonl --json --search exhaustive");
  ASSERT_EQ(alone.code, 0) << alone.errors;
  EXPECT_EQ(records("asker"), records("alone"));
  run("alone", "kiln stop");
  // What the fleet has measured serves whoever asks next.
  const size_t before = measured("second");
  const Outcome again =
      run("asker", "kiln tune jobs.jsonl --json --search exhaustive --fleet " + redis.url() + " --remote-key " + key);
  EXPECT_EQ(again.code, 0) << again.errors;
  EXPECT_EQ(json::parse(again.output)["measured"], 0);
  EXPECT_EQ(measured("second"), before);
}

TEST_F(FleetCommand, WhatIsWrongIsSaidBeforeAnythingRuns) {
  auto refusal = [&](const std::string& words) {
    const Outcome outcome = run("asker", words);
    EXPECT_EQ(outcome.code, 1) << words;
    return outcome.errors + outcome.output;
  };
  const std::string nowhere = "redis+unix://" + directory_.file("none.sock");
  EXPECT_THAT(refusal("kiln tune jobs.jsonl --fleet " + nowhere), HasSubstr("--fleet: whoever writes there has code"));
  EXPECT_THAT(refusal("kiln tune jobs.jsonl --fleet http://x --remote-trust"), HasSubstr("--fleet: neither redis://"));
  EXPECT_THAT(refusal("kiln tune jobs.jsonl --remote-trust --fleet " + nowhere), HasSubstr("none.sock: connect: "));
  EXPECT_THAT(refusal("kiln tune jobs.jsonl --frozen --fleet " + nowhere), HasSubstr("--frozen"));
  EXPECT_THAT(refusal("kiln tune --worker " + nowhere), HasSubstr("--worker: whoever writes there has code"));
  EXPECT_THAT(refusal("kiln tune --remote-trust --targets tpu --worker " + nowhere),
              HasSubstr("--targets tpu: a worker"));
  EXPECT_THAT(refusal("kiln tune --remote-trust --lease 0s --worker " + nowhere), HasSubstr("--lease 0s: a second"));
  EXPECT_THAT(refusal("kilnd --tune-worker " + nowhere), HasSubstr("--tune-worker: whoever writes there has code"));
  EXPECT_THAT(refusal("kilnd --remote-trust --tuner '' --tune-worker " + nowhere), HasSubstr("there is no kiln-tune"));
}

}  // namespace
}  // namespace kiln::autotune
