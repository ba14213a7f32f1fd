// One connection with a daemon that stops answering, or reading, or does so slowly: every call ends in its time.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "connection_session.h"

namespace kiln::client {
namespace {

using namespace std::chrono_literals;
using wire::Clock;
using wire::Frame;
using wire::Type;

constexpr Patience kShort{.write = 50ms, .silence = 20ms, .ping = 50ms, .cancel = 50ms};
// Ample for a machine that has other things to do: what has to come, comes before this.
constexpr Patience kLong{.write = 60'000ms, .silence = 20ms, .ping = 60'000ms, .cancel = 60'000ms};

struct Pair {
  explicit Pair(const Patience& patience) {
    auto made = wire::make_channel_pair();
    session = std::make_unique<Session>(wire::Channel(std::move(made->ours)), wire::Welcome{}, -1, patience);
    daemon = std::make_unique<wire::Channel>(std::move(made->theirs));
  }
  std::unique_ptr<Session> session;
  std::unique_ptr<wire::Channel> daemon;
};

void answer(wire::Channel& daemon, const Frame& frame, Type type = Type::kResult) {
  (void)daemon.write({.type = type, .request_id = frame.id(), .json = "{}", .flags = wire::flag::kLast});
}

TEST(Session, ACallWithoutADeadlineEndsWhereTheDaemonAnswersNobody) {
  Pair pair(kShort);
  auto replies = pair.session->call({.type = Type::kCompile}, {}, wire::kNoDeadline);
  ASSERT_FALSE(replies);
  EXPECT_EQ(replies.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_NE(replies.error().message.find("it is stopped, or hangs"), std::string::npos) << replies.error().message;
  EXPECT_FALSE(pair.session->broken()) << "it may be continued";
}

TEST(Session, ACallGoesOnAsLongAsTheDaemonAnswers) {
  Pair pair(kLong);
  std::jthread daemon([&] {
    auto request = pair.daemon->read();
    int pings = 0;
    for (auto ping = pair.daemon->read(); ping; ping = pair.daemon->read()) {
      ASSERT_EQ(ping->type(), Type::kPing);
      answer(*pair.daemon, *ping);
      if (++pings == 3) answer(*pair.daemon, *request);
    }
  });
  auto replies = pair.session->call({.type = Type::kCompile}, {}, wire::kNoDeadline);
  EXPECT_TRUE(replies) << replies.error().message;
  pair.session.reset();
}

TEST(Session, DeadlinesHoldForEachOfManyCallers) {
  Pair pair(kLong);
  std::vector<std::jthread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&, i] {
      auto replies = pair.session->call({.type = Type::kPing}, {}, Clock::now() + i * 5ms);
      EXPECT_EQ(replies.error().code, ErrorCode::kDeadlineExceeded);
    });
  }
  callers.clear();
  std::jthread daemon([&] {  // which goes on: the late answers are nobody's, and that of a new call is its own
    for (auto frame = pair.daemon->read(); frame; frame = pair.daemon->read()) {
      if (frame->type() != Type::kCancel) answer(*pair.daemon, *frame);
    }
  });
  EXPECT_TRUE(pair.session->call({.type = Type::kPing}, {}, Clock::now() + 60s));
  pair.session.reset();
}

// A daemon that reads nothing: the socket takes some requests, and then no more.
TEST(Session, WritingEndsInItsTimeToo) {
  Pair pair(kShort);
  const std::vector<std::byte> body(16 << 10);
  for (int i = 0; i < 64; ++i) {
    auto replies = pair.session->call({.type = Type::kCompile, .body = {body}}, {}, Clock::now() + 1ms);
    ASSERT_FALSE(replies);
    if (pair.session->broken()) break;
    EXPECT_EQ(replies.error().code, ErrorCode::kDeadlineExceeded);
  }
  auto more = pair.session->call({.type = Type::kCompile, .body = {body}}, {}, wire::kNoDeadline);
  ASSERT_FALSE(more);
}

// What a request was torn by, no other can follow; they are told that the connection is gone, and take another.
TEST(Session, ATornFrameEndsTheSessionForAll) {
  Pair pair({.write = 50ms, .silence = 1h});  // so that nothing but the end itself wakes who waits
  std::jthread other([&] {
    auto replies = pair.session->call({.type = Type::kPing}, {}, wire::kNoDeadline);
    ASSERT_FALSE(replies);
    EXPECT_EQ(replies.error().code, ErrorCode::kUnavailable);
  });
  ASSERT_EQ(pair.daemon->read()->type(), Type::kPing);
  const std::vector<std::byte> large(8 << 20);
  auto torn = pair.session->call({.type = Type::kCompile, .body = {large}}, {}, Clock::now() + 60s);
  ASSERT_FALSE(torn);
  EXPECT_EQ(torn.error().code, ErrorCode::kUnavailable) << torn.error().message;
  EXPECT_TRUE(pair.session->broken());
}

// A daemon that answers without end would fill the memory of who asks: the last that there can be has to say so.
TEST(Session, MoreAnswersThanThereCanBeEndIt) {
  for (const size_t keys : {size_t{0}, size_t{3}}) {
    Pair pair(kLong);
    std::jthread daemon([&] {
      auto request = pair.daemon->read();
      const std::vector<std::byte> body(1 << 20);
      for (size_t i = 0; i < std::max<size_t>(1, keys); ++i) {
        (void)pair.daemon->write({.type = Type::kResult, .request_id = request->id(), .json = "{}", .body = {body}});
      }
    });
    const std::vector<std::byte> wanted(32 * keys);
    const Type type = keys == 0 ? Type::kGet : Type::kGetMany;
    auto replies = pair.session->call({.type = type, .body = {wanted}}, {}, Clock::now() + 60s);
    ASSERT_FALSE(replies);
    EXPECT_EQ(replies.error().message, "the daemon has more answers to a request than there can be");
    EXPECT_TRUE(pair.session->broken());
    pair.session.reset();
  }
}

// So many as were asked for are as they should be.
TEST(Session, AnAnswerAKeyIsNotTooMany) {
  Pair pair(kLong);
  std::jthread daemon([&] {
    auto request = pair.daemon->read();
    for (int i = 0; i < 2; ++i)
      (void)pair.daemon->write({.type = Type::kResult, .request_id = request->id(), .json = "{}"});
    answer(*pair.daemon, *request);
  });
  const std::vector<std::byte> wanted(3 * 32);
  auto replies = pair.session->call({.type = Type::kGetMany, .body = {wanted}}, {}, Clock::now() + 60s);
  ASSERT_TRUE(replies) << replies.error().message;
  EXPECT_EQ(replies->size(), 3u);
}

// The daemon would end the connection, with all that others wait for.
TEST(Session, ARequestThatIsTooLongIsNotSent) {
  Pair pair(kLong);
  auto refused = pair.session->call({.type = Type::kTune, .json = std::string(wire::kMaxJsonSize + 1, ' ')}, {},
                                    Clock::now() + 60s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  const std::vector<std::byte> half(wire::kMaxBodySize / 2), more(1);
  refused = pair.session->call({.type = Type::kTune, .body = {half, half, more}}, {}, Clock::now() + 60s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(pair.session->broken());
}

TEST(Session, ACancelThatNobodyAnswersEndsTheCall) {
  Pair pair(kShort);
  std::stop_source stop;
  std::jthread canceller([&] {
    (void)pair.daemon->read();
    stop.request_stop();
  });
  auto replies = pair.session->call({.type = Type::kCompile}, stop.get_token(), wire::kNoDeadline);
  ASSERT_FALSE(replies);
  EXPECT_EQ(replies.error().code, ErrorCode::kCancelled);
}

TEST(Session, TheAnswerToACancelIsTheResult) {
  Pair pair(kLong);
  std::stop_source stop;
  std::jthread daemon([&] {
    auto request = pair.daemon->read();
    stop.request_stop();
    auto next = pair.daemon->read();
    while (next->type() == Type::kPing) next = pair.daemon->read();
    EXPECT_EQ(next->type(), Type::kCancel);
    answer(*pair.daemon, *request);
  });
  auto replies = pair.session->call({.type = Type::kCompile}, stop.get_token(), Clock::now() + 60s);
  EXPECT_TRUE(replies) << replies.error().message;
}

TEST(Session, WaitingForTheEndEnds) {
  Pair pair(kShort);
  EXPECT_EQ(pair.session->wait_closed(Clock::now() + 20ms).error().code, ErrorCode::kDeadlineExceeded);
  pair.daemon.reset();
  EXPECT_TRUE(pair.session->wait_closed(Clock::now() + 60s));
}

}  // namespace
}  // namespace kiln::client
