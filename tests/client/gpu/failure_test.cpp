// Failed asserts and bounds of kernels on a device: from the record to the words, at the next synchronisation.
#include <gmock/gmock.h>

#include <optional>

#include "fake_case.h"
#include "gpu/failures.h"

namespace kiln::test {
namespace {

using client::gpu::FailureRecord;
using nlohmann::json;
using testing::HasSubstr;

// What the fake kernel writes in its launches to come, at the failure pointer behind its one parameter.
std::optional<FailureRecord> next_failure;

void failing_kernel(const unsigned char* params, const unsigned*) {
  FailureRecord* record;
  std::memcpy(&record, params + 8, sizeof record);
  if (next_failure && record->claimed == 0) *record = *next_failure;
}

class Failures : public FakeCase {
 protected:
  void SetUp() override {
    FakeCase::SetUp();
    fake_kernel("kiln_entry", failing_kernel);
    next_failure.reset();
  }
  const dsl::Kernel kernel = kernel_of("%x: ptr<f32>");
  const Artifact artifact = artifact_of(
      kernel, {{"failure_param", 8},
               {"checks",
                {{{"op", "assert"}, {"message", "n is small"}, {"file", "k.kiln"}, {"line", 4}, {"column", 3}},
                 {{"op", "load"}, {"file", "k.kiln"}, {"line", 5}, {"column", 3}}}}});
};

constexpr FailureRecord kAssert{1, 1, 0, UINT32_MAX, {5, 6, 7}, 0, 11, 0, 0, 0};
constexpr FailureRecord kBounds{1, 2, 1, 0, {2147483646, 65534, 65534}, 0, 3, 1000, 900, 0};
constexpr const char* kAssertText = "k.kiln:4:3: error: assert: n is small; false at lane 11 (program 5, 6, 7)";

TEST_F(Failures, AreToldByTheNextSynchronisationOnce) {
  auto variant = loaded(kernel, artifact);
  const Stream stream = new_stream(open_device());
  next_failure = kAssert;
  ASSERT_TRUE(launch(*variant, kernel, {pointer(nullptr)}, {.stream = &stream}).ok());
  next_failure.reset();
  EXPECT_EQ(message(stream.synchronise()), kAssertText);
  EXPECT_TRUE(stream.synchronise().ok());
  // The record is free again.
  next_failure = kBounds;
  ASSERT_TRUE(launch(*variant, kernel, {pointer(nullptr)}, {.stream = &stream}).ok());
  EXPECT_EQ(
      message(open_device().synchronise()),
      "k.kiln:5:3: error: load: index 1000 is outside `x`, which has 900 elements (program 2147483646, 65534, 65534)");
}

TEST_F(Failures, OfKernelsWithoutChecksCostNothing) {
  const Artifact plain = artifact_of(kernel);
  fake_kernel("kiln_entry", nullptr);
  auto variant = loaded(kernel, plain);
  const Stream stream = new_stream(open_device());
  ASSERT_TRUE(launch(*variant, kernel, {pointer(nullptr)}, {.stream = &stream}).ok());
  ASSERT_TRUE(stream.synchronise().ok());
  EXPECT_EQ(fake_calls("cuMemcpyAsync"), 0u);
  EXPECT_EQ(fake_calls("cuMemAlloc_v2"), 0u);
}

TEST_F(Failures, HaveARecordAKernelInOneBuffer) {
  std::vector<std::shared_ptr<const client::Variant>> variants;
  for (int i = 0; i < 3; ++i) variants.push_back(loaded(kernel, artifact));
  EXPECT_EQ(fake_calls("cuMemAlloc_v2"), 1u);
  for (const auto& variant : variants) ASSERT_TRUE(launch(*variant, kernel, {pointer(nullptr)}).ok());
  EXPECT_NE(parameter<void*>(*fake_launch(0), 8), parameter<void*>(*fake_launch(1), 8));
  variants.erase(variants.begin());
  variants.push_back(loaded(kernel, artifact));
  ASSERT_TRUE(launch(*variants.back(), kernel, {pointer(nullptr)}).ok());
  EXPECT_EQ(parameter<void*>(*fake_launch(3), 8), parameter<void*>(*fake_launch(0), 8));
}

TEST_F(Failures, ComeThroughEventsAndGraphs) {
  auto variant = loaded(kernel, artifact);
  const Device device = open_device();
  const Stream stream = new_stream(device);
  auto event = Event::create(device);
  ASSERT_TRUE(event.ok());
  auto graph =
      Recording::capture(stream, [&] { return launch(*variant, kernel, {pointer(nullptr)}, {.stream = &stream}); });
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  ASSERT_TRUE(stream.synchronise().ok());
  next_failure = kAssert;
  ASSERT_TRUE(graph->replay(stream).ok());
  ASSERT_TRUE(event->record(stream).ok());
  EXPECT_EQ(message(event->synchronise()), kAssertText);
  ASSERT_TRUE(graph->replay(stream).ok());
  EXPECT_EQ(message(stream.synchronise()), kAssertText);
}

TEST_F(Failures, OfAnUnknownCheckAreStillErrors) {
  auto variant = loaded(kernel, artifact);
  next_failure = FailureRecord{1, 77, 0, 0, {0, 0, 0}, 0, 0, 0, 0, 0};
  ASSERT_TRUE(launch(*variant, kernel, {pointer(nullptr)}).ok());
  EXPECT_EQ(message(open_device().default_stream().synchronise()), "kernel `k` failed with code 77");
}

}  // namespace
}  // namespace kiln::test
