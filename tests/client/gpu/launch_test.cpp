// Launches: the parameter block, the grid, shared memory, tensor maps, plans, clusters.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <thread>

#include "allocations.h"
#include "fake_case.h"
#include "function_state.h"
#include "kiln/dsl/text.h"

namespace kiln::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using Launches = FakeCase;

// sum of products, as docs/reference/artifact.md has expressions
json param_expr(int i) { return json::array({json::array({1, json::array({json::array({"p", i})})})}); }
json constant_expr(int64_t value) { return json::array({json::array({value, json::array()})}); }
json scaled_param(int64_t by, int i) { return json::array({json::array({by, json::array({json::array({"p", i})})})}); }

TEST_F(Launches, PackEveryTypeAtItsOffset) {
  const dsl::Kernel kernel = kernel_of(
      "%b: i1, %i8: i8, %i16: i16, %i32: i32, %i64: i64, %u8: u8, %u16: u16, %u32: u32, %u64: u64, %f16: f16, "
      "%bf16: bf16, %f32: f32, %f64: f64, %e4: f8e4m3, %e5: f8e5m2, %p: ptr<bf16> readonly, %last: i8");
  auto variant = loaded(kernel, artifact_of(kernel));
  int target = 0;
  const uint64_t f32 = std::bit_cast<uint32_t>(1.5f), f64 = std::bit_cast<uint64_t>(-2.25);
  ASSERT_TRUE(launch(*variant, kernel,
                     {scalar(1), scalar(0xfe), scalar(0xfffd), scalar(0xfffffffc), scalar(uint64_t(-5)), scalar(250),
                      scalar(65000), scalar(4000000000), scalar(uint64_t{1} << 63), scalar(0x3c00), scalar(0x3f80),
                      scalar(f32), scalar(f64), scalar(0x38), scalar(0x3c), pointer(&target), scalar(9)})
                  .ok());
  ASSERT_EQ(fake_launches(), 1u);
  const FakeLaunch& sent = *fake_launch(0);
  EXPECT_EQ(parameter<uint8_t>(sent, 0), 1);
  EXPECT_EQ(parameter<int8_t>(sent, 1), -2);
  EXPECT_EQ(parameter<int16_t>(sent, 2), -3);
  EXPECT_EQ(parameter<int32_t>(sent, 4), -4);
  EXPECT_EQ(parameter<int64_t>(sent, 8), -5);
  EXPECT_EQ(parameter<uint8_t>(sent, 16), 250);
  EXPECT_EQ(parameter<uint16_t>(sent, 18), 65000);
  EXPECT_EQ(parameter<uint32_t>(sent, 20), 4000000000u);
  EXPECT_EQ(parameter<uint64_t>(sent, 24), uint64_t{1} << 63);
  EXPECT_EQ(parameter<uint16_t>(sent, 32), 0x3c00);
  EXPECT_EQ(parameter<uint16_t>(sent, 34), 0x3f80);
  EXPECT_EQ(parameter<float>(sent, 36), 1.5f);
  EXPECT_EQ(parameter<double>(sent, 40), -2.25);
  EXPECT_EQ(parameter<uint8_t>(sent, 48), 0x38);
  EXPECT_EQ(parameter<uint8_t>(sent, 49), 0x3c);
  EXPECT_EQ(parameter<void*>(sent, 56), &target);
  EXPECT_EQ(parameter<uint8_t>(sent, 64), 9);
  EXPECT_EQ(sent.bytes, 65u);
}

