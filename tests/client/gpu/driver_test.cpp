// The driver itself: absent, too old, or without a device; and the names of targets.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <span>

#include "device_case.h"
#include "gpu/cuda_target.h"
#include "gpu/vendor.h"

namespace kiln::test {
namespace {

using client::gpu::cuda::best_target;
using client::gpu::cuda::check_capability;
using client::gpu::cuda::check_driver;
using client::gpu::cuda::note_on;
using testing::HasSubstr;

// Each test names a library, since one that is open stays open.
void use_driver(const char* path) { ::setenv("KILN_CUDA_DRIVER", path, 1); }

TEST(CudaDriver, ThatIsAbsentIsNamed) {
  use_driver("/nowhere/libcuda.so.1");
  const auto none = devices("cuda");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(none.error().message, testing::StartsWith("no CUDA driver (/nowhere/libcuda.so.1: "));
  EXPECT_EQ(message(Device::open("cuda")), none.error().message);
  Client client;
  EXPECT_EQ(message(client.get(kernel_of("%n: i32"), {.target = "cuda"})), none.error().message);
}

TEST(CudaDriver, ThatIsNoneIsSaidToLack) {
  use_driver(FAKE_CUDA_ANCIENT);
  EXPECT_EQ(message(devices("cuda")),
            std::string("the CUDA driver ") + FAKE_CUDA_ANCIENT +
                " is too old: it is for CUDA 11.4 and has no cuGraphInstantiateWithFlags; what Kiln "
                "needs is a driver of CUDA 11.8 or later");
}

// Machine code, for an old driver does not translate PTX of today.
Artifact machine_code(const dsl::Kernel& kernel, nlohmann::json more = nlohmann::json::object()) {
  more["emit"] = "cubin";
  return artifact_of(kernel, more);
}

// What old drivers lack is missed only by kernels that need it.
TEST(CudaDriver, ThatIsOldRunsWhatItCan) {
  use_driver(FAKE_CUDA_OLD);
  const dsl::Kernel kernel = kernel_of("%x: ptr<f32>");
  EXPECT_EQ(message(launch(*loaded(kernel, machine_code(kernel)), kernel, {pointer(nullptr)})), "");
  EXPECT_THAT(message(launch(*loaded(kernel, machine_code(kernel, {{"device", {{"cluster", {1, 1, 1}}}}})), kernel,
                             {pointer(nullptr)}, {.grid = {{2, 1, 1}}})),
              "");
  EXPECT_EQ(message(launch(*loaded(kernel, machine_code(kernel, {{"device", {{"waits", true}}}})), kernel,
                           {pointer(nullptr)})),
            "");
  EXPECT_THAT(message(launch(*loaded(kernel, machine_code(kernel, {{"device", {{"cluster", {2, 1, 1}}}}})), kernel,
                             {pointer(nullptr)}, {.grid = {{2, 1, 1}}})),
              HasSubstr("this CUDA driver is too old for clusters of blocks: it has no cuLaunchKernelEx, as one of "
                        "CUDA 11.8 or later "
                        "has"));
  const nlohmann::json one = nlohmann::json::array({nlohmann::json::array({1, nlohmann::json::array()})});
  const nlohmann::json map = {
      {"param", 0}, {"type", "f32"}, {"rank", 1}, {"dims", {one}}, {"strides_bytes", nlohmann::json::array()},
      {"box", {4}}};
  EXPECT_THAT(
      message(launch(*loaded(kernel, machine_code(kernel, {{"device", {{"tensor_maps", {map}}}}})), kernel,
                     {pointer(nullptr)})),
      HasSubstr("this CUDA driver is too old for tensor maps: it has no cuTensorMapEncodeTiled, as one of CUDA 12.0 "
                "or later has"));
}

TEST(CudaDriver, ThatDoesNotStartSaysWhy) {
  use_driver(FAKE_CUDA_UNSTARTED);
  EXPECT_EQ(message(devices("cuda")), std::string("the CUDA driver ") + FAKE_CUDA_UNSTARTED +
                                          " does not start: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)");
}

TEST(CudaTarget, IsTheBestOfTheDevice) {
  EXPECT_EQ(best_target({8, 0}), "cuda:sm_80");
  EXPECT_EQ(best_target({8, 9}), "cuda:sm_89");
  EXPECT_EQ(best_target({9, 0}), "cuda:sm_90a");
  EXPECT_EQ(best_target({10, 3}), "cuda:sm_103a");
  EXPECT_EQ(best_target({12, 0}), "cuda:sm_120a");
  EXPECT_EQ(note_on({12, 0}), "");
}

TEST(CudaTarget, OfADeviceThatIsNewerThanAllIsPtxForTheDriver) {
  EXPECT_EQ(best_target({14, 0}), "cuda:compute_121");
  EXPECT_EQ(
      note_on({14, 0}),
      "compute capability 14.0 is newer than what this version of Kiln makes machine code for: the driver translates "
      "PTX of compute_121");
  EXPECT_TRUE(check_capability("cuda:compute_121", "ptx", {14, 0}).ok());
  EXPECT_TRUE(check_capability("cuda:compute_121", "ptx", {12, 1}).ok());
  EXPECT_FALSE(check_capability("cuda:compute_121", "ptx", {12, 0}).ok());
}

TEST(CudaTarget, ADriverThatIsTooOldForThePtxIsToldWhichVersionItNeeds) {
  EXPECT_TRUE(check_driver("cuda:sm_120", "ptx", 12080).ok());
  EXPECT_TRUE(check_driver("cuda:sm_120", "cubin", 12040).ok()) << "machine code asks no translator";
  EXPECT_TRUE(check_driver("cuda:sm_120", "ptx", 0).ok());
  EXPECT_EQ(message(check_driver("cuda:sm_120;x=1", "ptx", 12040)),
            "needs a driver of CUDA 12.8 or later, and this one is of CUDA 12.4");
  EXPECT_EQ(message(check_driver("cuda:compute_121", "ptx", 12080)),
            "needs a driver of CUDA 12.9 or later, and this one is of CUDA 12.8");
}

TEST(CudaTarget, RunsWhereItMay) {
  auto runs = [](const char* target, const char* emit, int major, int minor) {
    return check_capability(target, emit, {major, minor}).ok();
  };
  EXPECT_TRUE(runs("cuda:sm_80", "cubin", 8, 0));
  EXPECT_TRUE(runs("cuda:sm_80", "cubin", 8, 9));
  EXPECT_FALSE(runs("cuda:sm_86", "cubin", 8, 0));
  EXPECT_FALSE(runs("cuda:sm_80", "cubin", 9, 0));
  EXPECT_TRUE(runs("cuda:sm_80", "ptx", 9, 0));
  EXPECT_TRUE(runs("cuda:sm_80", "ptx", 12, 0));
  EXPECT_FALSE(runs("cuda:sm_90", "ptx", 8, 9));
  EXPECT_TRUE(runs("cuda:sm_90a", "cubin", 9, 0));
  EXPECT_TRUE(runs("cuda:sm_90a", "ptx", 9, 0));
  EXPECT_FALSE(runs("cuda:sm_90a", "ptx", 10, 0));
  EXPECT_FALSE(runs("cuda:sm_90b", "ptx", 9, 0));
  EXPECT_FALSE(runs("cuda:sm_", "ptx", 9, 0));
  EXPECT_FALSE(runs("cpu:x86-64-v3", "ptx", 9, 0));
  EXPECT_TRUE(runs("cuda:sm_120a;x=1", "cubin", 12, 0));
}

// A device file that is the system's alone is named, and one that is not there is no reason. As somebody else than
// root, who may open all.
TEST(CudaDriver, MayBeKeptFromItsDevice) {
  std::string name = (std::filesystem::temp_directory_path() / "kiln-device-XXXXXX").string();
  const int made = ::mkstemp(name.data());
  ASSERT_GE(made, 0);
  ::close(made);
  ASSERT_EQ(::chmod(name.c_str(), 0), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(2);
    const char* const files[] = {"/nowhere/device", name.c_str()};
    const std::string expected = "; this process may not open " + name + ": Permission denied";
    ::_exit(client::gpu::closed_files(files) == expected && client::gpu::closed_files(std::span(files).first(1)).empty()
                ? 0
                : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  std::filesystem::remove(name);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace kiln::test
