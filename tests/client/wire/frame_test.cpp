// Frame headers and the incremental decoder.
#include "kiln/wire/frame.h"

#include <gtest/gtest.h>

#include <random>

namespace kiln::wire {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> frame_bytes(const FrameHeader& header, std::string_view json, std::string_view body) {
  auto fixed = encode_header(header);
  std::vector<std::byte> out(fixed.begin(), fixed.end());
  for (auto text : {json, body}) {
    auto more = bytes_of(text);
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

TEST(FrameHeader, Layout) {
  auto bytes = encode_header({.version = 0x0102,
                              .type = Type::kCompile,
                              .flags = 3,
                              .json_size = 0x11223344 & 0xffff,
                              .body_size = 0x0102030405060708,
                              .request_id = 0x1112131415161718});
  std::string hex;
  for (auto byte : bytes) {
    static constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[std::to_integer<int>(byte) >> 4];
    hex += kDigits[std::to_integer<int>(byte) & 15];
  }
  EXPECT_EQ(hex,
            "4b494c4e"
            "0201"
            "0500"
            "03000000"
            "44330000"
            "0807060504030201"
            "1817161514131211");
}

TEST(FrameHeader, RoundTrip) {
  FrameHeader header{
      .version = 0x0100, .type = Type::kResult, .flags = 1, .json_size = 7, .body_size = 9, .request_id = 5};
  auto decoded = decode_header(encode_header(header), {});
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->version, header.version);
  EXPECT_EQ(decoded->type, header.type);
  EXPECT_EQ(decoded->flags, header.flags);
  EXPECT_EQ(decoded->json_size, header.json_size);
  EXPECT_EQ(decoded->body_size, header.body_size);
  EXPECT_EQ(decoded->request_id, header.request_id);
}

TEST(FrameHeader, Refusals) {
  auto with_magic = encode_header({});
  with_magic[0] = std::byte{0};
  EXPECT_FALSE(decode_header(with_magic, {}));
  EXPECT_FALSE(decode_header(encode_header({.json_size = kMaxJsonSize + 1}), {}));
  EXPECT_TRUE(decode_header(encode_header({.json_size = kMaxJsonSize}), {}));
  EXPECT_FALSE(decode_header(encode_header({.body_size = kMaxBodySize + 1}), {}));
  EXPECT_TRUE(decode_header(encode_header({.body_size = kMaxBodySize}), {}));
  EXPECT_FALSE(decode_header(encode_header({.body_size = uint64_t{1} << 63}), {}));
  EXPECT_FALSE(decode_header(encode_header({.flags = 1u << 16}), {}));
  EXPECT_TRUE(decode_header(encode_header({.flags = 1u << 15}), {}));
}

TEST(FrameHeader, ABodyIsRefusedWhereNoneBelongs) {
  const FrameLimits limits{.max_body = 100,
                           .max_body_of = [](Type type) { return type == Type::kResult ? kMaxBodySize : uint64_t{3}; }};
  auto accepted = [&](Type type, uint64_t size) {
    return decode_header(encode_header({.type = type, .body_size = size}), limits).ok();
  };
  EXPECT_TRUE(accepted(Type::kResult, 100));
  EXPECT_FALSE(accepted(Type::kResult, 101));
  EXPECT_TRUE(accepted(Type::kPhase, 3));
  EXPECT_FALSE(accepted(Type::kPhase, 4));
}

TEST(FrameDecoder, AnySplitOfTheStream) {
  auto stream = frame_bytes({.type = Type::kGet, .json_size = 2, .body_size = 5, .request_id = 1}, "{}", "hello");
  auto second = frame_bytes({.type = Type::kPing, .request_id = 2}, "", "");
  stream.insert(stream.end(), second.begin(), second.end());
  for (size_t step = 1; step <= stream.size(); ++step) {
    FrameDecoder decoder;
    std::vector<Frame> frames;
    for (size_t at = 0; at < stream.size(); at += step) {
      std::span<const std::byte> piece(stream.data() + at, std::min(step, stream.size() - at));
      while (!piece.empty()) {
        auto used = decoder.feed(piece);
        ASSERT_TRUE(used);
        piece = piece.subspan(*used);
        if (decoder.complete()) frames.push_back(decoder.take());
      }
    }
    ASSERT_EQ(frames.size(), 2u) << step;
    EXPECT_EQ(frames[0].json, "{}");
    EXPECT_EQ(frames[0].body, bytes_of("hello"));
    EXPECT_EQ(frames[1].id(), 2u);
    EXPECT_FALSE(decoder.mid_frame());
  }
}

// The rest of it is read and dropped, and the next frame is where it should be.
TEST(FrameDecoder, ARefusedFrameIsReadToItsEnd) {
  auto stream =
      frame_bytes({.type = Type::kCompile, .json_size = 2, .body_size = 10, .request_id = 5}, "{}", "0123456789");
  const auto second = frame_bytes({.type = Type::kGet, .body_size = 3, .request_id = 6}, "", "abc");
  stream.insert(stream.end(), second.begin(), second.end());
  FrameDecoder decoder;
  std::span<const std::byte> rest(stream);
  const size_t part = kFrameHeaderSize + 2 + 4;
  ASSERT_EQ(decoder.feed(rest.first(part)).value(), part);
  EXPECT_EQ(decoder.held(), 4u);
  decoder.refuse();
  EXPECT_EQ(decoder.held(), 0u);
  rest = rest.subspan(part);
  rest = rest.subspan(decoder.feed(rest).value());
  ASSERT_TRUE(decoder.complete());
  const Frame refused = decoder.take();
  EXPECT_TRUE(refused.refused);
  EXPECT_EQ(refused.id(), 5u);
  EXPECT_EQ(refused.json, "{}");
  EXPECT_TRUE(refused.body.empty());
  ASSERT_TRUE(decoder.feed(rest));
  ASSERT_TRUE(decoder.complete());
  const Frame next = decoder.take();
  EXPECT_FALSE(next.refused);
  EXPECT_EQ(next.body, bytes_of("abc"));
}

TEST(FrameDecoder, HugeClaimCostsOneStep) {
  FrameDecoder decoder;
  auto header = encode_header({.type = Type::kCompile, .body_size = kMaxBodySize, .request_id = 1});
  ASSERT_TRUE(decoder.feed(header));
  EXPECT_FALSE(decoder.complete());
  EXPECT_TRUE(decoder.mid_frame());
  EXPECT_LE(decoder.take().body.capacity(), kReadStep);
}

// Once much of it has come it has its place, and is not copied again.
TEST(FrameDecoder, ALargeBodyDoesNotMove) {
  constexpr size_t kSize = 40u << 20;
  FrameDecoder decoder;
  ASSERT_TRUE(decoder.feed(encode_header({.type = Type::kCompile, .body_size = kSize, .request_id = 1})));
  const std::vector<std::byte> piece(kReadStep, std::byte{7});
  size_t fed = 0;
  for (; fed < kLargeBody; fed += piece.size()) {
    EXPECT_EQ(decoder.held(), fed);
    ASSERT_TRUE(decoder.feed(piece));
  }
  for (; fed < kSize; fed += piece.size()) {
    ASSERT_TRUE(decoder.feed(piece));
    EXPECT_EQ(decoder.held(), kSize);
  }
  ASSERT_TRUE(decoder.complete());
  const Frame frame = decoder.take();
  EXPECT_EQ(frame.body.size(), kSize);
  EXPECT_EQ(frame.body.capacity(), kSize) << "what grows by copies has room to grow";
}

TEST(FrameDecoder, BadMagicIsToldApart) {
  FrameDecoder decoder;
  EXPECT_FALSE(decoder.feed(bytes_of(std::string(32, 'x'))));
  EXPECT_TRUE(decoder.bad_magic());
  FrameDecoder other;
  EXPECT_FALSE(other.feed(encode_header({.flags = 1u << 30})));
  EXPECT_FALSE(other.bad_magic());
}

TEST(FrameDecoder, RandomBytesEndInErrorsOrFrames) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    FrameDecoder decoder;
    auto stream =
        frame_bytes({.type = Type::kGet, .json_size = 4, .body_size = 8, .request_id = 1}, "{  }", "12345678");
    stream[random() % stream.size()] ^= static_cast<std::byte>(random());
    std::span<const std::byte> rest(stream);
    while (!rest.empty()) {
      auto used = decoder.feed(rest);
      if (!used) break;
      rest = rest.subspan(*used);
      if (decoder.complete()) (void)decoder.take();
    }
  }
}

}  // namespace
}  // namespace kiln::wire