// No driver outlives a fork(): the child is told, at once, and the parent goes on.
TEST_F(Launches, InTheChildOfAForkAreErrors) {
  const dsl::Kernel kernel = kernel_of("%n: i32");
  auto variant = loaded(kernel, artifact_of(kernel));
  const pid_t pid = ::fork();
  if (pid == 0) {
    const auto says_so = [](const std::string& text) { return text.find("before fork()") != std::string::npos; };
    const bool launched = says_so(message(launch(*variant, kernel, {scalar(1)})));
    const bool listed = says_so(message(devices("cuda")));
    ::_exit(launched && listed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(launch(*variant, kernel, {scalar(1)}).ok());
}

TEST_F(Launches, AKernelOfNoParametersHasNoBlock) {
  const dsl::Kernel kernel = kernel_of("", "[5, 6, 7]");
  auto variant = loaded(kernel, artifact_of(kernel, {{"device", {{"threads", 96}, {"shared_bytes", 1000}}}}));
  ASSERT_TRUE(launch(*variant, kernel, {}).ok());
  const FakeLaunch& sent = *fake_launch(0);
  EXPECT_STREQ(sent.entry, "kiln_entry");
  EXPECT_THAT(sent.grid, testing::ElementsAre(5, 6, 7));
  EXPECT_THAT(sent.block, testing::ElementsAre(96, 1, 1));
  EXPECT_EQ(sent.shared_bytes, 1000u);
  EXPECT_EQ(sent.bytes, 0u);
  EXPECT_EQ(sent.stream, nullptr);
}

TEST_F(Launches, TakeTheGridFromTheArguments) {
  const dsl::Kernel kernel = kernel_of("%n: i32, %m: i8", "[div(n + 63, 64), m, 1]");
  auto variant = loaded(kernel, artifact_of(kernel));
  ASSERT_TRUE(launch(*variant, kernel, {scalar(1000), scalar(3)}).ok());
  EXPECT_THAT(fake_launch(0)->grid, testing::ElementsAre(16, 3, 1));
  ASSERT_TRUE(launch(*variant, kernel, {scalar(1000), scalar(3)}, {.grid = {{2, 3, 4}}}).ok());
  EXPECT_THAT(fake_launch(1)->grid, testing::ElementsAre(2, 3, 4));
  EXPECT_EQ(message(launch(*variant, kernel, {scalar(1000), scalar(0xff)})),
            "kernel `k`: grid axis 1 is -1: `m` with m = -1; it must be 0 to 65535");
  EXPECT_EQ(message(launch(*variant, kernel, {scalar(1)})), "kernel `k` takes 2 arguments, not 1");
  EXPECT_EQ(message(launch(*variant, kernel, {scalar(0), scalar(3)})), "");
  EXPECT_EQ(message(launch(*variant, kernel, {scalar(1000), scalar(3)}, {.grid = {{2, 0, 4}}})), "");
  EXPECT_EQ(fake_launches(), 2u) << "a grid of nothing launches nothing";
}

// Nothing reaches the driver, also where there would be nothing to do.
TEST_F(Launches, ThatBreakAConditionAreRefused) {
  const auto kernel = dsl::parse(
      "kernel row(%n: i32, %cols: i32) {\n  where le(cols, 64), \"a row must fit a block\"\n  grid [n, 1, 1]\n}\n",
      "row.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  auto variant = loaded(*kernel, artifact_of(*kernel));
  const char* refused = "kernel `row`: le(cols, 64) is false (cols=65): a row must fit a block";
  EXPECT_EQ(message(launch(*variant, *kernel, {scalar(3), scalar(65)})), refused);
  EXPECT_EQ(message(launch(*variant, *kernel, {scalar(0), scalar(65)})), refused);
  EXPECT_EQ(fake_launches(), 0u);
  EXPECT_EQ(message(launch(*variant, *kernel, {scalar(3), scalar(64)})), "");
  EXPECT_EQ(fake_launches(), 1u);
}

TEST_F(Launches, OfBlocksOfSeveralProgramsSayHowManyThereAre) {
  static uint64_t programs = 0;
  fake_kernel("kiln_entry", [](const unsigned char* params, const unsigned[3]) {
    std::memcpy(&programs, params + 8, sizeof programs);
  });
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 2, 1]");
  auto variant = loaded(kernel, artifact_of(kernel, {{"device", {{"programs", 4}}}, {"programs_param", 8}}));
  ASSERT_TRUE(launch(*variant, kernel, {scalar(9)}).ok());
  EXPECT_THAT(fake_launch(0)->grid, testing::ElementsAre(3, 2, 1));
  EXPECT_EQ(programs, 9u);
  ASSERT_TRUE(launch(*variant, kernel, {scalar(9)}, {.grid = {{8, 2, 1}}}).ok());
  EXPECT_THAT(fake_launch(1)->grid, testing::ElementsAre(2, 2, 1));
  EXPECT_EQ(programs, 8u);
}

TEST_F(Launches, OfPersistentBlocksAreAsManyAsTheDeviceRunsAtOnce) {
  static std::array<uint32_t, 3> extents = {};
  fake_kernel("kiln_entry", [](const unsigned char* params, const unsigned[3]) {
    std::memcpy(extents.data(), params + 8, sizeof extents);
  });
  const uint32_t multiprocessors = open_device().info().multiprocessors;
  ASSERT_GT(multiprocessors, 1u);
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 3, 2]");
  auto variant = loaded(kernel, artifact_of(kernel, {{"device", {{"persistent", 2}}}, {"grid_param", 8}}));
  ASSERT_TRUE(launch(*variant, kernel, {scalar(1000)}).ok());
  EXPECT_THAT(fake_launch(0)->grid, testing::ElementsAre(2 * multiprocessors, 1, 1));
  EXPECT_THAT(extents, testing::ElementsAre(1000, 3, 2));
  ASSERT_TRUE(launch(*variant, kernel, {scalar(1)}, {.grid = {{2, 1, 1}}}).ok());
  EXPECT_THAT(fake_launch(1)->grid, testing::ElementsAre(2, 1, 1));
  EXPECT_THAT(extents, testing::ElementsAre(2, 1, 1));
  EXPECT_THAT(message(launch(*variant, kernel, {scalar(1)}, {.grid = {{INT32_MAX, 2, 1}}})),
              testing::HasSubstr("more than 2^31-1 programs"));
}

// The counter that they share is 0, each stream's and each recording's own, and the same from launch to launch.
TEST_F(Launches, OfBlocksThatShareAQueueHaveACounter) {
  static uint32_t counted = 0;
  fake_kernel("kiln_entry", [](const unsigned char* params, const unsigned[3]) {
    const uint32_t* counter;
    std::memcpy(&counter, params + 24, sizeof counter);
    counted += *counter;
  });
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 1, 1]");
  auto variant =
      loaded(kernel, artifact_of(kernel, {{"device", {{"persistent", 1}}}, {"grid_param", 8}, {"queue_param", 24}}));
  const Device device = open_device();
  const Stream one = new_stream(device), other = new_stream(device);
  for (const Stream* stream : {&one, &one, &other}) {
    ASSERT_TRUE(launch(*variant, kernel, {scalar(7)}, {.stream = stream}).ok());
  }
  auto graph = Recording::capture(one, [&] { return launch(*variant, kernel, {scalar(7)}, {.stream = &one}); });
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  ASSERT_TRUE(graph->replay(one).ok());
  std::array<void*, 4> counters = {};
  for (size_t i = 0; i < counters.size(); ++i) counters[i] = parameter<void*>(*fake_launch(i), 24);
  EXPECT_EQ(counters[0], counters[1]);
  EXPECT_NE(counters[0], counters[2]);
  EXPECT_NE(counters[0], counters[3]);
  EXPECT_NE(counters[2], counters[3]);
  EXPECT_EQ(counted, 0u);
}

