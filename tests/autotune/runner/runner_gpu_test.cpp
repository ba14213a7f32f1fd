// The real kiln-runner on the fake of the CUDA driver: arguments, arrays, events and graphs are the real ones.
#include <cmath>

#include "kiln/confine/confine.h"
#include "kiln/dsl/kernels.h"
#include "runner_case.h"

namespace kiln::autotune {
namespace {

using testing::HasSubstr;

constexpr Seconds kTime(30);
const Config kConfig = {{"BLOCK", 1024}};

class GpuRunner : public RunnerCase {
 protected:
  void start() {
    set("KILN_CUDA_DRIVER", FAKE_CUDA);
    compiler_ = std::make_unique<TestCompiler>(path("run"));
    auto runner = start_runner({.executable = KILN_BIN_DIR "/kiln-runner", .kind = "cuda"});
    ASSERT_TRUE(runner) << runner.error().message;
    runner_ = std::move(*runner);
  }
  CandidateStatus load(const dsl::Kernel& kernel, Cache cache) {
    auto begun = runner_->begin(kernel, workload_by(kernel, {{"n", 4096}}), cache);
    if (!begun) ADD_FAILURE() << begun.error().message;
    auto status = runner_->load(1, kConfig, compiler_->compile_ptx(kernel, kConfig), kTime);
    if (!status) ADD_FAILURE() << status.error().message;
    return status ? *status : CandidateStatus{Failure::kCrash, status.error().message};
  }

  std::unique_ptr<TestCompiler> compiler_;
  std::unique_ptr<Runner> runner_;
};

// Kernels do nothing.
TEST_F(GpuRunner, Measures) {
  start();
  EXPECT_EQ(runner_->info().target, "cuda:sm_90a");
  EXPECT_THAT(runner_->info().fingerprint, HasSubstr("132 multiprocessors"));
  for (const auto& [kernel, cache] :
       {std::pair{kernels::histogram().ir(), Cache::kHot}, std::pair{kernels::vector_add<>().ir(), Cache::kCold},
        std::pair{kernels::vector_add<>().ir(), Cache::kHot}}) {
    const CandidateStatus status = load(*kernel, cache);
    ASSERT_EQ(status.failure, Failure::kNone) << status.message;
    auto measured = runner_->measure(std::vector<CandidateId>{1}, 2, kTime);
    ASSERT_TRUE(measured) << measured.error().message;
    EXPECT_EQ(measured->status[0].failure, Failure::kNone) << measured->status[0].message;
    EXPECT_FALSE(std::isnan(measured->rounds[1].us[0]));
  }
}

// Of code that a driver runs in its process, as it would run what a kernel has made of the driver. Where an attempt
// works, its number is the driver's error.
TEST_F(GpuRunner, ACandidateReachesNothingButItsDevice) {
  if (confine::landlock_version() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  confine::hide_from_others();  // as its parent, the tuner, does
  set("FAKE_CUDA_KERNEL", ESCAPING_GPU_KERNEL);
  start();
  const CandidateStatus status = load(*kernels::vector_add<>().ir(), Cache::kHot);
  EXPECT_EQ(status.failure, Failure::kNone) << status.message;
  EXPECT_FALSE(std::filesystem::exists("/tmp/kiln-escaped-gpu"));
}

}  // namespace
}  // namespace kiln::autotune
