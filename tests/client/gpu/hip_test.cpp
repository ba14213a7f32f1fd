// AMD's GPUs through the client, on a fake of the HIP runtime.
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>

#include "device_case.h"
#include "fake_hip.h"
#include "gpu/hip_api.h"
#include "kiln/dsl/text.h"

namespace kiln::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Hip : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("KILN_HIP_DRIVER", FAKE_HIP, 1);
    fake_hip_reset(2);
  }
  void TearDown() override {
    EXPECT_STREQ(fake_hip_misuse(), "");
    EXPECT_EQ(fake_hip_live(), 0);
  }
};

Artifact code_object(const dsl::Kernel& kernel, const std::string& target = "amd:gfx942") {
  Artifact out = artifact_of(kernel, {{"target", target}, {"emit", "hsaco"}, {"device", {{"threads", 256}}}});
  out.code.push_back({});  // the fake reads its text up to a zero
  return out;
}

Device open_amd(int ordinal) {
  auto device = Device::open("amd", ordinal);
  if (!device) ADD_FAILURE() << device.error().message;
  return std::move(*device);
}

TEST_F(Hip, ListsDevicesWithTheirTargets) {
  auto present = devices("amd");
  ASSERT_TRUE(present.ok()) << message(present);
  ASSERT_EQ(present->size(), 2u);
  EXPECT_EQ((*present)[0].target, "amd:gfx942");
  EXPECT_EQ((*present)[1].target, "amd:gfx1100");
  EXPECT_EQ((*present)[1].name, "Fake gfx 1");
  EXPECT_EQ((*present)[0].kind, "amd");
  EXPECT_EQ((*present)[0].multiprocessors, 304u);
  EXPECT_EQ((*present)[0].shared_bytes, 65536u);
  EXPECT_EQ((*present)[0].memory_bytes, uint64_t{64} << 30);
  EXPECT_EQ(message(Device::open("amd", 2)), "there is no device amd:2; the HIP runtime sees 2");
}

TEST_F(Hip, WithoutTheLibraryThereIsAnErrorThatNamesIt) {
  ::setenv("KILN_HIP_DRIVER", "/nowhere/libamdhip64.so", 1);
  EXPECT_THAT(message(devices("amd")), HasSubstr("no HIP runtime (/nowhere/libamdhip64.so: "));
  ::setenv("KILN_HIP_DRIVER", FAKE_CUDA, 1);  // which has none of its functions
  EXPECT_EQ(message(devices("amd")),
            "the HIP runtime is too old: it has no hipInit; what Kiln needs is that of ROCm 5.0 or later");
  ::setenv("KILN_HIP_DRIVER", FAKE_HIP, 1);
  fake_hip_fail("hipGetDeviceCount", 100);
  EXPECT_EQ(message(devices("amd")), "hipGetDeviceCount: a fake error (hipErrorNoDevice)");
}

TEST_F(Hip, FindsTheProcessorInPropertiesOfAnyLayout) {
  using client::gpu::hip::processor_of;
  const std::string name(256, 'x');
  const std::string zero(1, '\0');
  EXPECT_EQ(processor_of(name + "gfx90a:sramecc+" + zero), "gfx90a");
  EXPECT_EQ(processor_of(name + "gfx" + zero + "12gfx1201" + zero), "gfx1201");
  EXPECT_EQ(processor_of("gfx942" + zero + name), "") << "the device's name";
  EXPECT_EQ(processor_of(name + "gfx942"), "") << "has no end";
}

TEST_F(Hip, LaunchesWithPackedArguments) {
  const dsl::Kernel kernel = kernel_of("%n: i8, %x: ptr<f32>, %a: f64, %m: i16", "[m, n, 2]");
  auto variant = loaded(kernel, code_object(kernel));
  ASSERT_TRUE(variant);
  const double a = 2.5;
  uint64_t bits = 0;
  std::memcpy(&bits, &a, sizeof bits);
  float x = 0;
  ASSERT_EQ(message(launch(*variant, kernel, {scalar(3), pointer(&x), scalar(bits), scalar(7)})), "");
  ASSERT_EQ(fake_hip_launches(), 1u);
  const FakeHipLaunch& sent = *fake_hip_launch(0);
  EXPECT_STREQ(sent.entry, "kiln_entry");
  EXPECT_THAT(sent.grid, ElementsAre(7, 3, 2));
  EXPECT_THAT(sent.block, ElementsAre(256, 1, 1));
  EXPECT_EQ(sent.device, 0);
  EXPECT_EQ(sent.params[0], 3);
  float* sent_x = nullptr;
  std::memcpy(&sent_x, sent.params + 8, sizeof sent_x);
  EXPECT_EQ(sent_x, &x);
  EXPECT_EQ(std::memcmp(sent.params + 16, &a, sizeof a), 0);
  EXPECT_EQ(sent.params[24], 7);
  EXPECT_EQ(sent.bytes, 26u);
}

