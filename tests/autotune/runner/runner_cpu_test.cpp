// The real kiln-runner on this machine's CPU, with artifacts of a real daemon.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <thread>

#include "device.h"
#include "kiln/autotune/runner_protocol.h"
#include "kiln/client/artifact.h"
#include "kiln/confine/confine.h"
#include "kiln/dsl/kernels.h"
#include "measure_lock.h"
#include "placement.h"
#include "runner_case.h"
#include "waiting.h"

namespace kiln::autotune {
namespace {

using testing::HasSubstr;

constexpr Seconds kTime(30);
const std::string kRunner = KILN_BIN_DIR "/kiln-runner";

// By MODE: 0 and 4 right, 1 wrong, 2 stores far away, 3 loops for centuries.
constexpr const char* kTroubled = R"(kernel troubled(%x: ptr<i32> readonly, %y: ptr<i32>, %n: i32) {
  constexpr MODE = 0
  grid [n, 1, 1]
  array x = n
  array y = n
  %pid = program_id {axis = 0}
  %far = constant {value = eq(MODE, 2)*70368744177664, type = i64}
  %at = cast %pid {to = i64}
  %to = add %at, %far
  %from = addptr %x, %pid
  %v = load %from
  %bias = constant {value = eq(MODE, 1), type = i32}
  %w = add %v, %bias
  %zero = constant {value = 0, type = i64}
  %one = constant {value = 1, type = i64}
  %trips = constant {value = eq(MODE, 3)*4611686018427387904, type = i64}
  %r = for %i = %zero to %trips step %one carry (%a = %w) {
    %c = constant {value = 1664525, type = i32}
    %b = mul %a, %c
    %low = cast %i {to = i32}
    %d = xor %b, %low
    yield %d
  }
  %q = addptr %y, %to
  store %q, %r
})";

class CpuRunner : public RunnerCase {
 protected:
  void start() {
    compiler_ = std::make_unique<TestCompiler>(path("run"));
    start_stoppable();
  }
  // At `enough_`, what is asked of it ends.
  void start_stoppable() {
    auto runner = start_runner({.executable = kRunner, .stop = enough_.get_token()});
    ASSERT_TRUE(runner) << runner.error().message;
    runner_ = std::move(*runner);
  }
  // One that hangs on the device until `enough_`.
  std::thread hanging_candidate() {
    return std::thread([this] {
      const Config config = {{"MODE", 3}};
      const auto status = runner_->load(3, config, compiler_->compile(kernel_, config), Seconds(600));
      EXPECT_TRUE(!status && status.error().code == ErrorCode::kCancelled);
    });
  }
  void begin(const dsl::Kernel& kernel, const Workload& workload, Cache cache = Cache::kHot) {
    kernel_ = kernel;
    auto begun = runner_->begin(kernel, workload, cache);
    ASSERT_TRUE(begun) << begun.error().message;
  }
  CandidateStatus load(CandidateId id, const Config& config, Seconds deadline = kTime) {
    auto status = runner_->load(id, config, compiler_->compile(kernel_, config), deadline);
    if (!status) ADD_FAILURE() << status.error().message;
    return status ? *status : CandidateStatus{Failure::kCrash, status.error().message};
  }

  std::unique_ptr<TestCompiler> compiler_;
  std::stop_source enough_;
  std::unique_ptr<Runner> runner_;
  dsl::Kernel kernel_;
};

struct LibraryCase {
  const dsl::Kernel* kernel;
  std::map<std::string, double> scalars;
  std::vector<Config> configs;
};