TEST_F(Launches, WithoutMemoryForTheCounterSaySo) {
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 1, 1]");
  auto variant =
      loaded(kernel, artifact_of(kernel, {{"device", {{"persistent", 1}}}, {"grid_param", 8}, {"queue_param", 24}}));
  const Stream stream = new_stream(open_device());
  fake_fail("cuMemAlloc_v2", 2, 0);
  EXPECT_THAT(message(launch(*variant, kernel, {scalar(7)}, {.stream = &stream})),
              testing::HasSubstr("the counter of its programs: "));
  EXPECT_TRUE(launch(*variant, kernel, {scalar(7)}, {.stream = &stream}).ok());
}

// The last one has a block that finds no program of its own.
TEST_F(Launches, OfPersistentBlocksAreWholeClusters) {
  fake_kernel("kiln_entry", [](const unsigned char*, const unsigned[3]) {});
  const uint32_t multiprocessors = open_device().info().multiprocessors;
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 1, 1]");
  const nlohmann::json cluster = {2, 1, 1};
  auto variant =
      loaded(kernel, artifact_of(kernel, {{"device", {{"persistent", 1}, {"cluster", cluster}}}, {"grid_param", 8}}));
  for (const auto& [programs, blocks] : {std::pair(1u, 2u), std::pair(2u, 2u), std::pair(3u, 4u),
                                         std::pair(1001u, std::max(2u, multiprocessors / 2 * 2))}) {
    ASSERT_TRUE(launch(*variant, kernel, {scalar(static_cast<int32_t>(programs))}).ok());
    EXPECT_THAT(fake_launch(fake_launches() - 1)->grid, testing::ElementsAre(blocks, 1, 1)) << programs;
  }
}

