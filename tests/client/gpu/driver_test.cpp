// The driver itself: absent, too old, or without a device; and the names of targets.
#include <gmock/gmock.h>

#include "device_case.h"
#include "gpu/cuda_target.h"

namespace kiln::test {
namespace {

using client::gpu::cuda::best_target;
using client::gpu::cuda::check_capability;
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
  EXPECT_EQ(message(devices("cuda")), std::string("the CUDA driver ") + FAKE_CUDA_ANCIENT +
                                          " is too old: it is for CUDA 11.4 and has no cuGraphInstantiateWithFlags");
}

// What old drivers lack is missed only by kernels that need it.
TEST(CudaDriver, ThatIsOldRunsWhatItCan) {
  use_driver(FAKE_CUDA_OLD);
  const dsl::Kernel kernel = kernel_of("%x: ptr<f32>");
  EXPECT_EQ(message(launch(*loaded(kernel, artifact_of(kernel)), kernel, {pointer(nullptr)})), "");
  EXPECT_THAT(message(launch(*loaded(kernel, artifact_of(kernel, {{"device", {{"cluster", {1, 1, 1}}}}})), kernel,
                             {pointer(nullptr)}, {.grid = {{2, 1, 1}}})),
              "");
  EXPECT_EQ(message(launch(*loaded(kernel, artifact_of(kernel, {{"device", {{"waits", true}}}})), kernel,
                           {pointer(nullptr)})),
            "");
  EXPECT_THAT(message(launch(*loaded(kernel, artifact_of(kernel, {{"device", {{"cluster", {2, 1, 1}}}}})), kernel,
                             {pointer(nullptr)}, {.grid = {{2, 1, 1}}})),
              HasSubstr("this CUDA driver is too old for clusters of blocks: it has no cuLaunchKernelEx"));
  const nlohmann::json one = nlohmann::json::array({nlohmann::json::array({1, nlohmann::json::array()})});
  const nlohmann::json map = {
      {"param", 0}, {"type", "f32"}, {"rank", 1}, {"dims", {one}}, {"strides_bytes", nlohmann::json::array()},
      {"box", {4}}};
  EXPECT_THAT(message(launch(*loaded(kernel, artifact_of(kernel, {{"device", {{"tensor_maps", {map}}}}})), kernel,
                             {pointer(nullptr)})),
              HasSubstr("this CUDA driver is too old for tensor maps: it has no cuTensorMapEncodeTiled"));
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
  EXPECT_EQ(best_target({12, 0}), "cuda:sm_120a");
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

}  // namespace
}  // namespace kiln::test