// All configs give one result, though some kernels update their arrays in place, and all are measured.
TEST_F(CpuRunner, MeasuresTheLibrary) {
  start();
  const std::vector<LibraryCase> cases = {
      {&*kernels::vector_add<>().ir(), {{"n", 100000}}, {{{"BLOCK", 1024}}, {{"BLOCK", 4096}}}},
      {&*kernels::softmax<>().ir(),
       {{"rows", 64}, {"cols", 1000}, {"stride", 1000}},
       {{{"BLOCK", 1024}}, {{"BLOCK", 2048}}}},
      {&*kernels::adamw<>().ir(),
       {{"n", 50000},
        {"lr", 1e-3},
        {"beta1", 0.9},
        {"beta2", 0.99},
        {"eps", 1e-8},
        {"weight_decay", 0.01},
        {"step", 7}},
       {{{"BLOCK", 1024}}, {{"BLOCK", 4096}}}},
      {&*kernels::histogram().ir(), {{"n", 100000}}, {{{"BLOCK", 4096}}, {{"BLOCK", 16384}}}},
      {&*kernels::sort_rows<>().ir(), {{"rows", 16}, {"cols", 500}}, {{{"BLOCK", 512}}, {{"BLOCK", 1024}}}},
      {&*kernels::matmul<dsl::lang::bf16>().ir(),
       {{"M", 100}, {"N", 120}, {"K", 200}},
       {{{"BM", 32}, {"BN", 32}, {"BK", 32}}, {{"BM", 64}, {"BN", 32}, {"BK", 64}}}}};
  for (const LibraryCase& one : cases) {
    for (Cache cache : {Cache::kCold, Cache::kHot}) {
      begin(*one.kernel, workload_by(*one.kernel, one.scalars), cache);
      for (CandidateId id = 0; id < one.configs.size(); ++id) {
        const CandidateStatus status = load(id, one.configs[id]);
        ASSERT_EQ(status.failure, Failure::kNone) << one.kernel->name << ": " << status.message;
      }
      auto measured = runner_->measure(std::vector<CandidateId>{0, 1}, 3, kTime);
      ASSERT_TRUE(measured) << measured.error().message;
      for (const Round& round : measured->rounds) {
        for (double us : round.us) EXPECT_TRUE(us > 0 && us < 1e6) << one.kernel->name << ": " << us;
      }
    }
  }
}

