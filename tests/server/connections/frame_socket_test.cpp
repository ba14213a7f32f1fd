// The daemon's side of a connection whose peer does not read, asks for too much, or does not end what it begins.
#include "connections/frame_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <deque>

#include "kiln/wire/channel.h"
#include "lingering.h"
#include "shortage.h"

namespace kiln::server {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""us;

// Runs the loop until this is so, however long the machine takes.
template <class Condition>
bool run_until(asio::io_context& io, const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!condition() && std::chrono::steady_clock::now() < end) {
    io.restart();
    io.run_one_for(10ms);
  }
  return condition();
}

struct Stalled {
  ClientShares shares{io};  // outlives what is in the loop
  asio::io_context io;
  wire::ChannelPair ends = wire::make_channel_pair().value();
  std::optional<CloseReason> closed;
  std::shared_ptr<FrameSocket> socket;

  explicit Stalled(FrameSocket::Options options) {
    if (options.owner != 0) options.shares = &shares;
    socket = std::make_shared<FrameSocket>(io, watched(io, std::move(ends.ours)).value(), std::make_shared<Bytes>(4096),
                                           options);
    socket->start({.frame = [](const wire::Frame&) {}, .closed = [this](const CloseReason& why) { closed = why; }});
  }
  void send(size_t size) {
    socket->send({.type = wire::Type::kResult, .request_id = 1, .body = std::make_shared<const Bytes>(size)});
  }
};

TEST(FrameSocket, APeerThatReadsNothingForLongIsLeft) {
  Stalled peer({.pace = {200ms, 1 << 20}});
  const auto begun = std::chrono::steady_clock::now();
  peer.send(8 << 20);  // more than the kernel holds
  peer.io.run_for(60s);
  ASSERT_TRUE(peer.closed);
  EXPECT_EQ(peer.closed->kind, CloseReason::kSlowReader);
  EXPECT_EQ(peer.closed->message, "too little read for too long");
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 200ms);
  EXPECT_FALSE(peer.socket->open());
}

// Its pauses together are longer than the limit, and each is shorter, as long as the machine does not stand still:
// where one was longer, this shows nothing.
TEST(FrameSocket, APeerThatReadsNowAndThenIsKept) {
  bool kept = false;
  for (int attempt = 0; attempt < 5 && !kept; ++attempt) {
    Stalled peer({.pace = {2s, 512 << 10}});
    peer.send(2 << 20);
    std::vector<std::byte> taken(2 << 20);
    auto last = std::chrono::steady_clock::now();
    std::chrono::steady_clock::duration longest{};
    for (int i = 0; i < 9; ++i) {
      peer.io.run_for(250ms);
      const auto now = std::chrono::steady_clock::now();
      longest = std::max(longest, now - std::exchange(last, now));
      const ssize_t count = wire::receive_some(peer.ends.theirs.get(), taken.data(), 192 << 10, nullptr);
      ASSERT_TRUE(count > 0 || longest > 500ms);
    }
    kept = !peer.closed;
    ASSERT_TRUE(kept || longest > 500ms) << "no pause was as long as the limit";
  }
  EXPECT_TRUE(kept);
}

// A byte now and then keeps nothing alive.
TEST(FrameSocket, APeerThatDripsIsLeft) {
  Stalled peer({.pace = {500ms, 64 << 10}});
  peer.send(8 << 20);
  std::byte one{};
  for (int i = 0; i < 600 && !peer.closed; ++i) {
    peer.io.run_for(10ms);
    ASSERT_EQ(wire::receive_some(peer.ends.theirs.get(), &one, 1, nullptr), 1);
  }
  ASSERT_TRUE(peer.closed);
  EXPECT_EQ(peer.closed->kind, CloseReason::kSlowReader);
}

TEST(FrameSocket, APeerThatLeavesTooMuchUnreadIsLeft) {
  Stalled peer({.max_pending = 1 << 20});
  for (int i = 0; i < 20; ++i) peer.send(256 << 10);
  peer.io.poll();
  ASSERT_TRUE(peer.closed);
  EXPECT_EQ(peer.closed->message, "too much unread output");
}

