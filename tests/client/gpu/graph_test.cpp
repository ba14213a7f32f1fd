// Recording launches on a stream and running them again.
#include <gmock/gmock.h>

#include <numeric>
#include <optional>

#include "fake_case.h"

namespace kiln::test {
namespace {

using testing::HasSubstr;

using Graphs = FakeCase;

TEST_F(Graphs, ReplayWhatWasRecorded) {
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 1, 1]");
  auto variant = loaded(kernel, artifact_of(kernel));
  const Device device = open_device();
  const Stream stream = new_stream(device);
  auto graph = Recording::capture(stream, [&]() -> Result<void> {
    for (uint64_t n = 1; n <= 3; ++n) {
      if (auto queued = launch(*variant, kernel, {scalar(n)}, {.stream = &stream}); !queued) return queued;
    }
    return {};
  });
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(fake_launches(), 0u);
  ASSERT_TRUE(graph->replay(stream).ok());
  ASSERT_TRUE(graph->replay(device.default_stream()).ok());
  ASSERT_EQ(fake_launches(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(fake_launch(i)->grid[0], i % 3 + 1);
    EXPECT_EQ(parameter<unsigned>(*fake_launch(i), 0), i % 3 + 1);
  }
  // The stream is an ordinary one again.
  ASSERT_TRUE(launch(*variant, kernel, {scalar(9)}, {.stream = &stream}).ok());
  EXPECT_EQ(fake_launches(), 7u);
}

TEST_F(Graphs, KeepTheirVariantsAndWorkspacesAlive) {
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 1, 1]");
  auto variant = loaded(kernel, artifact_of(kernel, {{"workspace_bytes", 64}}));
  const Stream stream = new_stream(open_device());
  ASSERT_TRUE(launch(*variant, kernel, {scalar(8)}, {.stream = &stream}).ok());
  std::optional<Recording> graph;
  {
    auto captured = Recording::capture(stream, [&]() -> Result<void> {
      for (uint64_t n : {1, 8, 2}) {
        if (auto queued = launch(*variant, kernel, {scalar(n)}, {.stream = &stream}); !queued) return queued;
      }
      return {};
    });
    ASSERT_TRUE(captured.ok()) << captured.error().message;
    graph = *captured;
  }
  variant.reset();
  EXPECT_EQ(fake_live("module"), 1);
  ASSERT_TRUE(graph->replay(stream).ok());
  const auto own = parameter<void*>(*fake_launch(0), 8);
  const auto small = parameter<void*>(*fake_launch(1), 8), large = parameter<void*>(*fake_launch(2), 8);
  EXPECT_NE(small, large);  // grown during the capture, and both are kept
  EXPECT_EQ(parameter<void*>(*fake_launch(3), 8), large);
  EXPECT_NE(own, small);
  EXPECT_NE(own, large);
  EXPECT_EQ(fake_live("memory"), 3);
  graph.reset();
  EXPECT_EQ(fake_live("module"), 0);
  EXPECT_EQ(fake_live("memory"), 1);
}

// The stages of sums of rows: sums of four parts of each into the workspace, then these into the result.
struct SumParameters {
  const float* x;
  float* sums;
  int32_t rows, columns;
  float* workspace;
};
constexpr int32_t kParts = 4;

void sum_parts(const unsigned char* params, const unsigned grid[3]) {
  SumParameters p;
  std::memcpy(&p, params, sizeof p);
  for (unsigned program = 0; program < grid[0]; ++program) {
    const int32_t each = p.columns / kParts;
    const float* from = p.x + static_cast<ptrdiff_t>(program) * each;
    p.workspace[program] = std::accumulate(from, from + each, 0.0f);
  }
}

void sum_of_parts(const unsigned char* params, const unsigned grid[3]) {
  SumParameters p;
  std::memcpy(&p, params, sizeof p);
  for (unsigned row = 0; row < grid[0]; ++row) {
    const float* from = p.workspace + static_cast<ptrdiff_t>(row) * kParts;
    p.sums[row] = std::accumulate(from, from + kParts, 0.0f);
  }
}

// Two plans after one another over the graph's workspace, which the second one needs larger.
TEST_F(Graphs, ReplayPlansOfSeveralLaunches) {
  fake_kernel("first_stage", sum_parts);
  fake_kernel("kiln_entry", sum_of_parts);
  const dsl::Kernel kernel = kernel_of("%x: ptr<f32>, %sums: ptr<f32>, %rows: i32, %columns: i32", "[rows, 1, 1]");
  auto variant =
      loaded(kernel,
             artifact_of(kernel, {{"plan", {{{"entry", "first_stage"}, {"chunks", kParts}}, {{"entry", "kiln_entry"}}}},
                                  {"workspace_bytes", kParts * sizeof(float)}}));
  const Stream stream = new_stream(open_device());
  std::vector<float> x(3 * 8), sums(3), few(2);
  auto graph = Recording::capture(stream, [&]() -> Result<void> {
    const LaunchOptions options{.stream = &stream};
    auto first = launch(*variant, kernel, {pointer(x.data()), pointer(few.data()), scalar(2), scalar(8)}, options);
    if (!first) return first;
    return launch(*variant, kernel, {pointer(x.data()), pointer(sums.data()), scalar(3), scalar(8)}, options);
  });
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  variant.reset();
  EXPECT_EQ(fake_launches(), 0u);
  // What is in memory when it is replayed counts.
  for (const float more : {0.0f, 100.0f}) {
    std::iota(x.begin(), x.end(), more);
    ASSERT_TRUE(graph->replay(stream).ok());
    EXPECT_THAT(few, testing::ElementsAre(28 + 8 * more, 92 + 8 * more));
    EXPECT_THAT(sums, testing::ElementsAre(28 + 8 * more, 92 + 8 * more, 156 + 8 * more));
  }
  ASSERT_EQ(fake_launches(), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_STREQ(fake_launch(i)->entry, i % 2 == 0 ? "first_stage" : "kiln_entry") << i;
  EXPECT_EQ(fake_calls("cuGraphLaunch"), 2u);
  EXPECT_EQ(fake_calls("cuLaunchKernel") + fake_calls("cuLaunchKernelEx"), 4u);
}

TEST_F(Graphs, AFailureWhileRecordingEndsTheCapture) {
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 1, 1]");
  auto variant = loaded(kernel, artifact_of(kernel));
  const Device device = open_device();
  const Stream stream = new_stream(device);
  auto failed =
      Recording::capture(stream, [&] { return launch(*variant, kernel, {scalar(0xffffffff)}, {.stream = &stream}); });
  EXPECT_THAT(message(failed), HasSubstr("grid axis 0 is -1"));
  EXPECT_TRUE(stream.synchronise().ok());
  EXPECT_THAT(message(Recording::capture(device.default_stream(), [] { return Result<void>(); })),
              HasSubstr("beginning a capture on cuda:0 (Fake 0): cuStreamBeginCapture"));
  fake_fail("cuGraphInstantiateWithFlags", 2, 0);
  EXPECT_THAT(message(Recording::capture(stream, [] { return Result<void>(); })), HasSubstr("cuGraphInstantiate"));
  EXPECT_EQ(fake_live("graph"), 0);
}

TEST_F(Graphs, OneCaptureAStream) {
  const Stream stream = new_stream(open_device());
  std::string inner;
  auto outer = Recording::capture(stream, [&]() -> Result<void> {
    inner = message(Recording::capture(stream, [] { return Result<void>(); }));
    return {};
  });
  EXPECT_TRUE(outer.ok());
  EXPECT_EQ(inner, "a capture of this stream is under way");
}

// Two handles of one stream of the driver's: it is the driver that refuses the second capture.
TEST_F(Graphs, OneCaptureAStreamOfAnotherLibrary) {
  const Device device = open_device();
  const Stream stream = new_stream(device), same = Stream::wrap(device, stream.native());
  std::string inner;
  auto outer = Recording::capture(stream, [&]() -> Result<void> {
    inner = message(Recording::capture(same, [] { return Result<void>(); }));
    return {};
  });
  EXPECT_TRUE(outer.ok()) << outer.error().message;
  EXPECT_THAT(inner, HasSubstr("beginning a capture on cuda:0 (Fake 0): cuStreamBeginCapture"));
}

TEST_F(Graphs, AReplayOnALostDeviceIsAnError) {
  const Stream stream = new_stream(open_device());
  auto graph = Recording::capture(stream, [] { return Result<void>(); });
  ASSERT_TRUE(graph.ok());
  fake_break(0, 700);
  EXPECT_THAT(message(graph->replay(stream)), HasSubstr("replaying a graph on cuda:0 (Fake 0): cuGraphLaunch"));
}

}  // namespace
}  // namespace kiln::test