TEST_F(CpuRunner, ACandidateThatMisbehavesCostsItself) {
  start();
  const dsl::Kernel kernel = parsed(kTroubled);
  begin(kernel, workload_by(kernel, {{"n", 64}}));
  EXPECT_EQ(load(0, {{"MODE", 0}}).failure, Failure::kNone);
  const CandidateStatus crash = load(2, {{"MODE", 2}});
  EXPECT_EQ(crash.failure, Failure::kCrash);
  EXPECT_THAT(crash.message, HasSubstr("Segmentation fault"));
  std::ifstream file(path("run/kiln-runner.crash"));
  const std::string report((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(report, HasSubstr("crashed by signal 11"));
  EXPECT_THAT(report, HasSubstr("kiln-runner " KILN_VERSION ", build-id "));
  EXPECT_THAT(report, HasSubstr("in flight: candidate 2 of kernel troubled\n"));
  EXPECT_EQ(load(3, {{"MODE", 3}}, Seconds(1)).failure, Failure::kHang);
  EXPECT_EQ(load(4, {{"MODE", 4}}).failure, Failure::kNone);
  auto measured = runner_->measure(std::vector<CandidateId>{0, 4}, 2, kTime);
  ASSERT_TRUE(measured) << measured.error().message;
  for (const Round& round : measured->rounds) EXPECT_TRUE(round.us[0] > 0 && round.us[1] > 0);
}

// The only child of this process: the daemon is nobody's.
pid_t only_child() {
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    pid_t child = -1;
    if (std::ifstream(thread.path() / "children") >> child) return child;
  }
  return -1;
}

// It says nothing, takes no SIGTERM, and holds the machine's lock: the candidate's deadline ends it.
TEST_F(CpuRunner, OneThatIsStoppedForGoodCostsACandidateAndIsReplaced) {
  start();
  const dsl::Kernel kernel = parsed(kTroubled);
  begin(kernel, workload_by(kernel, {{"n", 64}}));
  EXPECT_EQ(load(0, {{"MODE", 0}}).failure, Failure::kNone);
  const pid_t runner = only_child();
  ASSERT_GT(runner, 0);
  ::kill(runner, SIGSTOP);
  EXPECT_EQ(load(1, {{"MODE", 4}}, Seconds(1)).failure, Failure::kHang);
  EXPECT_FALSE(state_of(runner).is_alive);
  EXPECT_EQ(load(4, {{"MODE", 4}}).failure, Failure::kNone);
  auto measured = runner_->measure(std::vector<CandidateId>{0, 4}, 2, kTime);
  ASSERT_TRUE(measured) << measured.error().message;
  for (const Round& round : measured->rounds) EXPECT_TRUE(round.us[0] > 0 && round.us[1] > 0);
}

// Its entry returns the number of the first thing that worked.
TEST_F(CpuRunner, ACandidateReachesNothingButItsArrays) {
  confine::hide_from_others();  // as its parent, the tuner, does
  start();
  const dsl::Kernel kernel = parsed(kTroubled);
  begin(kernel, workload_by(kernel, {{"n", 64}}));
  Artifact escaping = compiler_->compile(kernel, {{"MODE", 0}});
  std::ifstream file(ESCAPING_CPU_KERNEL, std::ios::binary);
  const std::string code((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(code));
  escaping.code.assign(bytes.begin(), bytes.end());
  auto status = runner_->load(1, {{"MODE", 0}}, escaping, kTime);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(status->failure, Failure::kNone) << status->message;
  EXPECT_FALSE(std::filesystem::exists("/tmp/kiln-escaped-cpu"));
  EXPECT_EQ(std::filesystem::file_size(path("run/measure-cpu.lock")), 0u);
  // And what it has written is no report, until it crashes.
  EXPECT_FALSE(std::filesystem::exists(path("run/kiln-runner.crash")));
  EXPECT_EQ(load(2, {{"MODE", 2}}).failure, Failure::kCrash);
  std::ifstream report_file(path("run/kiln-runner.crash"));
  const std::string report((std::istreambuf_iterator<char>(report_file)), {});
  EXPECT_THAT(report, HasSubstr("?]0;owned?"));
  EXPECT_EQ(report.find('\x1b'), std::string::npos);
  EXPECT_LE(report.size(), 16u << 10);
}

// Output of a command, and its exit code.
std::pair<std::string, int> run(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string out;
  for (int c; (c = std::fgetc(pipe)) != EOF;) out.push_back(static_cast<char>(c));
  return {out, WEXITSTATUS(::pclose(pipe))};
}

TEST_F(CpuRunner, AWrongResultCanBeReproduced) {
  start();
  const dsl::Kernel kernel = parsed(kTroubled);
  begin(kernel, workload_by(kernel, {{"n", 64}}));
  EXPECT_EQ(load(0, {{"MODE", 0}}).failure, Failure::kNone);
  const CandidateStatus status = load(1, {{"MODE", 1}});
  ASSERT_EQ(status.failure, Failure::kWrongResult);
  EXPECT_THAT(status.message, HasSubstr("array `y`: 64 of 64 elements differ"));
  const std::string kept = status.message.substr(status.message.find("kept in ") + 8);
  ::setenv("LSAN_OPTIONS", "detect_leaks=0", 0);  // it would have to trace what is confined
  const auto [text, code] = run(kRunner + " --reproduce " + kept);
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, HasSubstr("wrong_result: array `y`: 64 of 64 elements differ"));
  // With the right code in place of the wrong one it is gone.
  for (const char* suffix : {"", ".json"}) {
    std::filesystem::copy_file(kept + "/expected" + suffix, kept + "/actual" + suffix,
                               std::filesystem::copy_options::overwrite_existing);
  }
  EXPECT_EQ(run(kRunner + " --reproduce " + kept).second, 0);
  EXPECT_EQ(run(kRunner + " --reproduce /nonexistent 2>/dev/null").second, 2);
}

// Whoever made the directory.
TEST_F(CpuRunner, WhatIsReproducedIsConfined) {
  start();
  const dsl::Kernel kernel = parsed(kTroubled);
  begin(kernel, workload_by(kernel, {{"n", 64}}));
  EXPECT_EQ(load(0, {{"MODE", 0}}).failure, Failure::kNone);
  const std::string message = load(1, {{"MODE", 1}}).message;
  const std::string kept = message.substr(message.find("kept in ") + 8);
  std::filesystem::copy_file(ESCAPING_CPU_KERNEL, kept + "/expected",
                             std::filesystem::copy_options::overwrite_existing);
  const auto [text, code] = run(kRunner + " --reproduce " + kept);
  EXPECT_FALSE(std::filesystem::exists("/tmp/kiln-escaped-cpu"));
  EXPECT_EQ(code, 1) << text;
  EXPECT_THAT(text, HasSubstr("113")) << "it finds nothing that it may lock";
  std::filesystem::remove("/tmp/kiln-escaped-cpu");
}

TEST_F(CpuRunner, SaysWhatItIs) {
  start();
  const RunnerInfo& info = runner_->info();
  EXPECT_EQ(info.target, "cpu");
  EXPECT_EQ(info.threads, static_cast<int>(choose_cpus(0)->size()));
  EXPECT_THAT(info.fingerprint, AllOf(HasSubstr(info.device), HasSubstr(std::to_string(info.threads) + " thread")));
  auto again = start_runner({.executable = kRunner});
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->info().fingerprint, info.fingerprint);
  auto one = start_runner({.executable = kRunner, .threads = 1});
  ASSERT_TRUE(one);
  EXPECT_EQ((*one)->info().threads, 1);
  EXPECT_THAT(start_runner({.executable = kRunner, .threads = 100000}).error().message, HasSubstr("100000 threads"));
}

