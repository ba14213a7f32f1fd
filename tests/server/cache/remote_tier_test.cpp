// The parts of the remote tier that need no daemon: breaker, options, values, the queue of writes.
#include "cache/remote_tier.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "fake_redis.h"
#include "scheduling/breaker.h"
#include "service_fixture.h"

namespace kiln::server {
namespace {

using service_test::FakeRedis;
using service_test::TempDir;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using Time = Breaker::Clock::time_point;
using State = Breaker::State;

const Time kBegin = Time{} + std::chrono::hours(1);

Breaker open_breaker() {
  Breaker out({.failures = 1, .window = 10s, .rest = 30s});
  EXPECT_TRUE(out.failed(kBegin));
  return out;
}

TEST(Breaker, OpensAfterFailuresWithinTheWindow) {
  Breaker breaker({.failures = 3, .window = 10s, .rest = 30s});
  EXPECT_FALSE(breaker.failed(kBegin));
  EXPECT_FALSE(breaker.failed(kBegin + 6s));
  EXPECT_FALSE(breaker.failed(kBegin + 12s)) << "the first was too long ago";
  EXPECT_TRUE(breaker.closed());
  EXPECT_TRUE(breaker.failed(kBegin + 13s));
  EXPECT_EQ(breaker.state(), State::kOpen);
}

TEST(Breaker, OneCanaryAfterEachRest) {
  Breaker breaker = open_breaker();
  EXPECT_FALSE(breaker.try_canary(kBegin + 29s));
  EXPECT_TRUE(breaker.try_canary(kBegin + 30s));
  EXPECT_EQ(breaker.state(), State::kHalfOpen);
  EXPECT_FALSE(breaker.try_canary(kBegin + 100s)) << "one is on its way";
  breaker.canary_returned(false, kBegin + 40s);
  EXPECT_EQ(breaker.state(), State::kOpen);
  EXPECT_FALSE(breaker.try_canary(kBegin + 69s));
  EXPECT_TRUE(breaker.try_canary(kBegin + 70s));
  breaker.canary_returned(true, kBegin + 71s);
  EXPECT_TRUE(breaker.closed());
}

TEST(Breaker, WhatEndsLateChangesNothing) {
  Breaker breaker = open_breaker();
  EXPECT_FALSE(breaker.failed(kBegin + 20s));
  breaker.canary_returned(true, kBegin + 20s);
  EXPECT_EQ(breaker.state(), State::kOpen);
  EXPECT_TRUE(breaker.try_canary(kBegin + 30s)) << "the rest begins with the opening";
}

TEST(RemoteAddress, Forms) {
  EXPECT_EQ(redis::parse_address("redis+unix:///run/redis.sock")->socket, "/run/redis.sock");
  auto full = redis::parse_address("redis://kiln@cache.example:7000/3");
  ASSERT_TRUE(full) << full.error().message;
  EXPECT_EQ(full->user, "kiln");
  EXPECT_EQ(full->host, "cache.example");
  EXPECT_EQ(full->port, 7000);
  EXPECT_EQ(full->database, 3u);
  EXPECT_EQ(redis::parse_address("redis://10.0.0.1")->port, 6379);
  auto v6 = redis::parse_address("redis://[::1]:7001");
  ASSERT_TRUE(v6) << v6.error().message;
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->port, 7001);
}

TEST(RemoteAddress, Refused) {
  for (const char* url : {"", "localhost", "http://x", "rediss://x", "redis://", "redis://x:0", "redis://x:70000",
                          "redis://x:1x", "redis://x/db", "redis://[::1", "redis://[::1]x", "redis+unix://relative"}) {
    EXPECT_FALSE(redis::parse_address(url)) << url;
  }
  EXPECT_FALSE(redis::parse_address("redis+unix:///" + std::string(200, 'x')));
  auto with_password = redis::parse_address("redis://user:word@host");
  ASSERT_FALSE(with_password);
  EXPECT_NE(with_password.error().message.find("--remote-password-file"), std::string::npos);
  EXPECT_EQ(with_password.error().message.find("word@"), std::string::npos) << "passwords stay out of messages";
}

void write_secret(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  ::chmod(path.c_str(), mode);
}

TEST(RemoteOptions, CodeFromElsewhereNeedsAKeyOrTrust) {
  TempDir temp;
  RemoteOptions off;
  EXPECT_TRUE(complete(off, "--remote"));
  RemoteOptions options;
  options.url = "redis://host";
  EXPECT_FALSE(complete(options, "--remote")) << "reading is what executes it";
  options.trust = true;
  EXPECT_TRUE(complete(options, "--remote"));
  options.trust = false;
  options.key_file = temp / "key";
  EXPECT_FALSE(complete(options, "--remote")) << "there is no such file";
  const std::string key(redis::kMinKey, 'k');
  write_secret(options.key_file, key + "\n", 0644);
  EXPECT_FALSE(complete(options, "--remote")) << "everybody may read it";
  ::chmod(options.key_file.c_str(), 0600);
  ASSERT_TRUE(complete(options, "--remote"));
  EXPECT_EQ(options.key, key);
  write_secret(options.key_file, key.substr(1), 0600);
  EXPECT_FALSE(complete(options, "--remote")) << "too short";
}

TEST(RemoteOptions, PasswordIsNotHandedOn) {
  TempDir temp;
  ::setenv(redis::kPasswordVariable, "word", 1);
  RemoteOptions options;
  options.url = "redis://host";
  options.trust = true;
  redis::take_password(options);
  ASSERT_TRUE(complete(options, "--remote"));
  EXPECT_EQ(options.password, "word");
  EXPECT_EQ(::getenv(redis::kPasswordVariable), nullptr);
  options.password_file = temp / "password";
  write_secret(options.password_file, "other\n", 0600);
  ASSERT_TRUE(complete(options, "--remote"));
  EXPECT_EQ(options.password, "other");
}

const std::string kBuilder = "builder";

RequestKey key_of(uint8_t number) {
  RequestKey out{};
  out[0] = number;
  return out;
}

Bytes entry_of(const RequestKey& key, const std::string& builder = kBuilder) {
  const Bytes code(300, std::byte{7});
  auto out = wire::encode_entry(
      {.key = key, .builder_id = builder, .target_kind = "cpu", .metadata = "{}", .code = code, .created_ms = 1});
  EXPECT_TRUE(out);
  return *out;
}

TEST(RemoteValue, RoundTrip) {
  const auto key = key_of(1);
  const Bytes entry = entry_of(key);
  for (const std::string& secret : {std::string(), std::string(32, 's')}) {
    RemoteCodec codec(kBuilder, secret);
    auto value = codec.encode(key, entry);
    ASSERT_TRUE(value);
    EXPECT_LT(value->size(), entry.size()) << "it is compressed";
    auto back = codec.decode(key, *value);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, entry);
  }
  EXPECT_EQ(RemoteCodec(kBuilder, "").name(key),
            "kiln:1:" + wire::builder_directory(kBuilder) + ":01" + std::string(62, '0'));
}