TEST_F(Launches, ComputeWhatTheKernelSays) {
  fake_kernel("kiln_entry", [](const unsigned char* params, const unsigned grid[3]) {
    float* x;
    std::memcpy(&x, params, sizeof x);
    for (unsigned i = 0; i < grid[0]; ++i) x[i] *= 2;
  });
  const dsl::Kernel kernel = kernel_of("%x: ptr<f32>, %n: i32", "[n, 1, 1]");
  auto variant = loaded(kernel, artifact_of(kernel));
  const Device device = open_device();
  const Stream stream = new_stream(device);
  auto x = DeviceBuffer<float>::allocate(device, 4);
  ASSERT_TRUE(x.ok());
  std::vector<float> host = {1, 2, 3, 4};
  ASSERT_TRUE(x->copy_from(host, stream).ok());
  ASSERT_TRUE(launch(*variant, kernel, {x->argument(), scalar(3)}, {.stream = &stream}).ok());
  ASSERT_TRUE(x->copy_to(host, stream).ok());
  ASSERT_TRUE(stream.synchronise().ok());
  EXPECT_EQ(host, (std::vector<float>{2, 4, 6, 4}));
  EXPECT_EQ(fake_launch(0)->stream, stream.native());
}

TEST_F(Launches, AskForSharedMemoryAbove48KiBOnceAndAtLoad) {
  const dsl::Kernel kernel = kernel_of("");
  auto little = loaded(kernel, artifact_of(kernel, {{"device", {{"shared_bytes", 49152}}}}));
  EXPECT_EQ(fake_calls("cuFuncSetAttribute"), 0u);
  auto much = loaded(kernel, artifact_of(kernel, {{"device", {{"shared_bytes", 200000}}}}));
  EXPECT_EQ(fake_attribute(), 8);
  EXPECT_EQ(fake_attribute_value(), 200000);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(launch(*much, kernel, {}).ok());
  EXPECT_EQ(fake_calls("cuFuncSetAttribute"), 1u);
  EXPECT_EQ(message(load(kernel, artifact_of(kernel, {{"device", {{"shared_bytes", 232449}}}}))),
            "kernel `k` (k.kiln:3:3): it needs 232449 bytes of shared memory a block, cuda:0 (Fake 0) has 232448");
}