// Two runners of one machine: one measures, the other waits and says so.
TEST_F(CpuRunner, NeverMeasuresBesideAnother) {
  start();
  const dsl::Kernel kernel = parsed(kTroubled);
  auto held = lock_device({"cpu", 1}, [] {});
  ASSERT_TRUE(held) << held.error().message;
  std::atomic<bool> ended = false;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    ended = true;
    *held = DeviceLock();
  });
  begin(kernel, workload_by(kernel, {{"n", 64}}));
  EXPECT_TRUE(ended) << "it began while the other measured";
  other.join();
}

// Who waits says so once a second, and before it gives up: also where it got no time between the two, as here.
TEST_F(CpuRunner, WhoWaitsForADeviceSaysSo) {
  auto held = lock_device({"cpu", 60}, [] {});
  ASSERT_TRUE(held) << held.error().message;
  const pid_t waiter = ::fork();
  if (waiter == 0) {
    int told = 0;
    const auto refused = lock_device({"cpu", 1.2}, [&told] { ++told; });
    const bool says = !refused && refused.error().message.find("another process has been measuring on cpu for 1 s") !=
                                      std::string::npos;
    ::_exit(says && told > 0 ? 0 : 1);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ::kill(waiter, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  ::kill(waiter, SIGCONT);
  int status = -1;
  ASSERT_EQ(::waitpid(waiter, &status, 0), waiter);
  EXPECT_EQ(status, 0);
}

// What lies in its place and leads elsewhere is not opened, and not waited at.
TEST_F(CpuRunner, TheLockFollowsNoLink) {
  std::filesystem::create_directory(path("run"));
  std::filesystem::permissions(path("run"), std::filesystem::perms::owner_all);
  std::filesystem::create_symlink(path("victim"), path("run/measure-link.lock"));
  ASSERT_EQ(::mkfifo(path("run/measure-fifo.lock").c_str(), 0600), 0);
  for (const std::string device : {"link", "fifo"}) {
    auto refused = lock_device({device, 0}, [] {});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("measure-" + device + ".lock: it is "));
  }
  EXPECT_FALSE(std::filesystem::exists(path("victim")));
}

// Of two users, say: each has a runtime directory, which nobody chose.
TEST_F(CpuRunner, TheLockIsTheMachines) {
  ::unsetenv("KILN_RUNTIME_DIR");
  const std::string device = "test-" + std::to_string(::getpid());
  set("XDG_RUNTIME_DIR", path("one"));
  std::filesystem::create_directory(path("one"));
  std::filesystem::permissions(path("one"), std::filesystem::perms::owner_all);
  auto first = lock_device({device, 0}, [] {});
  ASSERT_TRUE(first) << first.error().message;
  set("XDG_RUNTIME_DIR", path("two"));
  std::filesystem::create_directory(path("two"));
  std::filesystem::permissions(path("two"), std::filesystem::perms::owner_all);
  EXPECT_FALSE(lock_device({device, 0}, [] {}));
  set("KILN_RUNTIME_DIR", path("three"));
  EXPECT_TRUE(lock_device({device, 0}, [] {}));
  ::unsetenv("KILN_RUNTIME_DIR");
  *first = DeviceLock();
  EXPECT_TRUE(lock_device({device, 0}, [] {}));
}

// By the word of a process that gives up binding names, to one beside it.
TEST_F(CpuRunner, TheMachinesLockIsKeptForWhoMayBindNoName) {
  ::unsetenv("KILN_RUNTIME_DIR");
  const std::string device = "test-" + std::to_string(::getpid());
  set("XDG_RUNTIME_DIR", path("one"));
  std::filesystem::create_directory(path("one"));
  std::filesystem::permissions(path("one"), std::filesystem::perms::owner_all);
  auto keeper = NameKeeper::start(device);
  ASSERT_TRUE(keeper) << keeper.error().message;
  const LockOptions kept{.device = device, .patience_s = 0, .keeper = &*keeper},
      bound{.device = device, .patience_s = 0};
  // By files of their own, so that the name alone keeps them apart.
  const auto elsewhere = [&](const LockOptions& options) {
    set("XDG_RUNTIME_DIR", path("two"));
    auto out = lock_device(options, [] {});
    set("XDG_RUNTIME_DIR", path("one"));
    return out;
  };
  std::filesystem::create_directory(path("two"));
  std::filesystem::permissions(path("two"), std::filesystem::perms::owner_all);
  for (int i = 0; i < 3; ++i) {
    auto first = lock_device(kept, [] {});
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_FALSE(elsewhere(bound));
    *first = DeviceLock();
    auto second = elsewhere(bound);
    ASSERT_TRUE(second) << "it was given back";
    EXPECT_FALSE(lock_device(kept, [] {}));
  }
  auto last = lock_device(kept, [] {});
  ASSERT_TRUE(last);
  *keeper = NameKeeper();  // whoever had it is gone
  EXPECT_TRUE(eventually([&] { return elsewhere(bound).ok(); }));
}

// As two users' tuners, who have chosen no directory.
TEST_F(CpuRunner, AConfinedRunnerHoldsTheMachinesLock) {
  compiler_ = std::make_unique<TestCompiler>(path("run"));
  ::unsetenv("KILN_RUNTIME_DIR");
  for (const char* user : {"one", "two"}) {
    std::filesystem::create_directory(path(user));
    std::filesystem::permissions(path(user), std::filesystem::perms::owner_all);
  }
  set("XDG_RUNTIME_DIR", path("one"));
  start_stoppable();
  const dsl::Kernel kernel = parsed(kTroubled);
  begin(kernel, workload_by(kernel, {{"n", 64}}));
  std::thread hanging = hanging_candidate();
  set("XDG_RUNTIME_DIR", path("two"));
  const auto measures = [] { return !lock_device({"cpu", 0}, [] {}); };
  EXPECT_TRUE(eventually(measures));
  enough_.request_stop();
  hanging.join();
  EXPECT_TRUE(eventually([&] { return !measures(); }));
}

// Of a kernel that takes as many steps as its array says, and then writes a number of steps for centuries into it.
constexpr const char* kConsuming = R"(kernel consuming(%x: ptr<i64>) {
  constexpr SALT = 0
  grid [1, 1, 1]
  array x = 1
  %trips = load %x
  %zero = constant {value = 0, type = i64}
  %one = constant {value = 1, type = i64}
  %odd = constant {value = 2*SALT + 1664525, type = i64}
  %sum = for %i = %zero to %trips step %one carry (%a = %zero) {
    %b = mul %a, %odd
    %c = xor %b, %i
    yield %c
  }
  %bit = and %sum, %one
  %far = constant {value = 4611686018427387904, type = i64}
  %left = add %far, %bit
  store %x, %left
})";

