// Handles of kernels for a GPU: C++ arguments, streams, and the target that the client chooses.
#include <gmock/gmock.h>

#include "core.h"
#include "fake_case.h"
#include "function_state.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

using Handles = FakeCase;

// out = x + y, as the kernel `vector_add` has its parameters.
void add(const unsigned char* params, const unsigned*) {
  const float *x, *y;
  float* out;
  int n;
  std::memcpy(&x, params, 8);
  std::memcpy(&y, params + 8, 8);
  std::memcpy(&out, params + 16, 8);
  std::memcpy(&n, params + 24, 4);
  for (int i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

template <class... Args>
Function<Args...> handle_of(const dsl::KernelDef<Args...>& definition) {
  dsl::Kernel kernel = *definition.ir();
  dsl::Kernel fixed = kernel;
  for (dsl::Expr& extent : fixed.grid) extent = extent.substitute({{64}, {}});
  auto core = std::make_shared<client::Core>(client::ConnectOptions{}, false);
  client::CompileSpec spec{std::make_shared<const dsl::Kernel>(kernel), "cuda:sm_90a", {{"BLOCK", 64}}};
  auto variant = loaded(fixed, artifact_of(fixed));
  return Function<Args...>(UntypedFunction(client::FunctionState::make(core, std::move(spec), std::move(variant))));
}

TEST_F(Handles, TakeBuffersAndRawPointersAndStreams) {
  fake_kernel("kiln_entry", add);
  const auto fn = handle_of(kernels::vector_add<>());
  const Device device = open_device();
  const Stream stream = new_stream(device);
  std::vector<float> host(100, 1.25f);
  auto x = DeviceBuffer<float>::allocate(device, 100);
  auto out = DeviceBuffer<float>::allocate(device, 100);
  ASSERT_TRUE(x.ok() && out.ok());
  ASSERT_TRUE(x->copy_from(host).ok());
  ASSERT_TRUE(fn.launch({.stream = &stream}, *x, x->data(), *out, 100).ok());
  ASSERT_TRUE(stream.synchronise().ok());
  ASSERT_TRUE(out->copy_to(host).ok());
  EXPECT_EQ(host, std::vector<float>(100, 2.5f));
  EXPECT_EQ(fake_launch(0)->stream, stream.native());
  EXPECT_THAT(fake_launch(0)->grid, testing::ElementsAre(2, 1, 1));
  ASSERT_TRUE(fn(*x, *x, *out, 1).ok());
  EXPECT_EQ(fake_launch(1)->stream, nullptr);
}

TEST_F(Handles, RunOnStreamsOfOtherLibraries) {
  const auto fn = handle_of(kernels::vector_add<>());
  const Device device = open_device();
  const Stream theirs = new_stream(device);
  {
    const Stream ours = Stream::wrap(device, theirs.native());
    EXPECT_EQ(ours.device().state(), device.state());
    ASSERT_TRUE(fn.launch({.stream = &ours}, nullptr, nullptr, nullptr, 1).ok());
  }
  EXPECT_EQ(fake_launch(0)->stream, theirs.native());
  EXPECT_EQ(fake_live("stream"), 1);
}

TEST_F(Handles, CudaIsTheBestTargetOfTheFirstDevice) {
  client::Core core({}, false);
  auto target = core.resolve_target("cuda");
  ASSERT_TRUE(target.ok()) << target.error().message;
  EXPECT_EQ(*target, "cuda:sm_90a");
  EXPECT_EQ(*core.resolve_target("cuda:sm_80"), "cuda:sm_80");
}

}  // namespace
}  // namespace kiln::test