TEST(RemoteValue, EveryFlippedBitAndEveryLengthIsRefused) {
  const auto key = key_of(1);
  for (const std::string& secret : {std::string(), std::string(32, 's')}) {
    RemoteCodec codec(kBuilder, secret);
    const Bytes value = *codec.encode(key, entry_of(key));
    for (size_t bit = 0; bit < 8 * value.size(); ++bit) {
      Bytes flipped = value;
      flipped[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
      EXPECT_FALSE(codec.decode(key, flipped)) << bit;
    }
    for (size_t size = 0; size < value.size(); ++size) {
      EXPECT_FALSE(codec.decode(key, std::span(value).first(size))) << size;
    }
    Bytes longer = value;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(codec.decode(key, longer));
  }
}

TEST(RemoteValue, WhoseEntryItIs) {
  const auto key = key_of(1), other = key_of(2);
  RemoteCodec plain(kBuilder, ""), keyed(kBuilder, std::string(32, 's')), stranger(kBuilder, std::string(32, 't'));
  RemoteCodec elsewhere("another builder", std::string(32, 's'));
  const Bytes entry = entry_of(key), value = *keyed.encode(key, entry);
  EXPECT_FALSE(keyed.decode(other, value)) << "under another name";
  EXPECT_FALSE(keyed.decode(other, *keyed.encode(other, entry))) << "the entry itself names its key";
  EXPECT_FALSE(stranger.decode(key, value)) << "another key";
  EXPECT_FALSE(elsewhere.decode(key, value)) << "another builder";
  EXPECT_FALSE(keyed.decode(key, *plain.encode(key, entry))) << "not authenticated";
  EXPECT_FALSE(plain.decode(key, value)) << "cannot be checked";
  EXPECT_FALSE(keyed.decode(key, *keyed.encode(key, entry_of(key, "another builder"))));
}

RemoteOptions writing_to(const std::string& socket) {
  RemoteOptions out;
  out.url = "redis+unix://" + socket;
  out.mode = "readwrite";
  out.trust = true;
  out.timeout = 60s;
  return out;
}

// What the tier does on its io thread, until `done`.
void run_until(boost::asio::io_context& io, const std::function<bool()>& done) {
  EXPECT_TRUE(service_test::eventually([&] {
    io.restart();
    io.poll();
    return done();
  }));
}

TEST(RemoteTier, WritesWaitInABoundedQueue) {
  TempDir temp;
  boost::asio::io_context io;
  Log log(temp / "log", "info");
  RemoteOptions options = writing_to(temp / "redis");
  RemoteTier tier(io, log, options, kBuilder);
  auto put = [&](const RequestKey& key, size_t size) {
    tier.put(std::make_shared<const Blob>(Blob{key, Bytes(size), nullptr}));
  };
  FakeRedis redis(temp / "redis", FakeRedis::Manners::kHang);
  put(key_of(0), 1);  // on its way, and no longer in the queue
  for (int i = 0; i < 1030; ++i) put(key_of(1), 1);
  EXPECT_EQ(tier.stats()["remote_queue_entries"], 1024);
  EXPECT_EQ(tier.stats()["remote_dropped_total"], 6);
  put(key_of(2), 64u << 20);
  EXPECT_EQ(tier.stats()["remote_queue_entries"], 1) << "the oldest make room";
  EXPECT_EQ(tier.stats()["remote_dropped_total"], 6 + 1024);
  put(key_of(3), (64u << 20) + 1);
  EXPECT_EQ(tier.stats()["remote_queue_bytes"], 0);
  EXPECT_TRUE(tier.writing());
}

TEST(RemoteTier, WhatCouldNotBeWrittenIsWrittenLater) {
  TempDir temp;
  boost::asio::io_context io;
  Log log(temp / "log", "info");
  RemoteOptions options = writing_to(temp / "redis");
  options.breaker_failures = 1;
  options.breaker_rest = 1ms;
  RemoteTier tier(io, log, options, kBuilder);
  const auto key = key_of(1);
  tier.put(std::make_shared<const Blob>(Blob{key, entry_of(key), nullptr}));
  run_until(io, [&] { return tier.stats()["remote_errors_total"].contains("connect"); });
  EXPECT_EQ(tier.stats()["remote_queue_entries"], 1);
  FakeRedis redis(temp / "redis");
  run_until(io, [&] { return tier.stats()["remote_stored_total"] == 1; });
  bool found = false;
  tier.find(key, [&](const SharedBlob& blob) { found = blob && blob->bytes == entry_of(key); });
  run_until(io, [&] { return found; });
  EXPECT_EQ(tier.stats()["remote_dropped_total"], 0);
}

// A full server answers SET with an error; that is no reason not to ask it.
TEST(RemoteTier, ServerThatTakesNothingIsStillAsked) {
  TempDir temp;
  boost::asio::io_context io;
  Log log(temp / "log", "info");
  RemoteOptions options = writing_to(temp / "redis");
  options.breaker_failures = 1;
  RemoteTier tier(io, log, options, kBuilder);
  FakeRedis redis(temp / "redis", FakeRedis::Manners::kRefuse);
  tier.put(std::make_shared<const Blob>(Blob{key_of(1), entry_of(key_of(1)), nullptr}));
  run_until(io, [&] { return tier.stats()["remote_errors_total"].value("server", 0) == 1; });
  EXPECT_EQ(tier.stats()["remote_state"], 0);
  EXPECT_EQ(tier.stats()["remote_dropped_total"], 1);
  EXPECT_FALSE(tier.writing());
}

}  // namespace
}  // namespace kiln::server