// Nothing reaches the runtime, also where there would be nothing to do.
TEST_F(Hip, LaunchesThatBreakAConditionAreRefused) {
  const auto kernel = dsl::parse(
      "kernel row(%n: i32, %cols: i32) {\n  where le(cols, 64), \"a row must fit a block\"\n  grid [n, 1, 1]\n}\n",
      "row.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  auto variant = loaded(*kernel, code_object(*kernel));
  ASSERT_TRUE(variant);
  const char* refused = "kernel `row`: le(cols, 64) is false (cols=65): a row must fit a block";
  EXPECT_EQ(message(launch(*variant, *kernel, {scalar(3), scalar(65)})), refused);
  EXPECT_EQ(message(launch(*variant, *kernel, {scalar(0), scalar(65)})), refused);
  EXPECT_EQ(fake_hip_launches(), 0u);
  EXPECT_EQ(message(launch(*variant, *kernel, {scalar(3), scalar(64)})), "");
  EXPECT_EQ(fake_hip_launches(), 1u);
}

TEST_F(Hip, CodeGoesToTheDeviceItWasMadeFor) {
  const dsl::Kernel kernel = kernel_of("");
  auto variant = loaded(kernel, code_object(kernel, "amd:gfx1100"));
  ASSERT_TRUE(variant);
  ASSERT_EQ(message(launch(*variant, kernel, {})), "");
  EXPECT_EQ(fake_hip_launch(0)->device, 1);
  EXPECT_THAT(
      message(load(kernel, code_object(kernel, "amd:gfx90a"))),
      HasSubstr("cannot run on amd:0 (Fake gfx 0): it needs a device of that kind, and this one is `amd:gfx942`"));
  const Stream other = new_stream(open_amd(0));
  EXPECT_THAT(message(launch(*variant, kernel, {}, {.stream = &other})), HasSubstr("this one is `amd:gfx942`"));
}

TEST_F(Hip, CopiesEventsAndGraphsGoByStreams) {
  const Device device = open_amd(1);
  const Stream stream = new_stream(device);
  auto x = DeviceBuffer<int32_t>::allocate(device, 4);
  ASSERT_TRUE(x.ok());
  const std::vector<int32_t> host = {1, 2, 3, 4};
  ASSERT_EQ(message(x->copy_from(host)), "");
  const dsl::Kernel kernel = kernel_of("%x: ptr<i32>");
  auto variant = loaded(kernel, code_object(kernel, "amd:gfx1100"));
  ASSERT_TRUE(variant);
  fake_hip_kernel([](const unsigned char* params, const unsigned*) {
    int32_t* at = nullptr;
    std::memcpy(&at, params, sizeof at);
    at[2] += 10;
  });
  auto before = Event::create(device), after = Event::create(device);
  ASSERT_TRUE(before.ok() && after.ok());
  auto graph =
      Recording::capture(stream, [&] { return launch(*variant, kernel, {pointer(x->data())}, {.stream = &stream}); });
  ASSERT_TRUE(graph.ok()) << message(graph);
  EXPECT_EQ(fake_hip_launches(), 0u);
  ASSERT_EQ(message(before->record(stream)), "");
  for (int i = 0; i < 3; ++i) ASSERT_EQ(message(graph->replay(stream)), "");
  ASSERT_EQ(message(after->record(stream)), "");
  EXPECT_EQ(*elapsed_ms(*before, *after), 3.0f);
  ASSERT_EQ(message(stream.synchronise()), "");
  std::vector<int32_t> back(4);
  ASSERT_EQ(message(x->copy_to(back)), "");
  EXPECT_THAT(back, ElementsAre(1, 2, 33, 4));
  ASSERT_EQ(message(x->fill(0xff, stream)), "");
  ASSERT_EQ(message(x->copy_to(back)), "");
  EXPECT_THAT(back, ElementsAre(-1, -1, -1, -1));
}

TEST_F(Hip, ErrorsAreInTheRuntimesWords) {
  const Device device = open_amd(0);
  fake_hip_fail("hipMalloc", 2);
  auto none = DeviceMemory::allocate(device, 100);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(none.error().message, HasSubstr("hipMalloc: out of memory (hipErrorOutOfMemory)"));
  const dsl::Kernel kernel = kernel_of("");
  fake_hip_fail("hipModuleLoadData", 209);
  EXPECT_THAT(message(load(kernel, code_object(kernel))),
              HasSubstr("hipModuleLoadData: a fake error (hipErrorNoBinaryForGpu)"));
  Artifact clustered = code_object(kernel);
  clustered.metadata.device->cluster = {2, 1, 1};
  auto variant = loaded(kernel, clustered);
  ASSERT_TRUE(variant);
  EXPECT_THAT(message(launch(*variant, kernel, {}, {.grid = {{2, 1, 1}}})), HasSubstr("no clusters"));
}

TEST_F(Hip, ABrokenDeviceIsSaidToBeBroken) {
  const dsl::Kernel kernel = kernel_of("");
  auto variant = loaded(kernel, code_object(kernel));
  ASSERT_TRUE(variant);
  const Device device = open_amd(0);
  fake_hip_fail("hipDeviceSynchronize", 719);
  const std::string first = message(device.synchronise());
  EXPECT_THAT(first, HasSubstr("unspecified launch failure (hipErrorLaunchFailure)"));
  EXPECT_THAT(first, HasSubstr("only a new process helps"));
}

TEST_F(Hip, TheCallersDeviceStaysCurrent) {
  const Device second = open_amd(1);
  auto memory = DeviceMemory::allocate(second, 64);
  ASSERT_TRUE(memory.ok());
  auto first = DeviceMemory::allocate(open_amd(0), 64);  // were the second device current, freeing would be misuse
  EXPECT_TRUE(first.ok());
}

}  // namespace
}  // namespace kiln::test