TEST_F(CpuRunner, ArraysInPlaceAreRestoredBeforeEachLaunch) {
  start();
  const dsl::Kernel kernel = parsed(kConsuming);
  Workload workload = workload_by(kernel, {});
  workload.arguments[0].range = {5, 6};
  for (Cache cache : {Cache::kCold, Cache::kHot}) {
    begin(kernel, workload, cache);
    for (CandidateId id : {0, 1}) EXPECT_EQ(load(id, {{"SALT", id}}).failure, Failure::kNone);
    auto measured = runner_->measure(std::vector<CandidateId>{0, 1}, 3, kTime);
    ASSERT_TRUE(measured) << measured.error().message;
    for (const CandidateStatus& status : measured->status) EXPECT_EQ(status.failure, Failure::kNone) << status.message;
  }
}

// The device itself, in this process.
class CpuDevice : public RunnerCase {
 protected:
  void SetUp() override {
    RunnerCase::SetUp();
    auto device = open_cpu({1});
    ASSERT_TRUE(device);
    device_ = std::move(*device);
  }
  UntypedFunction compiled(const dsl::Kernel& kernel, const Config& config) {
    if (!compiler_) compiler_ = std::make_unique<TestCompiler>(path("run"));
    auto function = client::load_artifact(kernel, compiler_->compile(kernel, config));
    if (!function) ADD_FAILURE() << function.error().message;
    return function ? *function : UntypedFunction();
  }
  void make_arrays(const std::vector<uint64_t>& bytes) {
    ASSERT_TRUE(device_->allocate(bytes));
    for (size_t i = 0; i < bytes.size(); ++i) ASSERT_TRUE(device_->fill(i, 0));
  }
  double time_us(const UntypedFunction& function, const std::vector<Argument>& arguments, int launches, Cache cache) {
    auto us = device_->time_us(function, arguments, launches, cache, 1);
    if (!us) ADD_FAILURE() << us.error().message;
    return us ? us->front() : 0;
  }

