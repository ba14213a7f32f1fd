// A daemon that has little: memory, file sizes, and patience with those who ask for everything at once.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include "kiln/wire/json.h"
#include "kiln/wire/process.h"
#include "service_fixture.h"

namespace kiln::service_test {
namespace {

class MemoryTest : public ServiceTest {
 protected:
  // The daemon as the child of a shell that sets a limit first.
  void start_limited(const std::string& limit) {
    std::string line = limit + "; exec " KILN_TEST_KILND " --runtime-dir " + runtime();
    for (const std::string& word : daemon_arguments()) line += " " + word;
    auto pid = wire::spawn({.command = {"/bin/sh", "-c", line}});
    ASSERT_TRUE(pid);
    limited_ = *pid;
    ASSERT_TRUE(eventually([&] { return Connection::open(options()).ok(); }));
  }
  void expect_a_good_end() {
    EXPECT_TRUE(connect()->shutdown());
    const auto status = wire::wait_for_exit(limited_, kPatience);
    ASSERT_TRUE(status);
    EXPECT_EQ(wire::exit_text(*status), "exit code 0");
  }
  // A greeted peer that has sent all but the last byte of a compile whose body is so long.
  std::unique_ptr<RawPeer> half_sent(size_t size, const std::string& salt) {
    auto peer = std::make_unique<RawPeer>(runtime());
    EXPECT_TRUE(peer->read());
    peer->hello();
    const RequestBytes request = order("bytes", 64, salt);
    const uint32_t canonical = static_cast<uint32_t>(request.canonical.size());
    std::string bytes(reinterpret_cast<const char*>(&canonical), sizeof canonical);
    bytes.append(reinterpret_cast<const char*>(request.canonical.data()), canonical);
    bytes.resize(size);
    const auto header = wire::encode_header({.type = wire::Type::kCompile, .body_size = size, .request_id = 7});
    bytes.insert(0, reinterpret_cast<const char*>(header.data()), header.size());
    bytes.pop_back();
    send_all(peer->fd(), bytes);
    return peer;
  }
  static void send_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ASSERT_GT(count, 0);
      bytes.remove_prefix(static_cast<size_t>(count));
    }
  }
  // The last byte is sent; whether there was room for the whole.
  static bool taken(RawPeer& peer) {
    peer.send_bytes(std::string_view("\0", 1));
    auto reply = peer.read();
    EXPECT_TRUE(reply) << reply.error().message;
    if (!reply) return false;
    EXPECT_EQ(reply->id(), 7u);
    if (reply->type() == wire::Type::kResult) return true;
    const Error failure = wire::parse_error(reply->json);
    EXPECT_EQ(failure.code, ErrorCode::kResourceExhausted) << failure.message;
    EXPECT_TRUE(failure.retryable);
    return false;
  }

  pid_t limited_ = -1;
};

constexpr size_t kLarge = 62u << 20;

TEST_F(MemoryTest, UnfinishedRequestsOfAProcessShareItsRoom) {
  start();
  const uint64_t before = stats()["rss_bytes"].get<uint64_t>();
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 8; ++i) peers.push_back(half_sent(kLarge, std::to_string(i)));
  auto daemon = connect();
  EXPECT_TRUE(daemon->compile(order("bytes", 64, "small"))) << "small requests need none of it";
  if (!kSanitized) {
    // Of 496 MiB that were sent; and what the allocator keeps of the steps that it took to 256 MiB.
    EXPECT_LT(stats()["rss_bytes"].get<uint64_t>(), before + (400u << 20));
  }
  int taken_in = 0;
  for (auto& peer : peers) taken_in += taken(*peer);
  EXPECT_GE(taken_in, 3);
  EXPECT_LE(taken_in, 4) << "256 MiB";
  peers.clear();
  EXPECT_TRUE(taken(*half_sent(kLarge, "later"))) << "those who left gave it back";
}

// Four processes with three of them each have 744 MiB under way, and all together may have 512.
TEST_F(MemoryTest, UnfinishedRequestsOfAllProcessesHaveABound) {
  start();
  int said[2];
  ASSERT_EQ(::pipe(said), 0);
  const uint64_t before = stats()["rss_bytes"].get<uint64_t>();
  std::vector<pid_t> processes;
  for (int process = 0; process < 4; ++process) {
    processes.push_back(::fork());
    if (processes.back() == 0) {
      std::vector<std::unique_ptr<RawPeer>> peers;
      for (int i = 0; i < 3; ++i) peers.push_back(half_sent(kLarge, std::to_string(process) + std::to_string(i)));
      (void)!::write(said[1], "h", 1);
      ::pause();
    }
    char half = 0;
    ASSERT_EQ(::read(said[0], &half, 1), 1);
  }
  const auto held = [&] { return stats()["rss_bytes"].get<uint64_t>() - before; };
  uint64_t most = 0;
  for (int i = 0; i < 20; ++i) most = std::max(most, held());
  if (!kSanitized) {
    EXPECT_GT(most, uint64_t{256} << 20) << "more than one process may have";
    EXPECT_LT(most, uint64_t{560} << 20) << "twice that, and what the allocator keeps";
  }
  auto daemon = connect();
  EXPECT_TRUE(daemon->compile(order("bytes", 64, "small"))) << "small requests need none of it";
  EXPECT_FALSE(taken(*half_sent(kLarge, "fifth"))) << "there is none left for a fifth process";
  for (const pid_t process : processes) {
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
  }
  EXPECT_TRUE(eventually([&] { return taken(*half_sent(kLarge, "later")); })) << "those who left gave it back";
  ::close(said[0]);
  ::close(said[1]);
}