TEST_F(Launches, EncodeTensorMapsEachTime) {
  const dsl::Kernel kernel = kernel_of("%A: ptr<bf16> readonly, %M: i32, %K: i32, %f: i1");
  // Row-major [M, K] from element K on, in boxes of 128 rows and 64 columns.
  const json map = {{"param", 0},
                    {"type", "bf16"},
                    {"rank", 2},
                    {"dims", {param_expr(2), param_expr(1)}},
                    {"strides_bytes", {scaled_param(2, 2)}},
                    {"box", {64, 128}},
                    {"swizzle", "128"},
                    {"interleave", "none"},
                    {"offset", param_expr(2)}};
  const json flat = {
      {"param", 0}, {"type", "f8e4m3"}, {"rank", 1}, {"dims", {constant_expr(256)}}, {"strides_bytes", json::array()},
      {"box", {16}}};
  auto variant = loaded(kernel, artifact_of(kernel, {{"device", {{"tensor_maps", {map, flat}}}}}));
  alignas(16) char memory[256];
  for (uint64_t m : {300, 400}) {
    ASSERT_TRUE(launch(*variant, kernel, {pointer(memory), scalar(m), scalar(96), scalar(1)}).ok());
  }
  ASSERT_EQ(fake_tensor_maps(), 4u);
  const FakeTensorMap& first = *fake_tensor_map(2);
  EXPECT_EQ(first.type, 9);
  EXPECT_EQ(first.rank, 2u);
  EXPECT_EQ(first.address, memory + 192);
  EXPECT_EQ(first.dims[0], 96u);
  EXPECT_EQ(first.dims[1], 400u);
  EXPECT_EQ(first.strides[0], 192u);
  EXPECT_EQ(first.box[0], 64u);
  EXPECT_EQ(first.box[1], 128u);
  EXPECT_EQ(first.element_strides[0], 1u);
  EXPECT_EQ(first.element_strides[1], 1u);
  EXPECT_EQ(first.interleave, 0);
  EXPECT_EQ(first.swizzle, 3);
  EXPECT_EQ(first.promotion, 2);
  EXPECT_EQ(first.fill, 0);
  EXPECT_EQ(fake_tensor_map(3)->type, 0);
  EXPECT_EQ(fake_tensor_map(3)->swizzle, 0);
  // Arguments end at byte 17; maps lie at multiples of 64 behind them. The fake fills the map of number n with n.
  const FakeLaunch& sent = *fake_launch(1);
  EXPECT_EQ(sent.bytes, 64u + 128 + 128);
  EXPECT_EQ(parameter<uint8_t>(sent, 64), 3);
  EXPECT_EQ(parameter<uint8_t>(sent, 191), 3);
  EXPECT_EQ(parameter<uint8_t>(sent, 192), 4);
  EXPECT_EQ(parameter<uint8_t>(sent, 319), 4);

  EXPECT_EQ(
      message(launch(*variant, kernel, {pointer(memory), scalar(0), scalar(96), scalar(1)})),
      "kernel `k` (k.kiln:3:3), grid 1×1×1 of 128 threads, on cuda:0 (Fake 0): the tensor map of `A`, 96×0 bf16 at "
      "address " +
          std::to_string(reinterpret_cast<uintptr_t>(memory) + 192) +
          ", strides of 192 bytes: its extents must be above 0, its strides not below");
  EXPECT_THAT(message(launch(*variant, kernel, {pointer(memory + 2), scalar(1), scalar(96), scalar(1)})),
              HasSubstr("cuTensorMapEncodeTiled: a fake error (CUDA_ERROR_INVALID_VALUE)"));
}

// All rows are one where the stride is 0.
TEST_F(Launches, EncodeStridesOfZeroAndWhatIsOutOfBounds) {
  const dsl::Kernel kernel = kernel_of("%A: ptr<bf16> readonly, %M: i32, %K: i32, %f: i1");
  json map = {{"param", 0},
              {"type", "bf16"},
              {"rank", 2},
              {"dims", {constant_expr(64), param_expr(1)}},
              {"strides_bytes", {scaled_param(2, 2)}},
              {"box", {64, 16}},
              {"fill", "nan"}};
  auto variant = loaded(kernel, artifact_of(kernel, {{"device", {{"tensor_maps", {map}}}}}));
  alignas(16) char memory[256];
  ASSERT_TRUE(launch(*variant, kernel, {pointer(memory), scalar(300), scalar(0), scalar(1)}).ok());
  ASSERT_EQ(fake_tensor_maps(), 1u);
  EXPECT_EQ(fake_tensor_map(0)->strides[0], 0u);
  EXPECT_EQ(fake_tensor_map(0)->fill, 1);
}

