// `kiln exec`: how processors are shared, on machines that are not here, and instances that run here.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <set>
#include <sstream>

#include "cli_helpers.h"
#include "instances.h"

namespace kiln::cli::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two nodes of `cores` cores with two hardware threads each, numbered as Linux does: first all cores, then their
// second threads.
std::vector<Processor> machine(int cores) {
  std::vector<Processor> out;
  for (int thread = 0; thread < 2; ++thread) {
    for (int core = 0; core < 2 * cores; ++core) out.push_back({thread * 2 * cores + core, core / cores, core});
  }
  return out;
}

// "0-3@0 4-7@1": processors and node of each instance; "?" where it has none.
std::string planned(const std::vector<Processor>& processors, const InstanceWish& wish) {
  auto instances = plan_instances(processors, wish);
  if (!instances) return instances.error().message;
  std::string out;
  for (const Instance& instance : *instances) {
    out += (out.empty() ? "" : " ") + ranges_text(instance.processors) + "@" +
           (instance.node ? std::to_string(*instance.node) : "?");
  }
  return out;
}

TEST(Instances, AreOfCoresAndWithinNodes) {
  EXPECT_EQ(planned(machine(8), {}), "0-15@?");
  EXPECT_EQ(planned(machine(8), {.aim = Aim::kThroughput}), "0-7@0 8-15@1");
  EXPECT_EQ(planned(machine(8), {.aim = Aim::kLatency}), "0-3@0 4-7@0 8-11@1 12-15@1");
  EXPECT_EQ(planned(machine(8), {.aim = Aim::kLatency, .instances = 1}), "0-3@0");
  EXPECT_EQ(planned(machine(8), {.instances = 2}), "0-7@0 8-15@1");
  EXPECT_EQ(planned(machine(8), {.instances = 3}), "0-4@0 8-12@1 5-7,13-14@?");
  EXPECT_EQ(planned(machine(8), {.cores_per_instance = 6}), "0-5@0 8-13@1");
  EXPECT_EQ(planned(machine(8), {.cores_per_instance = 16}), "0-15@?");
  EXPECT_EQ(planned(machine(2), {.aim = Aim::kLatency}), "0-3@?");
  EXPECT_EQ(planned(machine(8), {.aim = Aim::kThroughput, .nodes = {1}}), "8-15@1");
  EXPECT_EQ(planned(machine(8), {.instances = 2, .nodes = {1}}), "8-11@1 12-15@1");
}

TEST(Instances, CountHardwareThreadsWhereAsked) {
  EXPECT_EQ(planned(machine(2), {.aim = Aim::kThroughput, .all_hardware_threads = true}), "0-1,4-5@0 2-3,6-7@1");
  EXPECT_EQ(planned(machine(2), {.cores_per_instance = 2, .all_hardware_threads = true}), "0,4@0 1,5@0 2,6@1 3,7@1");
}

TEST(Instances, OfMoreThanThereIsAreRefused) {
  EXPECT_THAT(planned(machine(2), {.instances = 5}), HasSubstr("5 instances of 1 cores each are more than the 4"));
  EXPECT_THAT(planned(machine(2), {.instances = 3, .cores_per_instance = 2}), HasSubstr("--hardware-threads"));
  EXPECT_THAT(planned(machine(2), {.instances = 1 << 30, .cores_per_instance = 4}), HasSubstr("are more than the 4"));
  EXPECT_THAT(planned(machine(2), {.nodes = {0, 7}}), HasSubstr("memory node 7 has no processor"));
  EXPECT_THAT(planned(machine(2), {.nodes = {7}}), HasSubstr("there are nodes 0-1"));
}

// Whatever is wished for, no processor is of two instances.
TEST(Instances, ShareNoProcessor) {
  for (int cores = 1; cores <= 5; ++cores) {
    for (int instances = 0; instances <= 10; ++instances) {
      for (int each = 0; each <= 10; ++each) {
        auto plan = plan_instances(machine(cores), {.instances = instances, .cores_per_instance = each});
        const bool fits = std::max(instances, 1) * std::max(each, 1) <= 2 * cores;
        ASSERT_EQ(plan.ok(), fits) << cores << " " << instances << " " << each;
        if (!plan) continue;
        std::set<int> seen;
        for (const Instance& instance : *plan) {
          if (each > 0) {
            EXPECT_EQ(instance.processors.size(), static_cast<size_t>(each));
          }
          for (const int processor : instance.processors) EXPECT_TRUE(seen.insert(processor).second);
        }
        if (instances > 0) {
          EXPECT_EQ(plan->size(), static_cast<size_t>(instances));
        }
      }
    }
  }
}

class ExecCommand : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    for (const char* name : {"OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND", "LD_PRELOAD"}) ::unsetenv(name);
  }
  // `kiln exec WORDS… -- sh -c SCRIPT`
  Outcome exec(std::vector<std::string> words, const std::string& script) {
    words.insert(words.begin(), "exec");
    for (const char* word : {"--", "sh", "-c"}) words.emplace_back(word);
    words.push_back(script);
    return kiln(words);
  }
};

