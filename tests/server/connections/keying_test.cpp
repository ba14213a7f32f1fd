// A large request is hashed in turns: those who come meanwhile do not wait for its key.
#include "connections/keying.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <boost/asio/io_context.hpp>

#include "connections/client_connection.h"
#include "connections/let_go.h"
#include "fake_bytes.h"
#include "kiln/dsl/request.h"
#include "kiln/wire/channel.h"
#include "kiln/wire/json.h"
#include "service_fixture.h"

namespace kiln::service_test {
namespace {

using server::Bytes;
using server::Keying;

constexpr const char* kBuilder = "builder";

TEST(Keying, KnowsTheKeyOfTheWhole) {
  for (size_t size :
       {size_t{0}, size_t{1}, Keying::kPiece - 1, Keying::kPiece, Keying::kPiece + 1, size_t{1'000'003}}) {
    const Bytes canonical = fake_bytes("canonical", size), debug = fake_bytes("debug", 200'000);
    Keying keying(kBuilder, {canonical, debug});
    size_t steps = 1;
    while (!keying.step()) ++steps;
    EXPECT_EQ(keying.key(), request_key(kBuilder, canonical)) << size;
    EXPECT_EQ(steps,
              std::max(size, debug.size()) / Keying::kPiece + (std::max(size, debug.size()) % Keying::kPiece != 0))
        << size;
  }
}

TEST(Keying, TellsDebugSectionsApart) {
  const auto hash_of = [](const Bytes& debug) {
    Keying keying(kBuilder, {{}, debug});
    while (!keying.step()) {
    }
    return keying.debug_hash();
  };
  const Bytes some = fake_bytes("debug", 200'000);
  EXPECT_EQ(hash_of(some), hash_of(Bytes(some)));
  for (size_t at : {size_t{0}, Keying::kPiece - 1, Keying::kPiece, size_t{199'999}}) {
    Bytes other = some;
    other[at] ^= std::byte{1};
    EXPECT_NE(hash_of(other), hash_of(some)) << at;
  }
  EXPECT_NE(hash_of(Bytes(some.begin(), some.end() - 1)), hash_of(some));
}

// Whoever let go of it, and wherever it was held.
TEST(LetGo, ManyBytesAreGivenBack) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer keeps what is given back";
  auto many = server::share(Bytes(16u << 20, std::byte{1}));
  auto alias = many;
  auto* page = const_cast<std::byte*>(many->data() - reinterpret_cast<uintptr_t>(many->data()) % 4096) + 4096;
  unsigned char there = 0;
  many = nullptr;
  EXPECT_EQ(::mincore(page, 4096, &there), 0) << "somebody has it";
  alias = nullptr;
  EXPECT_TRUE(eventually([&] { return ::mincore(page, 4096, &there) != 0; }));
  EXPECT_EQ(server::share(Bytes(100, std::byte{1}))->size(), 100u);
}

// What is behind a daemon's connections, without workers: what is to be compiled waits.
class LargeRequests : public ::testing::Test {
 protected:
  struct Peer {
    wire::UniqueFd end;
    std::shared_ptr<server::ClientConnection> connection;

    bool can_read() const {
      pollfd wait{end.get(), POLLIN, 0};
      return ::poll(&wait, 1, 0) > 0;
    }
  };

  // Greeted.
  Peer add() {
    auto ends = wire::make_channel_pair().value();
    ::fcntl(ends.theirs.get(), F_SETFL, O_NONBLOCK);
    Peer peer{std::move(ends.theirs),
              std::make_shared<server::ClientConnection>(services_, next_++,
                                                         server::watched(io_, std::move(ends.ours)).value(), scratch_)};
    peer.connection->start();
    wire::Hello hello;
    hello.client_name = "test";
    const std::string json = wire::to_text(hello);
    give(peer, {.type = wire::Type::kHello, .json = json});
    io_.poll();
    EXPECT_EQ(take(peer)->type(), wire::Type::kWelcome);
    return peer;
  }
  // All but the last so many bytes; the loop runs where it must to take them in. They are returned.
  Bytes give(Peer& peer, const wire::OutFrame& frame, size_t but = 0) {
    const auto header = wire::encode_header(frame.header());
    Bytes all(header.begin(), header.end());
    for (char c : frame.json) all.push_back(static_cast<std::byte>(c));
    for (const auto& piece : frame.body) all.insert(all.end(), piece.begin(), piece.end());
    give_bytes(peer, std::span(all).first(all.size() - but));
    return {all.end() - static_cast<ptrdiff_t>(but), all.end()};
  }
  void give_bytes(Peer& peer, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(peer.end.get(), bytes.data(), bytes.size());
      if (count < 0) {
        io_.poll_one();
      } else {
        bytes = bytes.subspan(static_cast<size_t>(count));
      }
    }
  }
  static Result<wire::Frame> take(Peer& peer) {
    wire::Channel channel{wire::UniqueFd(::dup(peer.end.get()))};
    return channel.read(wire::Clock::now());
  }
  static Bytes compile_body(size_t canonical) {
    Bytes out = fake_bytes("body", 4 + canonical);
    const auto length = static_cast<uint32_t>(canonical);
    std::memcpy(out.data(), &length, sizeof length);
    return out;
  }
  size_t jobs() const { return scheduler_.stats()["jobs"]; }
  // Runs the loop, an event at a time.
  template <class Condition>
  ::testing::AssertionResult comes(const Condition& condition) {
    const auto until = wire::Clock::now() + kPatience;
    while (!condition()) {
      if (wire::Clock::now() > until) return ::testing::AssertionFailure();
      io_.run_one_for(10ms);
    }
    return ::testing::AssertionSuccess();
  }

  TempDir temp_;
  server::ClientShares shares_{io_};  // outlives what is in the loop
  boost::asio::io_context io_;
  server::Config config_;
  server::Log log_{temp_ / "log", "info"};
  server::Metrics metrics_;
  server::History history_{"test"};
  server::PosixFs fs_;
  std::shared_ptr<Bytes> scratch_ = std::make_shared<Bytes>(wire::kReadStep);
  server::WorkerPool pool_{io_, config_, scratch_, log_, metrics_};
  server::TunerProcess tuner_{io_, config_, scratch_, log_, metrics_, history_};
  server::Store store_{io_, config_, log_, fs_, kBuilder};
  server::Scheduler scheduler_{io_, config_, log_, metrics_, store_, pool_, history_, kBuilder};
  server::Reports reports_{io_, [] { return nlohmann::json::object(); }, history_};
  server::Services services_{io_,
                             config_,
                             log_,
                             metrics_,
                             store_,
                             scheduler_,
                             tuner_,
                             history_,
                             shares_,
                             kBuilder,
                             "{}",
                             reports_,
                             [](const std::string&) {},
                             [] { return false; },
                             [](uint64_t) {},
                             [](uint64_t, uint64_t) { return true; }};
  uint64_t next_ = 1;
};

TEST_F(LargeRequests, AHitDoesNotWaitForTheKeyOfALargeRequest) {
  const RequestKey known{1};
  store_.put(std::make_shared<const server::Blob>(server::Blob{known, fake_bytes("entry", 100), nullptr}));
  Peer greedy = add(), other = add();
  const Bytes body = compile_body(60u << 20);
  const Bytes last = give(greedy, {.type = wire::Type::kCompile, .request_id = 1, .json = "{}", .body = {body}}, 1);
  ASSERT_TRUE(comes([&] { return shares_.incoming.total() == body.size(); }));
  give_bytes(greedy, last);
  ASSERT_TRUE(comes([&] { return shares_.incoming.total() == 0; })) << "all of it is there";
  EXPECT_EQ(jobs(), 0u) << "its key is known at once";
  EXPECT_TRUE(greedy.connection->has_output()) << "a daemon that ends waits for its answer";
  give(other, {.type = wire::Type::kGet, .request_id = 2, .body = {std::as_bytes(std::span(known))}});
  ASSERT_TRUE(comes([&] { return other.can_read(); }));
  EXPECT_EQ(jobs(), 0u) << "the hit waited for it";
  EXPECT_EQ(take(other)->type(), wire::Type::kResult);
  ASSERT_TRUE(comes([&] { return jobs() == 1; }));
  const RequestKey key = request_key(kBuilder, std::span(body).subspan(4));
  EXPECT_EQ(scheduler_.list(1)[0]["key"], to_hex(key));
}

// What comes behind it on its connection is of later.
TEST_F(LargeRequests, ACancelFindsTheRequestBeforeIt) {
  Peer peer = add();
  const Bytes body = compile_body(3u << 20);
  give(peer, {.type = wire::Type::kCompile, .request_id = 1, .json = "{}", .body = {body}});
  give(peer, {.type = wire::Type::kCancel, .request_id = 1});
  ASSERT_TRUE(comes([&] { return peer.can_read(); }));
  EXPECT_EQ(wire::parse_error(take(peer)->json).code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace kiln::service_test