// Descriptors that nobody asked for, where the kernel lets them pass: as they are received, and as the socket closes
// with what was not read.
TEST(FrameSocket, WhatIsPassedToItIsClosedElsewhere) {
  for (const bool is_read : {true, false}) {
    asio::io_context io;
    auto ends = wire::make_channel_pair().value();
    wire::UniqueFd same(::fcntl(ends.ours.get(), F_DUPFD_CLOEXEC, 0));
    auto socket = std::make_shared<FrameSocket>(io, watched(io, std::move(ends.ours)).value(),
                                                std::make_shared<Bytes>(4096), FrameSocket::Options{});
    int frames = 0;
    socket->start({.frame = [&](const wire::Frame&) { ++frames; }, .closed = [](const CloseReason&) {}});
    constexpr int kPassRights = 83, kOn = 1;  // SO_PASSRIGHTS
    ::setsockopt(same.get(), SOL_SOCKET, kPassRights, &kOn, sizeof kOn);
    same.reset();
    service_test::Lingering lingering(10);
    const auto ping = wire::encode_header({.type = wire::Type::kPing, .request_id = 1});
    const std::array<std::span<const std::byte>, 1> pieces = {std::span<const std::byte>(ping)};
    ASSERT_EQ(wire::send_some(ends.theirs.get(), pieces, 0, lingering.socket.get()), static_cast<ssize_t>(ping.size()));
    lingering.socket.reset();
    const auto begun = std::chrono::steady_clock::now();
    if (is_read) {
      ASSERT_TRUE(run_until(io, [&] { return frames == 1; }));
    }
    socket->close();
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 5s) << is_read;
  }
}

// From Linux 6.16 on; before, there is the above.
TEST(FrameSocket, NobodyCanPassDescriptorsToIt) {
  asio::io_context io;
  auto ends = wire::make_channel_pair().value();
  int is_on = 0;
  socklen_t size = sizeof is_on;
  constexpr int kPassRights = 83;  // SO_PASSRIGHTS
  if (::getsockopt(ends.ours.get(), SOL_SOCKET, kPassRights, &is_on, &size) != 0) GTEST_SKIP() << "an older kernel";
  const std::array<std::byte, 1> byte{};
  const std::array<std::span<const std::byte>, 1> pieces = {byte};
  for (const bool accepts : {true, false}) {
    auto pair = wire::make_channel_pair().value();
    const auto socket =
        std::make_shared<FrameSocket>(io, watched(io, std::move(pair.ours)).value(), std::make_shared<Bytes>(4096),
                                      FrameSocket::Options{.accept_fds = accepts});
    const ssize_t sent = wire::send_some(pair.theirs.get(), pieces, 0, STDERR_FILENO);
    EXPECT_EQ(sent, accepts ? 1 : -1);
    EXPECT_TRUE(accepts || errno == EPERM) << errno;
  }
}