TEST_F(ExecCommand, GivesEachInstanceItsCoresAndThreads) {
  const size_t usable = client::usable_processors().size();
  const Outcome outcome = exec({"--hardware-threads", "--cores-per-instance", "1", "--allocator", "none"},
                               "grep Cpus_allowed_list /proc/self/status >instance$KILN_INSTANCE; "
                               "echo $OMP_NUM_THREADS $OMP_PLACES $OMP_PROC_BIND >>instance$KILN_INSTANCE");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("kiln exec: " + std::to_string(usable) + " instance"));
  EXPECT_THAT(outcome.errors, HasSubstr("the system's malloc\n"));
  EXPECT_THAT(outcome.errors, HasSubstr(std::to_string(usable) + " run"));
  std::set<std::string> cores;
  for (size_t i = 0; i < usable; ++i) {
    std::istringstream said(read("instance" + std::to_string(i)));
    std::string name, core, threads, places, bind;
    said >> name >> core >> threads >> places >> bind;
    EXPECT_TRUE(cores.insert(core).second) << core;
    EXPECT_EQ(threads, "1");
    EXPECT_EQ(places, "{" + core + "}");
    EXPECT_EQ(bind, "close");
  }
}

TEST_F(ExecCommand, LeavesWhatTheUserHasSet) {
  ::setenv("OMP_NUM_THREADS", "7", 1);
  EXPECT_EQ(exec({"--allocator", "none"}, "echo $OMP_NUM_THREADS").output, "7\n");
  ::unsetenv("OMP_NUM_THREADS");
}

TEST_F(ExecCommand, RepeatsAndSaysHowLongRunsTook) {
  const Outcome outcome = exec({"--instances", "1", "--repeat", "3"}, "echo run");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "run\nrun\nrun\n");
  EXPECT_THAT(outcome.errors, ::testing::ContainsRegex("kiln exec: 3 runs in [0-9.]+ s: p50 [0-9.]+ s, p99 "
                                                       "[0-9.]+ s, [0-9.]+ runs/s\n"));
}

TEST_F(ExecCommand, EndsAsTheFirstRunThatFails) {
  Outcome outcome = exec({"--instances", "1", "--repeat", "3"}, "echo run; exit 7");
  EXPECT_EQ(outcome.code, 7);
  EXPECT_EQ(outcome.output, "run\n");  // and is not repeated
  EXPECT_THAT(outcome.errors, HasSubstr("kiln exec: instance 0 ended with status 7\n"));
  outcome = exec({"--instances", "1"}, "kill -9 $$");
  EXPECT_EQ(outcome.code, 137);
  EXPECT_THAT(outcome.errors, HasSubstr("kiln exec: instance 0 ended by signal 9\n"));
}

TEST_F(ExecCommand, SaysWhatItCannotDo) {
  expect_error({"exec"}, "program is required");
  expect_error({"exec", "--", "no-such-program"}, "exec: no-such-program cannot be started: No such file or directory");
  expect_error({"exec", "--instances", "4000", "--", "true"}, "are more than the");
  expect_error({"exec", "--node-list", "1000", "--", "true"}, "memory node 1000 has no processor");
  expect_error({"exec", "--latency", "--throughput", "--", "true"}, "excludes");
}

// What is asked to end asks its instances, and waits for them.
TEST_F(ExecCommand, PassesSignalsOn) {
  const pid_t process = ::fork();
  if (process == 0) {
    const std::string script = "trap 'echo asked >" + path("asked") + "; exit 0' TERM; echo >" + path("begun") +
                               "; while :; do sleep 0.01; done";
    ::execl(KILN_EXECUTABLE, "kiln", "exec", "--instances", "1", "--", "sh", "-c", script.c_str(), nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < 1000 && !exists("begun"); ++i) ::usleep(10'000);
  ASSERT_TRUE(exists("begun"));
  ::kill(process, SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(process, &status, 0), process);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read("asked"), "asked\n");
}

// A launcher that is killed leaves nobody behind.
TEST_F(ExecCommand, InstancesEndWithTheirLauncher) {
  const pid_t process = ::fork();
  if (process == 0) {
    const std::string script =
        "echo $$ >" + path("pid.part") + "; mv " + path("pid.part") + " " + path("pid") + "; exec sleep 1000";
    ::execl(KILN_EXECUTABLE, "kiln", "exec", "--instances", "1", "--", "sh", "-c", script.c_str(), nullptr);
    ::_exit(127);
  }
  for (int i = 0; i < 1000 && !exists("pid"); ++i) ::usleep(10'000);
  const pid_t instance = std::atoi(read("pid").c_str());
  ASSERT_GT(instance, 0);
  ::kill(process, SIGKILL);
  ASSERT_EQ(::waitpid(process, nullptr, 0), process);
  const auto is_gone = [&] {
    std::ifstream stat("/proc/" + std::to_string(instance) + "/stat");
    std::string number, name, state;
    return !(stat >> number >> name >> state) || state == "Z";
  };
  for (int i = 0; i < 1000 && !is_gone(); ++i) ::usleep(10'000);
  EXPECT_TRUE(is_gone());
}

}  // namespace
}  // namespace kiln::cli::testing