// Requests of many sizes at once, which are all gone afterwards: so is the memory that they had, also where something
// that stays was made in between.
TEST_F(MemoryTest, ABurstOfLargeRequestsIsGivenBack) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer keeps what is freed";
  start();
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes", 64, "warm")));
  const uint64_t before = stats()["rss_bytes"].get<uint64_t>();
  uint64_t at_most = 0;
  for (int round = 0; round < 4; ++round) {
    std::vector<std::unique_ptr<RawPeer>> peers;
    for (int i = 0; i < 10; ++i) {
      const std::string salt = std::to_string(round) + "-" + std::to_string(i);
      peers.push_back(half_sent((4u + 2u * static_cast<unsigned>(i)) << 20, salt));
      ASSERT_TRUE(daemon->compile(order("bytes", 10'000, "stays" + salt)));
    }
    at_most = std::max(at_most, stats()["rss_bytes"].get<uint64_t>());
    peers.erase(peers.begin(), peers.begin() + round);  // others are taken in
    for (auto& peer : peers) taken(*peer);
  }
  EXPECT_GT(at_most, before + (100u << 20)) << "there was something to give back";
  uint64_t after = 0;
  EXPECT_TRUE(eventually([&] { return (after = stats()["rss_bytes"].get<uint64_t>()) < before + (16u << 20); }, 20s))
      << (before >> 20) << " MiB before, " << (at_most >> 20) << " at most, " << (after >> 20) << " after";
}

// Five half bodies, and more memory than that is not to be had.
TEST_F(MemoryTest, MemoryThatIsNotThereIsAnAnswer) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs its address space";
  start_limited("ulimit -v 300000");
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 5; ++i) peers.push_back(half_sent(kLarge, std::to_string(i)));
  int taken_in = 0;
  for (auto& peer : peers) taken_in += taken(*peer);
  EXPECT_LT(taken_in, 5);
  peers.clear();
  EXPECT_TRUE(connect()->compile(order("bytes", 64, "after")));
  expect_a_good_end();
}

// Without room for what it would need then, a daemon does not begin.
TEST_F(MemoryTest, AddressSpaceThatIsTooSmallIsSaid) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs its address space";
  const std::string said = temp_ / "said";
  std::string line = "ulimit -v 80000; exec " KILN_TEST_KILND " --runtime-dir " + runtime();
  for (const std::string& word : daemon_arguments()) line += " " + word;
  auto pid = wire::spawn({.command = {"/bin/sh", "-c", line + " 2> " + said}});
  ASSERT_TRUE(pid);
  const auto status = wire::wait_for_exit(*pid, kPatience);
  ASSERT_TRUE(status);
  EXPECT_EQ(wire::exit_text(*status), "exit code 1");
  std::ifstream file(said);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("of memory can be had"), std::string::npos) << text;
}