// Whatever is begun has its time, however short it is, also where a byte comes now and then.
TEST(FrameSocket, WhoBeginsAFrameMustEndIt) {
  for (size_t begun : {7u, 40u, 100u << 10}) {
    for (bool drips : {false, true}) {
      Stalled peer({.pace = {200ms, 1 << 20}, .owner = 7});
      const auto header = wire::encode_header({.type = wire::Type::kCompile, .body_size = 1 << 20, .request_id = 1});
      std::vector<std::byte> part(header.begin(), header.end());
      part.resize(begun);
      auto send = [&](std::span<const std::byte> bytes) {
        const std::array<std::span<const std::byte>, 1> pieces = {bytes};
        return wire::send_some(peer.ends.theirs.get(), pieces, 0, -1);
      };
      ASSERT_EQ(send(part), static_cast<ssize_t>(begun));
      for (int i = 0; i < 2000 && !peer.closed; ++i) {
        peer.io.run_for(10ms);
        if (drips && i > 2) (void)send(std::span(part).first(1));
      }
      ASSERT_TRUE(peer.closed) << begun;
      EXPECT_EQ(peer.closed->kind, CloseReason::kSlowWriter) << begun << peer.closed->message;
      EXPECT_EQ(peer.shares.incoming.total(), 0u);
    }
  }
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

// It has closed already, and its owner keeps a place for it until it hears.
TEST(FrameSocket, AFailureIsToldWithoutMemory) {
  Stalled peer({});
  peer.ends.theirs.reset();
  bool has_thrown = false;
  {
    const service_test::NoMemory none;
    try {
      peer.io.poll();
    } catch (const std::bad_alloc&) {
      has_thrown = true;
    }
  }
  EXPECT_FALSE(has_thrown);
  EXPECT_FALSE(peer.socket->open());
  EXPECT_TRUE(peer.closed);
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

// Sockets of some processes, whose peers are here.
struct Peers {
  ClientShares shares{io};  // outlives what is in the loop
  asio::io_context io;
  std::shared_ptr<Bytes> scratch = std::make_shared<Bytes>(wire::kReadStep);
  struct Peer {
    wire::UniqueFd end;
    std::shared_ptr<FrameSocket> socket;
    std::optional<CloseReason> closed;
    size_t frames = 0;
  };
  std::deque<Peer> all;

  Peer& add(FrameSocket::Options options, std::function<void(Peer&, wire::Frame)> frame = nullptr) {
    auto ends = wire::make_channel_pair().value();
    options.shares = &shares;
    Peer& peer = all.emplace_back();
    peer.end = std::move(ends.theirs);
    peer.socket = std::make_shared<FrameSocket>(io, watched(io, std::move(ends.ours)).value(), scratch, options);
    peer.socket->start({.frame =
                            [&peer, frame](wire::Frame got) {
                              ++peer.frames;
                              if (frame) frame(peer, std::move(got));
                            },
                        .closed = [&peer](const CloseReason& why) { peer.closed = why; }});
    return peer;
  }
  static void ask(Peer& peer, size_t count) {
    const auto header = wire::encode_header({.type = wire::Type::kPing, .request_id = 1});
    std::vector<std::byte> all;
    for (size_t i = 0; i < count; ++i) all.insert(all.end(), header.begin(), header.end());
    const std::array<std::span<const std::byte>, 1> pieces = {all};
    ASSERT_EQ(wire::send_some(peer.end.get(), pieces, 0, -1), static_cast<ssize_t>(all.size()));
  }
};

// Who does not read is not read, and loses nothing by it.
TEST(FrameSocket, AGreedyPeerIsAnsweredAsItReads) {
  Peers peers;
  constexpr size_t kRequests = 1000, kAnswer = 100 << 10;
  const auto body = std::make_shared<const Bytes>(kAnswer);
  Peers::Peer& peer = peers.add({}, [&](Peers::Peer& from, const wire::Frame&) {
    from.socket->send({.type = wire::Type::kResult, .request_id = from.frames, .body = body});
  });
  peers.ask(peer, kRequests);
  peers.io.run_for(200ms);
  EXPECT_LT(peer.frames, 30u) << "1 MiB, and what the kernel holds";
  EXPECT_LT(peer.socket->pending(), (1u << 20) + 2 * kAnswer);
  EXPECT_FALSE(peer.socket->quiet());
  wire::Channel reader(std::move(peer.end));
  for (uint64_t id = 1; id <= kRequests; ++id) {
    auto answer = reader.read(wire::Clock::now());
    while (!answer && answer.error().code == ErrorCode::kDeadlineExceeded) {
      peers.io.run_for(1ms);
      answer = reader.read(wire::Clock::now());
    }
    ASSERT_TRUE(answer) << answer.error().message;
    ASSERT_EQ(answer->id(), id);
  }
  EXPECT_TRUE(run_until(peers.io, [&] { return peer.socket->quiet(); }));
  EXPECT_EQ(peers.shares.outgoing.total(), 0u);
}

// All connections of a process together; what small answers take beside their bytes counts.
TEST(FrameSocket, WhatAProcessLeavesUnreadIsItsOwnMatter) {
  Peers peers;
  constexpr uint64_t kLimit = 4u << 20;
  for (size_t size : {size_t{0}, size_t{64} << 10}) {
    for (int i = 0; i < 12; ++i) peers.add({.owner = 1, .outgoing_limit = kLimit});
    Peers::Peer& other = peers.add({.owner = 2, .outgoing_limit = kLimit});
    const auto body = std::make_shared<const Bytes>(size);
    const size_t rounds = size == 0 ? 6000 : 40;
    for (size_t round = 0; round < rounds; ++round) {
      for (auto& peer : peers.all) {
        if (&peer != &other) peer.socket->send({.type = wire::Type::kResult, .request_id = 1, .body = body});
      }
      ASSERT_LE(peers.shares.outgoing.total(), kLimit);
    }
    peers.io.poll();
    EXPECT_TRUE(std::ranges::any_of(peers.all, [](const auto& peer) { return peer.closed.has_value(); })) << size;
    for (const auto& peer : peers.all) {
      EXPECT_EQ(peer.closed ? peer.closed->message : "too much unread output", "too much unread output");
    }
    other.socket->send({.type = wire::Type::kResult, .request_id = 1, .body = std::make_shared<const Bytes>(1 << 20)});
    peers.io.poll();
    EXPECT_TRUE(other.socket->open());
    for (auto& peer : peers.all) peer.socket->close();
    EXPECT_EQ(peers.shares.outgoing.total(), 0u);
    peers.all.clear();
  }
}

// A file, of which descriptors are passed.
Outgoing file_of(const Bytes& bytes, uint64_t id) {
  wire::UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  return {.type = wire::Type::kResult,
          .request_id = id,
          .fd = std::make_shared<const wire::UniqueFd>(std::move(file)),
          .fd_is_body = true};
}

TEST(FrameSocket, FewDescriptorsAreOnTheirWayAndTheRestAreBytes) {
  Peers peers;
  constexpr uint64_t kFiles = 40;
  const Bytes bytes(1000, std::byte{42});
  std::vector<wire::Channel> readers;
  for (int i = 0; i < 6; ++i) {
    Peers::Peer& peer = peers.add({.owner = 1});
    for (uint64_t id = 1; id <= kFiles; ++id) peer.socket->send(file_of(bytes, id));
    readers.emplace_back(std::move(peer.end));
  }
  EXPECT_EQ(peers.shares.descriptors.total(), 64u) << "of a process";
  std::vector<int> passed;
  for (auto& reader : readers) {
    passed.push_back(0);
    for (uint64_t id = 1; id <= kFiles; ++id) {
      auto answer = reader.read(wire::Clock::now() + 60s);
      ASSERT_TRUE(answer) << answer.error().message;
      ASSERT_EQ(answer->id(), id);
      passed.back() += answer->fd ? 1 : 0;
      struct stat info{};
      if (answer->fd) {
        ASSERT_EQ(::fstat(answer->fd.get(), &info), 0);
        EXPECT_EQ(static_cast<size_t>(info.st_size), bytes.size());
      } else {
        EXPECT_EQ(answer->body, bytes);
      }
    }
  }
  EXPECT_EQ(passed, (std::vector<int>{16, 16, 16, 16, 0, 0})) << "of a connection, and of a process";
  // All are received, which is seen a moment later.
  EXPECT_TRUE(run_until(peers.io, [&] { return peers.shares.descriptors.total() == 0; }));
  peers.all[5].socket->send(file_of(bytes, 1));
  EXPECT_TRUE(readers[5].read(wire::Clock::now() + 60s)->fd);
}

// However many connections a process has, and however much it asks for: one of another process is answered soon.
TEST(FrameSocket, AGreedyProcessTakesTurns) {
  Peers peers;
  size_t greedy = 0;
  auto work = [](Peers::Peer&, const wire::Frame&) {
    const auto until = std::chrono::steady_clock::now() + 20us;
    while (std::chrono::steady_clock::now() < until) {
    }
  };
  for (int i = 0; i < 40; ++i) {
    peers.ask(peers.add({.owner = 1},
                        [&](Peers::Peer& from, const wire::Frame& frame) {
                          ++greedy;
                          work(from, frame);
                        }),
              250);
  }
  size_t before = 0;
  for (int i = 0; i < 30; ++i) peers.io.poll_one();  // they are at it
  EXPECT_GT(greedy, 0u);
  const size_t then = greedy;
  peers.ask(peers.add({.owner = 2}, [&](Peers::Peer&, const wire::Frame&) { before = greedy - then; }), 1);
  while (peers.all.back().frames == 0) peers.io.run_one();
  EXPECT_LE(before, 20u) << "of 10000; a turn has five";
  while (greedy < 10'000) peers.io.run_one();  // and all are answered
}

// Nor does a worker that sends without end, which is no process that shares are counted of.
TEST(FrameSocket, AChildOfTheDaemonsTakesTurns) {
  Peers peers;
  size_t greedy = 0, before = SIZE_MAX;
  auto ends = wire::make_channel_pair().value();
  auto child = std::make_shared<FrameSocket>(peers.io, watched(peers.io, std::move(ends.ours)).value(), peers.scratch,
                                             FrameSocket::Options{});
  child->start({.frame =
                    [&](const wire::Frame&) {
                      ++greedy;
                      const auto until = std::chrono::steady_clock::now() + 20us;
                      while (std::chrono::steady_clock::now() < until) {
                      }
                    },
                .closed = [](const CloseReason&) {}});
  Peers::Peer sender;
  sender.end = std::move(ends.theirs);
  peers.ask(sender, 1000);
  while (greedy == 0) peers.io.run_one();
  EXPECT_LE(greedy, 20u) << "of 1000; a turn has five";
  const size_t then = greedy;
  peers.ask(peers.add({.owner = 2}, [&](Peers::Peer&, const wire::Frame&) { before = greedy - then; }), 1);
  while (peers.all.back().frames == 0) peers.io.run_one();
  EXPECT_LE(before, 20u);
  while (greedy < 1000) peers.io.run_one();  // and all are heard
  child->close();
}

TEST(FrameSocket, WhatAFrameLeavesToDoComesBeforeTheNext) {
  Peers peers;
  auto ends = wire::make_channel_pair().value();
  auto socket = std::make_shared<FrameSocket>(peers.io, watched(peers.io, std::move(ends.ours)).value(), peers.scratch,
                                              FrameSocket::Options{.shares = &peers.shares, .owner = 1});
  std::string seen;
  int left = 0, held = 2;
  socket->start({.frame =
                     [&](const wire::Frame&) {
                       seen += 'f';
                       left = 3;
                     },
                 .closed = [](const CloseReason&) {},
                 .go_on =
                     [&] {
                       if (left == 0) return FrameSocket::Left::kNothing;
                       if (held > 0 && left == 2) {
                         seen += '.';
                         --held;
                         asio::post(peers.io, [&] { socket->resume(); });
                         return FrameSocket::Left::kLater;
                       }
                       seen += 'p';
                       --left;
                       return FrameSocket::Left::kMore;
                     }});
  Peers::Peer peer;
  peer.end = std::move(ends.theirs);
  peers.ask(peer, 3);
  EXPECT_TRUE(run_until(peers.io, [&] { return seen.size() >= 14 && socket->quiet(); }));
  EXPECT_EQ(seen, "fp..ppfpppfppp");
  socket->close();
}

TEST(Watched, WithoutWatchesADescriptorIsRefusedAndClosed) {
  asio::io_context io;
  auto ends = wire::make_channel_pair().value();
  const int number = ends.ours.get();
  {
    const service_test::NoWatches none;
    EXPECT_FALSE(watched(io, std::move(ends.ours)));
  }
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
  EXPECT_TRUE(watched(io, std::move(ends.theirs)));
}

TEST(Turns, EachProcessHasOneInARound) {
  asio::io_context io;
  Turns turns(io);
  std::string order;
  std::function<void(uint64_t, char)> greedy = [&](uint64_t owner, char name) {
    order += name;
    turns.spend(owner, Turns::kTurn, Turns::Clock::now());
    if (order.size() < 40) turns.wait(owner, [&, owner, name] { greedy(owner, name); });
  };
  for (char name : {'a', 'b', 'c'}) turns.wait(1, [&, name] { greedy(1, name); });
  turns.wait(2, [&] { greedy(2, 'x'); });
  io.run();
  EXPECT_EQ(order.substr(0, 12), "axbxcxaxbxcx");
}

TEST(Turns, WhatIsUsedBeyondATurnIsPaidForInTheNext) {
  asio::io_context io;
  Turns turns(io);
  std::string order;
  turns.wait(1, [&] {
    order += 'a';
    turns.spend(1, 5 * Turns::kTurn, Turns::Clock::now());
    turns.wait(1, [&] { order += 'a'; });
  });
  std::function<void()> other = [&] {
    order += 'x';
    turns.spend(2, Turns::kTurn, Turns::Clock::now());
    if (order.size() < 20) turns.wait(2, other);
  };
  turns.wait(2, other);
  io.run();
  EXPECT_EQ(order.substr(0, 8), "axxxxxax");
}

}  // namespace
}  // namespace kiln::server
