// The real kiln-runner on this machine's CPU, with artifacts of a real daemon.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <thread>

#include "kiln/autotune/runner_protocol.h"
#include "kiln/dsl/kernels.h"
#include "measure_lock.h"
#include "placement.h"
#include "runner_case.h"

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
    auto runner = start_runner({.executable = kRunner});
    ASSERT_TRUE(runner) << runner.error().message;
    runner_ = std::move(*runner);
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
  EXPECT_EQ(load(3, {{"MODE", 3}}, Seconds(1)).failure, Failure::kHang);
  EXPECT_EQ(load(4, {{"MODE", 4}}).failure, Failure::kNone);
  auto measured = runner_->measure(std::vector<CandidateId>{0, 4}, 2, kTime);
  ASSERT_TRUE(measured) << measured.error().message;
  for (const Round& round : measured->rounds) EXPECT_TRUE(round.us[0] > 0 && round.us[1] > 0);
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
  std::thread other([&held] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    held->reset();
  });
  const auto before = std::chrono::steady_clock::now();
  begin(kernel, workload_by(kernel, {{"n", 64}}));
  EXPECT_GT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
  other.join();
  int told = 0;
  auto first = lock_device({"cpu", 5}, [] {});
  auto second = lock_device({"cpu", 1.2}, [&told] { ++told; });
  ASSERT_TRUE(first);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another process has been measuring on cpu for 1 s"));
  EXPECT_EQ(told, 1);
}

bool is_alive(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string number, name, state;
  return (file >> number >> name >> state) && state != "Z";
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
  pid.pop_back();
  for (int i = 0; i < 500 && is_alive(pid); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(is_alive(pid));
}

TEST_F(CpuRunner, RefusesWhatItDoesNotUnderstand) {
  const std::string lines = R"(nonsense
{"id": 7, "request": "dance", "unknown": [1]}
{"id": 8, "request": "load", "candidate": -1}
{"id": 9, "request": "measure", "candidates": [4]}
{"id": 10, "request": "begin", "kernel": "/nonexistent", "cache": "cold", "workload": {"arguments": []}}
)";
  std::ofstream(path("lines")) << lines;
  const auto [text, code] = run(kRunner + " --threads 1 < " + path("lines"));
  EXPECT_EQ(code, 0);
  for (const char* part : {R"("hello":{)", "this line is no JSON object", R"(unknown request \"dance\")",
                           "a candidate is an unsigned number", "candidate 4 is not loaded", "/nonexistent"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7);  // one tells that candidate 4 is running
}

// On the fake of the CUDA driver, whose kernels do nothing: arguments, arrays, events and graphs are the real ones.
TEST_F(CpuRunner, SpeaksToAGpu) {
  set("KILN_CUDA_DRIVER", FAKE_CUDA);
  compiler_ = std::make_unique<TestCompiler>(path("run"));
  auto runner = start_runner({.executable = kRunner, .kind = "cuda"});
  ASSERT_TRUE(runner) << runner.error().message;
  runner_ = std::move(*runner);
  EXPECT_EQ(runner_->info().target, "cuda:sm_90a");
  EXPECT_THAT(runner_->info().fingerprint, HasSubstr("132 multiprocessors"));
  for (const auto& [kernel, cache] :
       {std::pair{kernels::histogram().ir(), Cache::kHot}, std::pair{kernels::vector_add<>().ir(), Cache::kCold},
        std::pair{kernels::vector_add<>().ir(), Cache::kHot}}) {
    begin(*kernel, workload_by(*kernel, {{"n", 4096}}), cache);
    const Config config = {{"BLOCK", 1024}};
    auto status = runner_->load(1, config, compiler_->compile_ptx(kernel_, config), kTime);
    ASSERT_TRUE(status) << status.error().message;
    ASSERT_EQ(status->failure, Failure::kNone) << status->message;
    auto measured = runner_->measure(std::vector<CandidateId>{1}, 2, kTime);
    ASSERT_TRUE(measured) << measured.error().message;
    EXPECT_EQ(measured->status[0].failure, Failure::kNone) << measured->status[0].message;
    EXPECT_FALSE(std::isnan(measured->rounds[1].us[0]));
  }
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