TEST_F(Launches, RunPlansInOrderOverOneWorkspaceAStream) {
  const dsl::Kernel kernel = kernel_of("%x: ptr<f32>, %n: i32", "[n, 2, 1]");
  const json plan = {
      {"plan", {{{"entry", "first_stage"}, {"chunks", 4}, {"threads", 64}}, {{"entry", "kiln_entry"}, {"chunks", 1}}}},
      {"workspace_bytes", 100}};
  auto variant = loaded(kernel, artifact_of(kernel, plan));
  const Device device = open_device();
  const Stream stream = new_stream(device);
  ASSERT_TRUE(launch(*variant, kernel, {pointer(nullptr), scalar(3)}, {.stream = &stream}).ok());
  ASSERT_EQ(fake_launches(), 2u);
  EXPECT_STREQ(fake_launch(0)->entry, "first_stage");
  EXPECT_THAT(fake_launch(0)->grid, testing::ElementsAre(12, 2, 1));
  EXPECT_EQ(fake_launch(0)->block[0], 64u);
  EXPECT_STREQ(fake_launch(1)->entry, "kiln_entry");
  EXPECT_THAT(fake_launch(1)->grid, testing::ElementsAre(3, 2, 1));
  EXPECT_EQ(fake_launch(1)->block[0], 128u);
  const auto workspace = parameter<void*>(*fake_launch(0), 16);
  EXPECT_NE(workspace, nullptr);
  EXPECT_EQ(parameter<void*>(*fake_launch(1), 16), workspace);
  EXPECT_EQ(fake_launch(0)->bytes, 24u);
  EXPECT_EQ(fake_calls("cuMemAlloc_v2"), 1u);
  // As small or smaller: the same memory. Larger, or on another stream: other memory.
  ASSERT_TRUE(launch(*variant, kernel, {pointer(nullptr), scalar(2)}, {.stream = &stream}).ok());
  EXPECT_EQ(parameter<void*>(*fake_launch(2), 16), workspace);
  EXPECT_EQ(fake_calls("cuMemAlloc_v2"), 1u);
  ASSERT_TRUE(launch(*variant, kernel, {pointer(nullptr), scalar(2)}).ok());
  EXPECT_NE(parameter<void*>(*fake_launch(4), 16), workspace);
  ASSERT_TRUE(launch(*variant, kernel, {pointer(nullptr), scalar(4)}, {.stream = &stream}).ok());
  EXPECT_EQ(fake_live("memory"), 2);
  fake_fail("cuMemAlloc_v2", 2, 0);
  EXPECT_EQ(
      message(launch(*variant, kernel, {pointer(nullptr), scalar(100)}, {.stream = &stream})),
      "kernel `k` (k.kiln:3:3), grid 100×2×1 of 64 threads, on cuda:0 (Fake 0): workspace of 20000 bytes: "
      "cuMemAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY); Kiln has 400 bytes of it: 400 in 1 piece for workspaces "
      "of launches");
  EXPECT_THAT(message(launch(*variant, kernel, {pointer(nullptr), scalar(INT32_MAX)}, {.stream = &stream})),
              HasSubstr("out of memory"));
}

TEST_F(Launches, OfPlansDoNotMixOnASharedStream) {
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 1, 1]");
  auto variant = loaded(kernel, artifact_of(kernel, {{"plan", {{{"entry", "first_stage"}}, {{"entry", "kiln_entry"}}}},
                                                     {"workspace_bytes", 8},
                                                     {"failure_param", 16}}));
  const Stream stream = new_stream(open_device());
  std::vector<std::thread> threads;
  for (uint64_t t = 1; t <= 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        EXPECT_EQ(message(launch(*variant, kernel, {scalar(t)}, {.stream = &stream})), "");
        if (i % 10 == 0) {
          EXPECT_EQ(message(stream.synchronise()), "");
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(fake_launches(), 8u * 25 * 2);
  for (size_t i = 0; i < fake_launches(); i += 2) {
    ASSERT_STREQ(fake_launch(i)->entry, "first_stage");
    ASSERT_STREQ(fake_launch(i + 1)->entry, "kiln_entry");
    ASSERT_EQ(fake_launch(i)->grid[0], fake_launch(i + 1)->grid[0]);
  }
}

TEST_F(Launches, PassClustersAsAnAttribute) {
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 1, 1]");
  auto variant = loaded(kernel, artifact_of(kernel, {{"device", {{"cluster", {2, 1, 1}}, {"shared_bytes", 77}}}}));
  const Stream stream = new_stream(open_device());
  ASSERT_TRUE(launch(*variant, kernel, {scalar(6)}, {.stream = &stream}).ok());
  const FakeLaunch& sent = *fake_launch(0);
  EXPECT_THAT(sent.cluster, testing::ElementsAre(2, 1, 1));
  EXPECT_THAT(sent.grid, testing::ElementsAre(6, 1, 1));
  EXPECT_THAT(sent.block, testing::ElementsAre(128, 1, 1));
  EXPECT_EQ(sent.shared_bytes, 77u);
  EXPECT_EQ(sent.stream, stream.native());
  EXPECT_EQ(parameter<int>(sent, 0), 6);
  EXPECT_THAT(message(launch(*variant, kernel, {scalar(7)})),
              HasSubstr("the grid is no multiple of the cluster, 2×1×1"));
}

