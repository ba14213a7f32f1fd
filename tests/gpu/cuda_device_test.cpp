// The harness's part for CUDA devices (tests/support/harness/cuda_device.h), on the fake driver.
#include "cuda_device.h"

#include "fake_case.h"

namespace kiln::test {
namespace {

using CudaDevice = FakeCase;

int32_t* pointer_of(const unsigned char* params) {
  int32_t* out;
  std::memcpy(&out, params, sizeof out);
  return out;
}

// Runs `work` as the kernel of one buffer of three numbers.
Result<void> run(FakeKernel work, std::vector<TestArgument>& arguments,
                 const nlohmann::json& more = nlohmann::json::object()) {
  const dsl::Kernel kernel = kernel_of("%y: ptr<i32>, %n: i32");
  const Artifact artifact = artifact_of(kernel, more);
  fake_kernel("kiln_entry", work);
  arguments = {buffer(std::vector<int32_t>{1, 2, 3}), scalar_bits(3)};
  return run_on(open_device(), kernel, artifact, arguments, {});
}

TEST_F(CudaDevice, BuffersComeBack) {
  std::vector<TestArgument> arguments;
  auto add = [](const unsigned char* params, const unsigned*) { pointer_of(params)[1] += 40; };
  EXPECT_EQ(message(run(add, arguments)), "");
  EXPECT_EQ(values_of<int32_t>(arguments[0]), (std::vector<int32_t>{1, 42, 3}));
}

TEST_F(CudaDevice, WritesBesideABufferAreErrors) {
  std::vector<TestArgument> arguments;
  auto behind = [](const unsigned char* params, const unsigned*) { pointer_of(params)[3] = 0; };
  auto before = [](const unsigned char* params, const unsigned*) { pointer_of(params)[-1] = 0; };
  EXPECT_EQ(message(run(behind, arguments)), "the kernel wrote outside of buffer `y` of 12 bytes: at byte 12");
  EXPECT_EQ(message(run(before, arguments)), "the kernel wrote outside of buffer `y` of 12 bytes: at byte -4");
}

TEST_F(CudaDevice, AddressesAreNoBetterAlignedThanTheFactsSay) {
  std::vector<TestArgument> arguments;
  auto store_alignment = [](const unsigned char* params, const unsigned*) {
    *pointer_of(params) = static_cast<int32_t>(reinterpret_cast<uintptr_t>(pointer_of(params)) % 16);
  };
  EXPECT_EQ(message(run(store_alignment, arguments)), "");
  EXPECT_EQ(values_of<int32_t>(arguments[0])[0], 4);
  EXPECT_EQ(message(run(store_alignment, arguments, {{"facts", {"align16", "none"}}})), "");
  EXPECT_EQ(values_of<int32_t>(arguments[0])[0], 0);
}

// What the runner counts on: the process ends, and says why. The child begins anew: the driver, and the fake of it,
// have threads that a fork does not copy.
TEST_F(CudaDevice, AFaultEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto fault = [](const unsigned char*, const unsigned*) { fake_break(0, 700); };
  std::vector<TestArgument> arguments;
  EXPECT_EXIT((void)run(fault, arguments), testing::ExitedWithCode(1), "the device is lost: ");
}

}  // namespace
}  // namespace kiln::test
