// Recording launches on a stream and running them again.
#include <gmock/gmock.h>

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
  auto graph = Graph::capture(stream, [&]() -> Result<void> {
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
  std::optional<Graph> graph;
  {
    auto captured = Graph::capture(stream, [&]() -> Result<void> {
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

TEST_F(Graphs, AFailureWhileRecordingEndsTheCapture) {
  const dsl::Kernel kernel = kernel_of("%n: i32", "[n, 1, 1]");
  auto variant = loaded(kernel, artifact_of(kernel));
  const Device device = open_device();
  const Stream stream = new_stream(device);
  auto failed = Graph::capture(stream, [&] { return launch(*variant, kernel, {scalar(0)}, {.stream = &stream}); });
  EXPECT_THAT(message(failed), HasSubstr("grid axis 0 is 0"));
  EXPECT_TRUE(stream.synchronise().ok());
  EXPECT_THAT(message(Graph::capture(device.default_stream(), [] { return Result<void>(); })),
              HasSubstr("beginning a capture on cuda:0 (Fake 0): cuStreamBeginCapture"));
  fake_fail("cuGraphInstantiateWithFlags", 2, 0);
  EXPECT_THAT(message(Graph::capture(stream, [] { return Result<void>(); })), HasSubstr("cuGraphInstantiate"));
  EXPECT_EQ(fake_live("graph"), 0);
}

TEST_F(Graphs, OneCaptureAStream) {
  const Stream stream = new_stream(open_device());
  std::string inner;
  auto outer = Graph::capture(stream, [&]() -> Result<void> {
    inner = message(Graph::capture(stream, [] { return Result<void>(); }));
    return {};
  });
  EXPECT_TRUE(outer.ok());
  EXPECT_EQ(inner, "a capture of this stream is under way");
}

TEST_F(Graphs, AReplayOnALostDeviceIsAnError) {
  const Stream stream = new_stream(open_device());
  auto graph = Graph::capture(stream, [] { return Result<void>(); });
  ASSERT_TRUE(graph.ok());
  fake_break(0, 700);
  EXPECT_THAT(message(graph->replay(stream)), HasSubstr("replaying a graph on cuda:0 (Fake 0): cuGraphLaunch"));
}

}  // namespace
}  // namespace kiln::test