  std::unique_ptr<MeasuredDevice> device_;
  std::unique_ptr<TestCompiler> compiler_;
};

// Hot: a launch that does not count, then as many as are wanted. Cold: one launch.
TEST_F(CpuDevice, WarmsUpWhereCachesAreHot) {
  const dsl::Kernel kernel = parsed(R"(kernel counts(%x: ptr<i32>) {
  grid [1, 1, 1]
  array x = 1
  %old = load %x
  %one = constant {value = 1, type = i32}
  %new = add %old, %one
  store %x, %new
})");
  const UntypedFunction function = compiled(kernel, {});
  make_arrays({4});
  const std::vector<Argument> arguments = {{device_->data(0), 1, 0}};
  auto launched = [&](int launches, Cache cache) {
    EXPECT_TRUE(device_->fill(0, 0));
    (void)time_us(function, arguments, launches, cache);
    int32_t count = 0;
    EXPECT_TRUE(device_->read(0, std::as_writable_bytes(std::span(&count, 1))));
    return count;
  };
  EXPECT_EQ(launched(7, Cache::kHot), 8);
  EXPECT_EQ(launched(1, Cache::kCold), 1);
  // A kept array is as it was when the launch that counts begins.
  ASSERT_TRUE(device_->fill(0, 0));
  ASSERT_TRUE(device_->keep(0));
  EXPECT_EQ(launched(1, Cache::kHot), 1);
}

