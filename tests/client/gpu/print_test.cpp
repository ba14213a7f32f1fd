// What kernels on a device print: from the ring to the sink of the launch, when somebody has waited.
#include <gmock/gmock.h>

#include "fake_case.h"
#include "gpu/prints.h"

namespace kiln::test {
namespace {

using client::gpu::kPrintCapacity;
using client::gpu::PrintRing;
using client::gpu::read_messages;

// Of the fake kernel: how many messages a launch prints, and of how many values each.
int messages = 1;
uint32_t first_value = 0;
constexpr size_t kValues = 3, kMessageBytes = 24 + 16;

// As a kernel does it: room behind what others have, the message, its length last.
void printing_kernel(const unsigned char* params, const unsigned*) {
  std::byte* base;
  std::memcpy(&base, params + 8, sizeof base);
  if (base == nullptr) return;
  PrintRing ring;
  std::memcpy(&ring, base, sizeof ring);
  for (int i = 0; i < messages; ++i) {
    if (ring.reserved + kMessageBytes > ring.released + ring.capacity) {
      ++ring.lost;
      continue;
    }
    const uint32_t words[10] = {kMessageBytes, 1, 4, 5, 6, 0, first_value, first_value + 1, first_value + 2, 0};
    for (size_t word = 0; word < 10; ++word) {
      std::memcpy(base + sizeof ring + (ring.reserved + 4 * word) % ring.capacity, &words[word], 4);
    }
    ring.reserved += kMessageBytes;
    ++first_value;
  }
  std::memcpy(base, &ring, sizeof ring);
}

class Prints : public FakeCase {
 protected:
  void SetUp() override {
    FakeCase::SetUp();
    fake_kernel("kiln_entry", printing_kernel);
    messages = 1;
    first_value = 0;
  }

  client::LaunchOptions on(const Stream& stream) {
    client::LaunchOptions out;
    out.stream = &stream;
    out.print = [this](const dsl::PrintRecord& record) { records.push_back(record); };
    return out;
  }

