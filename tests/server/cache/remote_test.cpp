// The remote tier through daemons: a Redis of ours that misbehaves. A real one is in redis_test.cpp.
#include "fake_bytes.h"
#include "fake_redis.h"
#include "remote_fixture.h"

namespace kiln::service_test {
namespace {

using Manners = FakeRedis::Manners;

class RemoteTest : public RemoteServiceTest {
 protected:
  // The daemon under test, of a machine that shares nothing but the Redis, to which it connects at once or not at all.
  void start_reader(const std::vector<std::string>& more, const std::string& url = {}) {
    auto arguments = daemon_arguments();
    arguments.insert(arguments.end(), {"--remote", url.empty() ? redis_.url() : url, "--remote-connect-timeout", "60"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    ASSERT_EQ(daemon_.start(runtime(), arguments), "ready");
  }
  // One entry, put there by another daemon.
  void fill(const RequestBytes& request, const std::vector<std::string>& trust = {"--remote-trust"}) {
    Host writer(temp_ / "writer", redis_.url(), "readwrite", trust);
    ASSERT_TRUE(writer.connection()->compile(request));
    ASSERT_TRUE(eventually([&] { return writer.stats()["remote_stored_total"] == 1; }));
  }
  std::string served_from(const RequestBytes& request, const std::string& salt) {
    auto artifact = connect()->compile(request);
    EXPECT_TRUE(artifact) << artifact.error().message;
    if (!artifact) return "error";
    EXPECT_EQ(artifact->code, fake_bytes(salt, 64));
    return artifact->metadata.served_from;
  }

  FakeRedis redis_{temp_ / "redis"};
};

TEST_F(RemoteTest, AHitGoesIntoMemoryAndToDisk) {
  fill(order("bytes", 64, "shared"));
  start_reader({"--remote-trust", "--remote-timeout", "60"});
  EXPECT_EQ(served_from(order("bytes", 64, "shared"), "shared"), "remote");
  EXPECT_EQ(served_from(order("bytes", 64, "shared"), "shared"), "memory");
  const auto figures = stats();
  EXPECT_EQ(figures["hits_total"]["remote"], 1);
  EXPECT_EQ(figures["remote_hits_total"], 1);
  EXPECT_EQ(figures["compiles_total"], 0);
  EXPECT_EQ(figures["misses_total"], 0);
  EXPECT_EQ(figures["remote_state"], 0);
  ASSERT_TRUE(eventually([&] { return entry_files(cache()).size() == 1; }));
  daemon_.signal(SIGTERM);
  ASSERT_EQ(daemon_.wait(), 0);
  redis_.set(Manners::kHang);
  start_reader({"--remote-trust"});
  EXPECT_EQ(served_from(order("bytes", 64, "shared"), "shared"), "disk");
}

TEST_F(RemoteTest, AReaderWritesNothing) {
  start_reader({"--remote-trust", "--remote-timeout", "60"});
  EXPECT_EQ(served_from(order("bytes", 64, "own"), "own"), "compile");
  EXPECT_EQ(stats()["remote_misses_total"], 1);
  daemon_.signal(SIGTERM);
  ASSERT_EQ(daemon_.wait(), 0);
  redis_.edit([](auto& values) { EXPECT_TRUE(values.empty()); });
}

// GET answers from this machine; the COMPILE that follows a miss asks the others, once.
TEST_F(RemoteTest, AMissAsksOnce) {
  start_reader({"--remote-trust", "--remote-timeout", "60"});
  ASSERT_TRUE(connect()->fetch(order("bytes")));
  EXPECT_EQ(redis_.commands(), 1);
}

TEST_F(RemoteTest, EndingDaemonWritesWhatItHas) {
  {
    Host writer(temp_ / "writer", redis_.url(), "readwrite", {"--remote-trust"}, {"--drain-timeout", "60"});
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(writer.connection()->compile(order("bytes", 64, std::to_string(i))));
    writer.daemon().signal(SIGTERM);
    EXPECT_EQ(writer.daemon().wait(), 0);
  }
  redis_.edit([](auto& values) { EXPECT_EQ(values.size(), 20u); });
}

TEST_F(RemoteTest, OnlyEntriesOfTheKeyAreTaken) {
  const auto request = order("bytes", 64, "signed");
  const std::string key = secret("key", std::string(32, 'k')), other = secret("other", std::string(32, 'o'));
  fill(request, {"--remote-key", key});
  start_reader({"--remote-key", other, "--remote-timeout", "60"});
  EXPECT_EQ(served_from(request, "signed"), "compile");
  EXPECT_EQ(stats()["remote_errors_total"]["rejected"], 1);
  Host friendly(temp_ / "friend", redis_.url(), "read", {"--remote-key", key});
  EXPECT_EQ(friendly.connection()->compile(request)->metadata.served_from, "remote");
}

TEST_F(RemoteTest, RefusesToStartWithoutKeyOrTrust) {
  auto arguments = daemon_arguments();
  arguments.insert(arguments.end(), {"--remote", redis_.url()});
  const std::string line = daemon_.start(runtime(), arguments);
  EXPECT_NE(line.find("--remote-trust"), std::string::npos) << line;
  EXPECT_EQ(daemon_.wait(), 1);
}

// What a server may say instead of the entry it was given, and its name to the test.
struct Lie {
  const char* name;
  void (*tell)(std::map<std::string, std::string>& values);
};

class LyingRemoteTest : public RemoteTest, public ::testing::WithParamInterface<Lie> {};

TEST_P(LyingRemoteTest, IsNotBelieved) {
  const auto request = order("bytes", 64, "asked");
  fill(order("bytes", 64, "other"));
  fill(request);
  redis_.edit(GetParam().tell);
  start_reader({"--remote-trust", "--remote-timeout", "60"});
  EXPECT_EQ(served_from(request, "asked"), "compile");
  const auto figures = stats();
  EXPECT_EQ(figures["remote_errors_total"]["rejected"], 1);
  EXPECT_EQ(figures["remote_state"], 0) << "it answers, and others' entries may be sound";
  EXPECT_EQ(served_from(request, "asked"), "memory");
}

INSTANTIATE_TEST_SUITE_P(Lies, LyingRemoteTest,
                         ::testing::Values(Lie{"FlippedBit",
                                               [](auto& values) {
                                                 for (auto& [name, value] : values) value[60] ^= 4;
                                               }},
                                           Lie{"Truncated",
                                               [](auto& values) {
                                                 for (auto& [name, value] : values) value.pop_back();
                                               }},
                                           Lie{"Empty",
                                               [](auto& values) {
                                                 for (auto& [name, value] : values) value.clear();
                                               }},
                                           Lie{"Text",
                                               [](auto& values) {
                                                 for (auto& [name, value] : values) value = "hello";
                                               }},
                                           Lie{"AnothersEntry",
                                               [](auto& values) {
                                                 std::swap(values.begin()->second, values.rbegin()->second);
                                               }}),
                         [](const auto& info) { return info.param.name; });

// How a server may fail, and under which kind that is counted; an empty one is no failure.
struct Fault {
  const char* name;
  Manners manners;
  const char* kind;
};

class FailingRemoteTest : public RemoteTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(FailingRemoteTest, CostsNoRequest) {
  const std::string kind = GetParam().kind;
  fill(order("bytes", 64, "there"));
  redis_.set(GetParam().manners);
  // A time limit is let pass only where there must be one.
  start_reader({"--remote-trust", "--remote-timeout", kind == "timeout" ? "0.2" : "60"});
  EXPECT_EQ(served_from(order("bytes", 64, "there"), "there"), "compile");
  const auto figures = stats();
  EXPECT_EQ(figures["remote_errors_total"].value(kind, 0), kind.empty() ? 0 : 1) << figures["remote_errors_total"];
  EXPECT_EQ(figures["remote_misses_total"], kind.empty() ? 1 : 0);
  redis_.set(Manners::kServe);
  EXPECT_EQ(served_from(order("bytes", 64, "not there"), "not"), "compile");
}

INSTANTIATE_TEST_SUITE_P(Faults, FailingRemoteTest,
                         ::testing::Values(Fault{"Hangs", Manners::kHang, "timeout"},
                                           Fault{"HalfAnAnswer", Manners::kHalf, "closed"},
                                           Fault{"HalfAnAnswerAndHangs", Manners::kHalfHang, "timeout"},
                                           Fault{"Resets", Manners::kReset, "closed"},
                                           Fault{"Refuses", Manners::kRefuse, "server"},
                                           Fault{"HugeArray", Manners::kArray, "protocol"},
                                           Fault{"AnotherProtocol", Manners::kGarbage, "protocol"},
                                           Fault{"KnowsNothing", Manners::kNil, ""}),
                         [](const auto& info) { return info.param.name; });

TEST_F(RemoteTest, NobodyListens) {
  start_reader({"--remote-trust"}, "redis+unix://" + (temp_ / "nobody"));
  EXPECT_EQ(served_from(order("bytes", 64, "a"), "a"), "compile");
  EXPECT_EQ(stats()["remote_errors_total"]["connect"], 1);
}

// An answer that came with another's must not be taken for the next one's.
TEST_F(RemoteTest, AnswersDoNotSlip) {
  fill(order("bytes", 64, "a"));
  redis_.set(Manners::kTwice);
  start_reader({"--remote-trust", "--remote-timeout", "60", "--remote-window", "1000"});
  connect()->compile(order("bytes", 64, "a")).ok();
  redis_.set(Manners::kServe);
  for (const std::string salt : {"b", "c", "d"}) EXPECT_EQ(served_from(order("bytes", 64, salt), salt), "compile");
  EXPECT_FALSE(stats()["remote_errors_total"].contains("rejected"));
}

TEST_F(RemoteTest, DeadlineHoldsWhileTheRemoteIsAsked) {
  redis_.set(Manners::kHang);
  start_reader({"--remote-trust", "--remote-timeout", "100"});
  auto late = connect()->compile(order("bytes"), {.deadline_ms = 200});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_NE(late.error().message.find("the cache"), std::string::npos) << late.error().message;
  EXPECT_EQ(stats()["jobs"], 0);
}

// Not a connection is tried, so that there is nothing to wait for.
TEST_F(RemoteTest, OpenBreakerAsksNoMore) {
  redis_.set(Manners::kReset);
  start_reader({"--remote-trust", "--remote-timeout", "60", "--remote-failures", "3", "--remote-window", "1000",
                "--remote-rest", "100000"});
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(connect()->compile(order("bytes", 64, std::to_string(i))));
  EXPECT_EQ(redis_.connections(), 3);
  const auto figures = stats();
  EXPECT_EQ(figures["remote_state"], 2);
  EXPECT_EQ(figures["remote_skipped_total"], 47);
  EXPECT_EQ(figures["remote_errors_total"]["closed"], 3);
  EXPECT_NE(connect()->stats("prometheus")->find("kiln_remote_errors_total{kind=\"closed\"} 3"), std::string::npos);
}

TEST_F(RemoteTest, HangingServerOpensTheBreaker) {
  redis_.set(Manners::kHang);
  start_reader({"--remote-trust", "--remote-timeout", "0.1", "--remote-failures", "3", "--remote-window", "1000",
                "--remote-rest", "100000"});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(connect()->compile(order("bytes", 64, std::to_string(i))));
  EXPECT_EQ(stats()["remote_state"], 2);
  EXPECT_EQ(stats()["remote_errors_total"]["timeout"], 3);
  EXPECT_EQ(stats()["remote_skipped_total"], 17);
}

TEST_F(RemoteTest, ACanaryClosesTheBreaker) {
  fill(order("bytes", 64, "shared"));
  redis_.set(Manners::kReset);
  start_reader({"--remote-trust", "--remote-timeout", "60", "--remote-failures", "2", "--remote-window", "1000",
                "--remote-rest", "0.1"});
  for (const std::string salt : {"a", "b"}) ASSERT_TRUE(connect()->compile(order("bytes", 64, salt)));
  // Canaries that do not return well leave it open.
  EXPECT_TRUE(eventually([&] { return stats()["remote_errors_total"]["closed"] >= 4; }));
  EXPECT_NE(stats()["remote_state"], 0);
  redis_.set(Manners::kServe);
  EXPECT_TRUE(eventually([&] { return stats()["remote_state"] == 0; }));
  EXPECT_EQ(served_from(order("bytes", 64, "shared"), "shared"), "remote");
}

}  // namespace
}  // namespace kiln::service_test
