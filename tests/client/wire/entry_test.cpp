// Cache entries: what is written is read, and nothing else is.
#include "kiln/wire/entry.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace kiln::wire {
namespace {

RequestKey some_key(uint8_t first = 1) {
  RequestKey key{};
  key[0] = first;
  return key;
}

std::vector<std::byte> some_entry(size_t size = 300) {
  std::vector<std::byte> code(size);
  for (size_t i = 0; i < size; ++i) code[i] = static_cast<std::byte>(i * 7);
  return encode_entry({.key = some_key(),
                       .builder_id = "builder",
                       .target_kind = "cpu",
                       .metadata = R"({"kernel":"k"})",
                       .code = code,
                       .record = R"({"client":"c"})",
                       .request = std::as_bytes(std::span("request", 7)),
                       .created_ms = 1234})
      .value();
}

TEST(Entry, RoundTrip) {
  auto bytes = some_entry();
  auto view = decode_entry_for(bytes, some_key(), builder_tag("builder"));
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->target_kind, "cpu");
  EXPECT_EQ(view->metadata, R"({"kernel":"k"})");
  EXPECT_EQ(view->created_ms, 1234u);
  EXPECT_EQ(view->record, R"({"client":"c"})");
  ASSERT_EQ(view->request.size(), 7u);
  EXPECT_EQ(view->request[2], std::byte{'q'});
  ASSERT_EQ(view->code.size(), 300u);
  EXPECT_EQ(view->code[10], std::byte{70});
  auto artifact = to_artifact(*view);
  ASSERT_TRUE(artifact);
  EXPECT_EQ(artifact->metadata.kernel, "k");
}

TEST(Entry, MetadataThatAreNotAsTheyMustBeAreNoArtifact) {
  const auto message_of = [](const std::string& metadata) {
    const std::byte code{1};
    auto bytes = encode_entry({.key = some_key(),
                               .builder_id = "builder",
                               .target_kind = "cpu",
                               .metadata = metadata,
                               .code = std::span(&code, 1)})
                     .value();
    auto artifact = to_artifact(decode_entry(bytes).value());
    return artifact ? std::string() : artifact.error().message;
  };
  EXPECT_EQ(message_of(R"({"kernel": "k", "a field to come": 7})"), "");
  EXPECT_NE(message_of(R"({"plan": 3})").find("a bad `plan`"), std::string::npos) << message_of(R"({"plan": 3})");
  EXPECT_NE(message_of("[]"), "");
  EXPECT_NE(message_of(R"({"kernel": "k", "kernel": "l"})"), "");
}

// Entries of older daemons of the same build must stay readable, so these bytes may only change with the version.
TEST(Entry, FormatIsFrozen) {
  auto bytes = some_entry(0);
  ASSERT_EQ(bytes.size(), 112u + 14 + 14 + 7 + 16);
  EXPECT_EQ(std::memcmp(bytes.data() + 104, "\x0e\0\0\0\x07\0\0\0", 8), 0);
  EXPECT_EQ(std::memcmp(bytes.data(), "KNCE\x02\0\0\0\x70\0\0\0\x0e\0\0\0", 16), 0);
  EXPECT_EQ(builder_directory("builder"), builder_directory("builder"));
  EXPECT_EQ(builder_directory("builder").size(), 16u);
  EXPECT_NE(builder_directory("builder"), builder_directory("builder2"));
}

TEST(Entry, EverySingleBitFlipIsRefused) {
  auto bytes = some_entry(40);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_FALSE(decode_entry(damaged)) << bit;
  }
}

TEST(Entry, EveryTruncationAndTailIsRefused) {
  auto bytes = some_entry(40);
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode_entry(std::span(bytes).first(size))) << size;
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_entry(longer));
  longer = bytes;
  longer.insert(longer.end(), bytes.end() - 16, bytes.end());
  EXPECT_FALSE(decode_entry(longer));
  EXPECT_FALSE(decode_entry(std::vector<std::byte>(bytes.size())));
}

TEST(Entry, AnotherKeyOrBuilderIsRefused) {
  auto bytes = some_entry();
  EXPECT_FALSE(decode_entry_for(bytes, some_key(2), builder_tag("builder")));
  EXPECT_FALSE(decode_entry_for(bytes, some_key(), builder_tag("other")));
}

TEST(Entry, LimitsOfTheWriter) {
  std::string metadata(kMaxEntryMetadata + 1, ' ');
  EXPECT_FALSE(encode_entry({.builder_id = "b", .target_kind = "cpu", .metadata = metadata, .code = {}}));
  EXPECT_FALSE(encode_entry({.builder_id = "b", .target_kind = "0123456789abcdef", .metadata = "{}", .code = {}}));
  const std::string record(kMaxEntryRecord + 1, ' ');
  EXPECT_FALSE(encode_entry({.builder_id = "b", .target_kind = "cpu", .metadata = "{}", .code = {}, .record = record}));
  const std::vector<std::byte> request(kMaxEntryRequest + 1);
  EXPECT_FALSE(
      encode_entry({.builder_id = "b", .target_kind = "cpu", .metadata = "{}", .code = {}, .request = request}));
}

TEST(Entry, MetadataThatIsNoObject) {
  auto bytes = encode_entry({.builder_id = "b", .target_kind = "cpu", .metadata = "[1]", .code = {}}).value();
  auto view = decode_entry(bytes);
  ASSERT_TRUE(view);
  EXPECT_FALSE(to_artifact(*view));
}

TEST(Entry, RandomBytes) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes(random() % 400);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    if (bytes.size() > 4 && round % 2) std::memcpy(bytes.data(), "KNCE", 4);
    EXPECT_FALSE(decode_entry(bytes));
  }
}

}  // namespace
}  // namespace kiln::wire
