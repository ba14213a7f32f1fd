// Blocking frame I/O: deadlines, ends, descriptors.
#include "kiln/wire/channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <thread>

namespace kiln::wire {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

struct Pair {
  Channel left, right;
  static Pair make() {
    auto pair = make_channel_pair().value();
    return {Channel(std::move(pair.ours)), Channel(std::move(pair.theirs))};
  }
};

TEST(Channel, FramesArriveWhole) {
  auto pair = Pair::make();
  std::vector<std::byte> body(5u << 20, std::byte{7});
  std::string json = R"({"a":1})";
  std::thread writer([&] {
    for (uint64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(pair.left.write({.type = Type::kResult, .request_id = i, .json = json, .body = {body, body}}));
    }
  });
  for (uint64_t i = 0; i < 3; ++i) {
    auto frame = pair.right.read(Clock::now() + 60s);
    ASSERT_TRUE(frame) << frame.error().message;
    EXPECT_EQ(frame->id(), i);
    EXPECT_EQ(frame->json, json);
    EXPECT_EQ(frame->body.size(), 2 * body.size());
  }
  writer.join();
}

TEST(Channel, DescriptorsComeWithTheirFrames) {
  auto pair = Pair::make();
  UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(pair.left.write({.type = Type::kResult, .request_id = i, .fd = i % 2 ? file.get() : -1}));
  }
  for (uint64_t i = 0; i < 4; ++i) {
    auto frame = pair.right.read(Clock::now() + 60s);
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->fd.valid(), i % 2 == 1);
    if (!frame->fd) continue;
    struct stat ours{}, theirs{};
    ASSERT_EQ(::fstat(file.get(), &ours), 0);
    ASSERT_EQ(::fstat(frame->fd.get(), &theirs), 0);
    EXPECT_EQ(ours.st_ino, theirs.st_ino);
    EXPECT_TRUE(::fcntl(frame->fd.get(), F_GETFD) & FD_CLOEXEC);
  }
}

TEST(Channel, AnnouncedButMissingDescriptor) {
  auto pair = Pair::make();
  ASSERT_TRUE(pair.left.write({.type = Type::kResult, .flags = flag::kHasFd}));
  EXPECT_EQ(pair.right.read(Clock::now() + 60s).error().code, ErrorCode::kInvalidArgument);
}

TEST(Channel, Deadline) {
  auto pair = Pair::make();
  auto begin = Clock::now();
  auto nothing = pair.right.read(begin + 30ms);
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_GE(Clock::now() - begin, 30ms);
}

TEST(Channel, WriterIsNotHeldForEver) {
  auto pair = Pair::make();
  std::vector<std::byte> body(8u << 20);
  auto stuck = pair.left.write({.type = Type::kResult, .body = {body}}, Clock::now() + 30ms);
  ASSERT_FALSE(stuck);
  // A part was sent: no other frame can follow.
  EXPECT_EQ(stuck.error().code, ErrorCode::kUnavailable);
  auto full = pair.left.write({.type = Type::kPing}, Clock::now() + 30ms);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kDeadlineExceeded);
}

TEST(Channel, WakesUp) {
  auto pair = Pair::make();
  UniqueFd wake(::eventfd(1, EFD_CLOEXEC));
  EXPECT_EQ(pair.right.read(kNoDeadline, wake.get()).error().code, ErrorCode::kCancelled);
}

TEST(Channel, EndOfFileAndTornFrames) {
  auto pair = Pair::make();
  auto header = encode_header({.type = Type::kResult, .body_size = 10});
  std::array<std::span<const std::byte>, 1> pieces = {std::span<const std::byte>(header)};
  ASSERT_EQ(send_some(pair.left.fd(), pieces, 0, -1), 32);
  pair.left.release().reset();
  auto torn = pair.right.read(Clock::now() + 60s);
  ASSERT_FALSE(torn);
  EXPECT_EQ(torn.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(torn.error().message.find("inside a frame"), std::string::npos);
  EXPECT_EQ(pair.right.write({.type = Type::kPing}).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace kiln::wire