// What is called cold comes from memory: the same launch, in turns, takes longer.
TEST_F(CpuDevice, ColdLaunchesFindNothingInTheCaches) {
  const dsl::Kernel& kernel = *kernels::vector_add<>().ir();
  const UntypedFunction function = compiled(kernel, {});
  constexpr int64_t kElements = 64 << 10;
  make_arrays(std::vector<uint64_t>(3, 4 * kElements));
  std::vector<Argument> arguments;
  for (size_t i = 0; i < 3; ++i) arguments.push_back({device_->data(i), kElements, 0});
  arguments.push_back({nullptr, 0, kElements});
  std::vector<double> cold, hot;
  for (int i = 0; i < 25; ++i) {
    cold.push_back(time_us(function, arguments, 1, Cache::kCold));
    hot.push_back(time_us(function, arguments, 1, Cache::kHot));
  }
  std::sort(cold.begin(), cold.end());
  std::sort(hot.begin(), hot.end());
  EXPECT_GT(cold[12], hot[12]);
}

// As of `kiln tune` and a daemon's tuner: the second runner's turn comes when the first one's is over, here by its end.
TEST_F(CpuRunner, TwoTunersMeasureInTurn) {
  start();
  const dsl::Kernel kernel = parsed(kTroubled);
  const Workload workload = workload_by(kernel, {{"n", 64}});
  begin(kernel, workload);
  std::thread hanging = hanging_candidate();
  const auto measures = [] { return !lock_device({"cpu", 0}, [] {}); };
  EXPECT_TRUE(eventually(measures));
  auto second = start_runner({.executable = kRunner});
  ASSERT_TRUE(second) << second.error().message;
  std::atomic<bool> has_begun = false;
  std::thread waiting([&] {
    auto begun = (*second)->begin(kernel, workload, Cache::kHot);
    EXPECT_TRUE(begun) << begun.error().message;
    has_begun = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_FALSE(has_begun) << "the second began while the first measured";
  enough_.request_stop();
  hanging.join();
  waiting.join();
}

// Though it never sees the end of its input.
TEST_F(CpuRunner, EndsWithTheProcessThatStartedIt) {
  const std::string input = path("input"), output = path("output");
  ASSERT_EQ(::mkfifo(input.c_str(), 0600), 0);
  const wire::UniqueFd open_end(::open(input.c_str(), O_RDWR | O_CLOEXEC));
  std::string pid = run(kRunner + " --threads 1 <" + input + " >" + output + " 2>&1 & until grep -q hello " + output +
                        "; do sleep 0.02; done; echo $!")
                        .first;
  ASSERT_FALSE(pid.empty());
  EXPECT_TRUE(eventually([number = std::stoi(pid)] { return !state_of(number).is_alive; }));
}

TEST_F(CpuRunner, RefusesWhatItDoesNotUnderstand) {
  const std::string lines = R"(nonsense
{"id": 7, "request": "dance", "unknown": [1]}
{"id": 8, "request": "load", "candidate": -1}
{"id": 9, "request": "measure", "candidates": [4]}
{"id": 10, "request": "begin", "kernel": "/nonexistent", "cache": "cold", "workload": {"arguments": []}}
)";
  std::ofstream(path("lines")) << lines;
  ::setenv("LSAN_OPTIONS", "detect_leaks=0", 0);  // it would want to look from outside, which a runner does not allow
  const auto [text, code] = run(kRunner + " --threads 1 < " + path("lines"));
  EXPECT_EQ(code, 0);
  for (const char* part : {R"("hello":{)", "this line is no JSON object", R"(unknown request \"dance\")",
                           "a candidate is an unsigned number", "candidate 4 is not loaded", "/nonexistent"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7);  // one tells that candidate 4 is running
}

TEST(Placement, OneThreadACore) {
  auto all = choose_cpus(0);
  ASSERT_TRUE(all);
  ASSERT_GE(all->size(), 1u);
  EXPECT_EQ(choose_cpus(1)->size(), 1u);
  EXPECT_FALSE(choose_cpus(static_cast<int>(all->size()) + 1));
}

}  // namespace
}  // namespace kiln::autotune