  std::vector<dsl::PrintRecord> records;
  const dsl::Kernel kernel = kernel_of("%x: ptr<f32>");
  const Artifact artifact = artifact_of(kernel, {{"print_param", 8},
                                                 {"prints",
                                                  {{{"message", "a"}, {"values", nlohmann::json::array()}},
                                                   {{"message", "three"},
                                                    {"file", "k.kiln"},
                                                    {"line", 4},
                                                    {"column", 3},
                                                    {"values", {{{"type", "i32"}, {"shape", {kValues}}}}}}}}});
};

TEST_F(Prints, ReachTheSinkOnceWhenTheStreamIsDone) {
  auto variant = loaded(kernel, artifact);
  const Stream stream = new_stream(open_device());
  ASSERT_TRUE(launch(*variant, kernel, {pointer(nullptr)}, on(stream)).ok());
  EXPECT_TRUE(records.empty());
  ASSERT_TRUE(stream.synchronise().ok());
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(dsl::to_string(records[0]).substr(0, 10), "k.kiln:4:3");
  EXPECT_EQ(records[0].message, "three");
  EXPECT_EQ(records[0].program, (std::array<uint32_t, 3>{4, 5, 6}));
  EXPECT_EQ(records[0].values.at(0).bits, (std::vector<uint64_t>{0, 1, 2}));
  ASSERT_TRUE(stream.synchronise().ok());
  EXPECT_EQ(records.size(), 1u);
}

TEST_F(Prints, WithoutASinkGoToStandardError) {
  auto variant = loaded(kernel, artifact);
  const Stream stream = new_stream(open_device());
  ::testing::internal::CaptureStderr();
  const auto launched = launch(*variant, kernel, {pointer(nullptr)}, {.stream = &stream});
  const auto done = stream.synchronise();
  const std::string printed = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(launched.ok() && done.ok());
  EXPECT_EQ(printed.substr(0, 10), "k.kiln:4:3");
}

TEST_F(Prints, GoRoundTheRingInOrder) {
  auto variant = loaded(kernel, artifact);
  const Stream stream = new_stream(open_device());
  messages = 5000;
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(launch(*variant, kernel, {pointer(nullptr)}, on(stream)).ok());
    ASSERT_TRUE(stream.synchronise().ok());
  }
  ASSERT_EQ(records.size(), 30000u);
  for (size_t i = 0; i < records.size(); ++i) ASSERT_EQ(records[i].values[0].bits[0], i);
}

TEST_F(Prints, ThatFoundNoRoomAreCounted) {
  auto variant = loaded(kernel, artifact);
  const Stream stream = new_stream(open_device());
  messages = 10000;
  ASSERT_TRUE(launch(*variant, kernel, {pointer(nullptr)}, on(stream)).ok());
  ASSERT_TRUE(stream.synchronise().ok());
  const size_t room = kPrintCapacity / kMessageBytes;
  ASSERT_EQ(records.size(), room + 1);
  EXPECT_EQ(records.back().message, std::to_string(10000 - room) + " messages lost: the device's ring was full");
  messages = 1;
  ASSERT_TRUE(launch(*variant, kernel, {pointer(nullptr)}, on(stream)).ok());
  ASSERT_TRUE(stream.synchronise().ok());
  EXPECT_EQ(records.size(), room + 2);
}

TEST_F(Prints, ComeThroughEventsGraphsAndTheDevice) {
  auto variant = loaded(kernel, artifact);
  const Device device = open_device();
  const Stream stream = new_stream(device);
  auto event = Event::create(device);
  ASSERT_TRUE(event.ok());
  auto graph = Recording::capture(stream, [&] { return launch(*variant, kernel, {pointer(nullptr)}, on(stream)); });
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  ASSERT_TRUE(graph->replay(stream).ok());
  ASSERT_TRUE(event->record(stream).ok());
  ASSERT_TRUE(event->synchronise().ok());
  EXPECT_EQ(records.size(), 1u);
  ASSERT_TRUE(graph->replay(stream).ok());
  ASSERT_TRUE(device.synchronise().ok());
  EXPECT_EQ(records.size(), 2u);
}

TEST_F(Prints, AMessageThatIsNotWholeWaits) {
  PrintRing ring{kMessageBytes, 0, 0, 128, {}};
  std::vector<std::byte> data(128);
  client::Reports reports;
  reports.prints.push_back({"m", {}, {}});
  size_t given = 0;
  const auto count = [&](const dsl::PrintRecord&) { ++given; };
  EXPECT_EQ(read_messages(ring, data.data(), 0, reports, count), 0u);
  const uint32_t bytes = kMessageBytes;
  std::memcpy(data.data(), &bytes, sizeof bytes);
  EXPECT_EQ(read_messages(ring, data.data(), 0, reports, count), kMessageBytes);
  EXPECT_EQ(given, 1u);
}

TEST_F(Prints, ExtentsLieBehindTheFailurePointer) {
  fake_kernel("kiln_entry", nullptr);
  const dsl::Kernel two = kernel_of("%x: ptr<f32>, %n: i32, %y: ptr<f64>");
  auto variant = loaded(two, artifact_of(two, {{"failure_param", 24}, {"extents_param", 32}, {"print_param", 48}}));
  float x[5] = {};
  const client::Argument known = {x, 5, 0};
  ASSERT_TRUE(launch(*variant, two, {known, scalar(3), pointer(x)}).ok());
  EXPECT_EQ(parameter<int64_t>(*fake_launch(0), 32), 5);
  EXPECT_EQ(parameter<int64_t>(*fake_launch(0), 40), -1);
  EXPECT_EQ(parameter<void*>(*fake_launch(0), 48), nullptr);
  EXPECT_NE(message(load(two, artifact_of(two, {{"extents_param", 32}}))).find("extents_param that is not behind"),
            std::string::npos);
}

}  // namespace
}  // namespace kiln::test