// Kernels that wait by themselves may begin early: each stage of a plan, also in a cluster, and no others.
TEST_F(Launches, MayBeginBeforeEarlierOnesAreDone) {
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 1, 1]");
  const json plan = {{{"entry", "first_stage"}, {"chunks", 2}}, {{"entry", "kiln_entry"}}};
  auto staged = loaded(kernel, artifact_of(kernel, {{"device", {{"waits", true}}}, {"plan", plan}}));
  ASSERT_TRUE(launch(*staged, kernel, {scalar(6)}).ok());
  auto clustered = loaded(kernel, artifact_of(kernel, {{"device", {{"waits", true}, {"cluster", {2, 1, 1}}}}}));
  ASSERT_TRUE(launch(*clustered, kernel, {scalar(6)}).ok());
  auto plain = loaded(kernel, artifact_of(kernel));
  ASSERT_TRUE(launch(*plain, kernel, {scalar(6)}).ok());
  ASSERT_EQ(fake_launches(), 4u);
  EXPECT_TRUE(fake_launch(0)->early);
  EXPECT_THAT(fake_launch(0)->grid, testing::ElementsAre(12, 1, 1));
  EXPECT_TRUE(fake_launch(1)->early);
  EXPECT_TRUE(fake_launch(2)->early);
  EXPECT_THAT(fake_launch(2)->cluster, testing::ElementsAre(2, 1, 1));
  EXPECT_FALSE(fake_launch(3)->early);
  EXPECT_EQ(fake_calls("cuLaunchKernelEx"), 3u);
}

TEST_F(Launches, AllocateNothing) {
  const dsl::Kernel kernel = kernel_of("%A: ptr<f32>, %n: i32", "[div(n + 63, 64), 1, 1]");
  const json map = {
      {"param", 0}, {"type", "f32"}, {"rank", 1}, {"dims", {param_expr(1)}}, {"strides_bytes", json::array()},
      {"box", {16}}};
  const Artifact artifact =
      artifact_of(kernel, {{"device", {{"tensor_maps", {map}}}}, {"workspace_bytes", 8}, {"failure_param", 192}});
  auto core = std::make_shared<client::Core>(client::ConnectOptions{}, false);
  client::CompileSpec spec{std::make_shared<const dsl::Kernel>(kernel), "cuda:sm_90a", {}};
  const UntypedFunction function(client::FunctionState::make(core, std::move(spec), loaded(kernel, artifact)));
  const Stream stream = new_stream(open_device());
  alignas(16) float memory[4];
  const client::Argument arguments[] = {pointer(memory), scalar(1000)};
  ASSERT_EQ(message(function.launch(arguments, {.stream = &stream})), "");
  fake_quiet(true);
  const size_t before = allocations();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(function.launch(arguments, {.stream = &stream}).ok());
  EXPECT_EQ(allocations(), before);
}

TEST_F(Launches, ThatTheDriverRefusesSayWhichAndWhere) {
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 1, 1]");
  auto variant = loaded(kernel, artifact_of(kernel));
  fake_fail("cuLaunchKernel", 2, 0);
  const auto failed = launch(*variant, kernel, {scalar(42)});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(failed.error().message,
            "kernel `k` (k.kiln:3:3), grid 42×1×1 of 128 threads, on cuda:0 (Fake 0): cuLaunchKernel: out of memory "
            "(CUDA_ERROR_OUT_OF_MEMORY)");
  EXPECT_TRUE(launch(*variant, kernel, {scalar(42)}).ok());
}

TEST_F(Launches, ACpuKernelHasNoStream) {
  Client client;
  const Stream stream = new_stream(open_device());
  const dsl::Kernel kernel = kernel_of("%n: i32");
  auto fn = client.get(kernel, {.target = "interp"});
  ASSERT_TRUE(fn.ok()) << fn.error().message;
  const client::Argument n = scalar(1);
  EXPECT_EQ(message(fn->launch({&n, 1}, {.stream = &stream})),
            "kernel `k` was compiled for no GPU, and cannot run on a GPU's stream");
}

}  // namespace
}  // namespace kiln::test
