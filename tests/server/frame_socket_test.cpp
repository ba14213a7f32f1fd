// The daemon's side of a connection whose peer does not read.
#include "frame_socket.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "kiln/wire/channel.h"

namespace kiln::server {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

struct Stalled {
  asio::io_context io;
  wire::ChannelPair ends = wire::make_channel_pair().value();
  std::optional<CloseReason> closed;
  std::shared_ptr<FrameSocket> socket;

  explicit Stalled(FrameSocket::Options options) {
    socket = std::make_shared<FrameSocket>(io, std::move(ends.ours), std::make_shared<Bytes>(4096), options);
    socket->start({.frame = [](const wire::Frame&) {}, .closed = [this](const CloseReason& why) { closed = why; }});
  }
  void send(size_t size) {
    socket->send({.type = wire::Type::kResult, .request_id = 1, .body = std::make_shared<const Bytes>(size)});
  }
};

TEST(FrameSocket, APeerThatReadsNothingForLongIsLeft) {
  Stalled peer({.stall_timeout = 200ms});
  const auto begun = std::chrono::steady_clock::now();
  peer.send(8 << 20);  // more than the kernel holds
  peer.io.run_for(60s);
  ASSERT_TRUE(peer.closed);
  EXPECT_EQ(peer.closed->kind, CloseReason::kSlowReader);
  EXPECT_EQ(peer.closed->message, "nothing read for too long");
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 200ms);
  EXPECT_FALSE(peer.socket->open());
}

TEST(FrameSocket, APeerThatReadsNowAndThenIsKept) {
  Stalled peer({.stall_timeout = 2s});
  peer.send(2 << 20);
  std::vector<std::byte> taken(2 << 20);
  size_t total = 0;
  // Its pauses together are longer than the limit, and each is shorter.
  for (int i = 0; i < 9; ++i) {
    peer.io.run_for(250ms);
    const ssize_t count = wire::receive_some(peer.ends.theirs.get(), taken.data(), 192 << 10, nullptr);
    ASSERT_GT(count, 0);
    total += static_cast<size_t>(count);
  }
  EXPECT_FALSE(peer.closed);
  EXPECT_GT(total, 9u);
}

TEST(FrameSocket, APeerThatLeavesTooMuchUnreadIsLeft) {
  Stalled peer({.max_pending = 1 << 20});
  for (int i = 0; i < 20; ++i) peer.send(256 << 10);
  peer.io.poll();
  ASSERT_TRUE(peer.closed);
  EXPECT_EQ(peer.closed->message, "too much unread output");
}

TEST(FrameSocket, WhoHoldsRoomMustFillIt) {
  Shares incoming;
  Stalled peer({.stall_timeout = 200ms, .incoming = &incoming, .owner = 7, .incoming_limit = 1 << 20});
  const auto header = wire::encode_header({.type = wire::Type::kCompile, .body_size = 1 << 20, .request_id = 1});
  const std::vector<std::byte> part(100 << 10);
  const std::array<std::span<const std::byte>, 2> pieces = {std::span<const std::byte>(header), part};
  ASSERT_EQ(wire::send_some(peer.ends.theirs.get(), pieces, 0, -1), static_cast<ssize_t>(header.size() + part.size()));
  while (incoming.total() < part.size()) peer.io.run_one();
  peer.io.run_for(60s);
  ASSERT_TRUE(peer.closed);
  EXPECT_EQ(peer.closed->kind, CloseReason::kSlowWriter);
  EXPECT_EQ(incoming.total(), 0u);
}

// Who sends may be walking what the handler would take away.
TEST(FrameSocket, AFailingSendTellsItsOwnerLater) {
  Stalled peer({});
  peer.ends.theirs.reset();
  peer.send(1);
  EXPECT_FALSE(peer.closed);
  EXPECT_FALSE(peer.socket->open());
  peer.send(1);  // of no effect
  peer.io.run();
  ASSERT_TRUE(peer.closed);
  EXPECT_EQ(peer.closed->kind, CloseReason::kIo);
}

// One that its owner closes meanwhile says nothing.
TEST(FrameSocket, AClosedOneSaysNothingOfAFailureBefore) {
  Stalled peer({});
  peer.ends.theirs.reset();
  peer.send(1);
  peer.socket->close();
  peer.io.run();
  EXPECT_FALSE(peer.closed);
}

}  // namespace
}  // namespace kiln::server