// What cannot be written stays in memory.
TEST_F(MemoryTest, ALimitOfFileSizesEndsNothing) {
  start_limited("ulimit -f 8");
  auto daemon = connect();
  for (int i = 0; i < 20; ++i) {
    auto artifact = daemon->compile(order("bytes", 300'000, std::to_string(i)));
    ASSERT_TRUE(artifact) << artifact.error().message;
  }
  auto hit = daemon->fetch(order("bytes", 300'000, "0"));
  ASSERT_TRUE(hit) << hit.error().message;
  EXPECT_EQ(hit->metadata.served_from, "memory");
  EXPECT_TRUE(eventually([&] { return stats()["store_degraded"] == 1; }));
  expect_a_good_end();
}

// `ulimit -t 1` is a hard limit too, at which the kernel kills: whoever is served then has the next daemon's answer.
TEST_F(MemoryTest, AHardLimitOfProcessorTimeCostsNobodyARequest) {
  start_limited("ulimit -t 1");
  const auto request = order("bytes");
  ASSERT_TRUE(connect()->compile(request));
  ConnectOptions how = options();
  how.autostart = true;
  how.daemon_args = {"--cache-dir", cache(), "--workers", "1", "--idle-timeout", "60"};
  std::atomic<bool> has_ended{false};
  std::vector<std::jthread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      auto daemon = Connection::open(how);
      ASSERT_TRUE(daemon) << daemon.error().message;
      for (bool was_there = true; was_there;) {
        was_there = !has_ended;  // and once more
        auto artifact = (*daemon)->fetch(request);
        ASSERT_TRUE(artifact) << artifact.error().message;
      }
    });
  }
  const auto status = wire::wait_for_exit(limited_, kPatience);
  has_ended = true;
  clients.clear();
  ASSERT_TRUE(status);
  EXPECT_EQ(wire::exit_text(*status), "signal 9");
  auto next = connect();
  EXPECT_NE(next->server().pid, limited_);
  EXPECT_TRUE(next->shutdown());
}

TEST_F(MemoryTest, SignalsThatMeanNothingEndNothing) {
  start();
  for (int number : {SIGXFSZ, SIGXCPU, SIGUSR2, SIGALRM, SIGVTALRM, SIGQUIT, SIGPROF, SIGPOLL, SIGPIPE, SIGPWR,
                     SIGSTKFLT, SIGTRAP, SIGSYS, SIGRTMIN, SIGRTMAX}) {
    daemon_.signal(number);
    daemon_.signal(number);
    ASSERT_TRUE(connect()->ping()) << strsignal(number);
  }
  EXPECT_TRUE(connect()->compile(order("bytes")));
}

// Figures and traces are made aside, one after the other: a hit that is asked for behind them is there first, and who
// asks for more than eight at once is refused. Where the daemon is slow to hear them, the first are ready before the
// last is there: hence attempts.
TEST_F(MemoryTest, HitsDoNotWaitForReports) {
  start();
  auto daemon = connect();
  const auto request = order("bytes");
  ASSERT_TRUE(daemon->compile(request));
  const RequestKey key = daemon->key_of(request);
  constexpr uint64_t kReports = 8, kHit = 100;
  const auto asked_at_once = [&](const std::string& format) {
    std::string all;
    auto add = [&](wire::Type type, uint64_t id, const std::string& json, const std::string& body) {
      const auto header = wire::encode_header(
          {.type = type, .json_size = static_cast<uint32_t>(json.size()), .body_size = body.size(), .request_id = id});
      all.append(reinterpret_cast<const char*>(header.data()), header.size());
      all += json + body;
    };
    for (uint64_t id = 1; id <= kReports + 1; ++id) {
      add(wire::Type::kStats, id, R"({"format":")" + format + R"(","last":)" + std::to_string(id) + "}", "");
    }
    add(wire::Type::kGet, kHit, "", {reinterpret_cast<const char*>(key.data()), key.size()});
    return all;
  };
  for (const std::string format : {"json", "trace"}) {
    bool is_refused = false, is_hit_early = false;
    for (int attempt = 0; attempt < 20 && !(is_refused && is_hit_early); ++attempt) {
      RawPeer peer(runtime());
      ASSERT_TRUE(peer.read());
      peer.hello();
      send_all(peer.fd(), asked_at_once(format));
      uint64_t reports = 0, hits = 0;
      for (uint64_t i = 0; i < kReports + 2; ++i) {
        auto reply = peer.read();
        ASSERT_TRUE(reply);
        if (reply->type() == wire::Type::kResult) {
          EXPECT_FALSE(reply->id() != kHit && reply->body.empty());
          hits += reply->id() == kHit;
          reports += reply->id() != kHit;
          if (reply->id() == kHit) is_hit_early |= reports < kReports / 2;
          continue;
        }
        EXPECT_EQ(reply->id(), kReports + 1) << "fewer than a connection may ask for at once";
        EXPECT_EQ(wire::parse_error(reply->json).code, ErrorCode::kResourceExhausted);
        is_refused = true;
      }
      EXPECT_EQ(hits, 1u);
    }
    EXPECT_TRUE(is_refused) << format << ": more than a connection may ask for at once";
    EXPECT_TRUE(is_hit_early) << format << ": those that were ready when it came are before it, at most";
  }
}

// Eight of a process, on however many connections. Where the daemon is slow to hear them, the first are ready before
// the last is there: hence attempts.
TEST_F(MemoryTest, ReportsOfAProcessAreFew) {
  start();
  bool is_refused = false;
  for (int attempt = 0; attempt < 20 && !is_refused; ++attempt) {
    std::vector<std::unique_ptr<RawPeer>> peers;
    for (int i = 0; i < 3; ++i) {
      peers.push_back(std::make_unique<RawPeer>(runtime()));
      ASSERT_TRUE(peers.back()->read());
      peers.back()->hello();
    }
    for (uint64_t id = 1; id <= 4; ++id) {
      const std::string json = R"({"format":"trace","last":)";
      for (size_t i = 0; i < peers.size(); ++i) {
        const std::string different = std::to_string(id * peers.size() + i);
        peers[i]->send({.type = wire::Type::kStats, .request_id = id, .json = json + different + "}"});
      }
    }
    for (size_t answer = 0; answer < 12; ++answer) {
      auto reply = peers[answer % peers.size()]->read();
      ASSERT_TRUE(reply);
      if (reply->type() == wire::Type::kResult) continue;
      EXPECT_EQ(wire::parse_error(reply->json).code, ErrorCode::kResourceExhausted);
      is_refused = true;
    }
  }
  EXPECT_TRUE(is_refused) << "twelve at once, on three connections";
}

}  // namespace
}  // namespace kiln::service_test
