// Statements 29 to 31: other users, long names, hostile peers.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "bar.h"
#include "descriptors.h"
#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/process.h"
#include "lingering.h"

namespace kiln::service_test {
namespace {

constexpr uid_t kNobody = 65534;

class BarSecurity : public Bar {
 protected:
  static std::string raw_header(wire::FrameHeader header) {
    auto bytes = wire::encode_header(header);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

// Another user has taken the name that this one's daemon would have in /tmp, and listens there.
TEST_F(BarSecurity, Statement29ASquattersSocketGetsNoByte) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string place = temp_ / "kiln-0";
  ::chmod(temp_.path().c_str(), 0755);
  ASSERT_EQ(::mkdir(place.c_str(), 0755), 0);
  ASSERT_EQ(::chown(place.c_str(), kNobody, kNobody), 0);
  int heard[2];
  ASSERT_EQ(::pipe(heard), 0);
  const pid_t squatter = ::fork();
  if (squatter == 0) {
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) ::_exit(9);
    wire::UniqueFd dir(::open(place.c_str(), O_RDONLY | O_DIRECTORY));
    auto socket = wire::listen_socket(place, dir.get(), 8);
    int8_t result = -1;
    if (socket) {
      ::chmod((place + "/" + wire::kSocketName).c_str(), 0666);
      (void)!::write(heard[1], &result, 1);  // listening
      wire::UniqueFd client(::accept(socket->get(), nullptr, nullptr));
      const std::string json = wire::to_text(wire::Welcome{});
      wire::Channel channel(std::move(client));
      (void)channel.write({.type = wire::Type::kWelcome, .json = json});
      result = channel.read(wire::Clock::now() + kPatience) ? 1 : 0;
    }
    (void)!::write(heard[1], &result, 1);
    ::_exit(0);
  }
  int8_t said = 0;
  ASSERT_EQ(::read(heard[0], &said, 1), 1);
  ConnectOptions lured = options();
  lured.runtime_dir = place;
  auto refused = Connection::open(lured);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied) << refused.error().message;
  ASSERT_EQ(::read(heard[0], &said, 1), 1);
  EXPECT_EQ(said, 0) << "the squatter heard something";
  ::waitpid(squatter, nullptr, 0);
  EXPECT_FALSE(wire::open_private_dir(place)) << "no daemon starts there either";
  ::close(heard[0]);
  ::close(heard[1]);
  // Ours, from the first instant.
  start();
  struct stat info{};
  ASSERT_EQ(::stat(runtime().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat((runtime() + "/" + wire::kSocketName).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  figure(
      29,
      "another user's directory and daemon refused without a byte; foreign clients: HostileTest.ForeignUserIsRefused");
}

TEST_F(BarSecurity, Statement30LongNamesWork) {
  const std::string deep = temp_ / (std::string(120, 'd') + "/" + std::string(120, 'e'));
  std::filesystem::create_directories(std::filesystem::path(deep).parent_path());
  ASSERT_EQ(daemon_.start(deep, daemon_arguments()), "ready");
  ConnectOptions there = options();
  there.runtime_dir = deep;
  auto daemon = Connection::open(there);
  ASSERT_TRUE(daemon) << daemon.error().message;
  EXPECT_EQ((*daemon)->server().pid, daemon_.pid());
  figure(30, "a runtime directory of %zu characters works", deep.size());
}

TEST_F(BarSecurity, Statement31SlowPeersDelayNobody) {
  start();
  ASSERT_TRUE(connect()->compile(order("bytes")));
  const auto alone = hit_times(2000);
  const auto before = stats()["rss_bytes"].get<int64_t>();
  const int peers = count(300, 1000);
  std::vector<std::unique_ptr<RawPeer>> slow;
  const std::string frame =
      raw_header({.type = wire::Type::kCompile, .json_size = 60'000, .body_size = 1 << 20, .request_id = 1});
  for (int i = 0; i < peers; ++i) {
    slow.push_back(std::make_unique<RawPeer>(runtime()));
    slow.back()->hello();
    slow.back()->send_bytes(frame);
  }
  std::jthread dripping([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (auto& peer : slow) peer->send_bytes("x");
      std::this_thread::sleep_for(200ms);
    }
  });
  const auto among = hit_times(2000);
  dripping.request_stop();
  dripping.join();
  const auto grown = stats()["rss_bytes"].get<int64_t>() - before;
  if (!kSanitized) {
    EXPECT_LT(grown, static_cast<int64_t>(peers) * (128 << 10));
  }
  judge_time("us for a hit among slow peers (p99)", percentile(among, 0.99), 2 * percentile(alone, 0.99));
  figure(31, "%d peers that drip bytes: hits p50 %.0f us, p99 %.0f us; without them %.0f and %.0f us; %d KiB a peer",
         peers, percentile(among, 0.5), percentile(among, 0.99), percentile(alone, 0.5), percentile(alone, 0.99),
         static_cast<int>(grown / 1024 / peers));
}

// In another process, until it is killed: it asks for as many keys as it can, on so many connections.
pid_t ask_without_end(const std::string& runtime, const RequestKey& key, int connections) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string keys, request;
  for (size_t i = 0; i < wire::kMaxGetMany; ++i) keys.append(reinterpret_cast<const char*>(key.data()), key.size());
  std::vector<wire::UniqueFd> sockets;
  std::vector<pollfd> ready;
  const std::string hello = "{\"version\":" + std::to_string(wire::kVersion) + "}";
  const auto greeting =
      wire::encode_header({.type = wire::Type::kHello, .json_size = static_cast<uint32_t>(hello.size())});
  for (int i = 0; i < connections; ++i) {
    sockets.push_back(wire::connect_socket(runtime).value());
    ready.push_back({sockets.back().get(), POLLIN | POLLOUT, 0});
    const std::string first = std::string(reinterpret_cast<const char*>(greeting.data()), greeting.size()) + hello;
    (void)!::send(sockets.back().get(), first.data(), first.size(), MSG_NOSIGNAL);
  }
  // Whole requests, of which a part may have been sent.
  std::vector<std::string> left(sockets.size());
  std::vector<uint64_t> ids(sockets.size(), 0);
  std::vector<char> taken(1 << 20);
  for (;;) {
    ::poll(ready.data(), ready.size(), -1);
    for (size_t i = 0; i < ready.size(); ++i) {
      if (ready[i].revents & POLLIN) (void)!::recv(ready[i].fd, taken.data(), taken.size(), MSG_DONTWAIT);
      if (!(ready[i].revents & POLLOUT)) continue;
      if (left[i].empty()) {
        const auto header =
            wire::encode_header({.type = wire::Type::kGetMany, .body_size = keys.size(), .request_id = ++ids[i]});
        left[i] = std::string(reinterpret_cast<const char*>(header.data()), header.size()) + keys;
      }
      const ssize_t sent = ::send(ready[i].fd, left[i].data(), left[i].size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) left[i].erase(0, static_cast<size_t>(sent));
    }
  }
}

TEST_F(BarSecurity, Statement31LookupsWithoutEndDelayNobody) {
  start();
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes")));
  const RequestKey key = daemon->key_of(order("bytes"));
  const auto alone = hit_times(1000);
  const auto before = stats();
  std::vector<pid_t> greedy;
  for (int i = 0; i < 2; ++i) greedy.push_back(ask_without_end(runtime(), key, 16));
  auto lookups = [&] { return stats()["hits_total"]["memory"].get<uint64_t>(); };
  const uint64_t first = lookups();
  EXPECT_TRUE(eventually([&] { return lookups() > first + 5000; })) << "they are not served";
  const auto among = hit_times(1000);
  const auto grown = stats()["rss_bytes"].get<int64_t>() - before["rss_bytes"].get<int64_t>();
  for (pid_t pid : greedy) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  if (!kSanitized) {
    EXPECT_LT(grown, 64 << 20);
  }
  judge_time("us for a hit beside lookups without end (p99)", percentile(among, 0.99), 5000);
  figure(31,
         "two processes that ask GET_MANY without end, 16 connections each: hits p50 %.0f us, p99 %.0f us; without "
         "them %.0f and %.0f us; memory %+d KiB",
         percentile(among, 0.5), percentile(among, 0.99), percentile(alone, 0.5), percentile(alone, 0.99),
         static_cast<int>(grown / 1024));
}

// HostileTest.ReaderThatNeverReadsIsBounded holds the limit of bytes, FrameSocket.* both in short.
TEST_F(BarSecurity, Statement31WhoReadsNothingIsLeft) {
  if (!times_are_judged())
    GTEST_SKIP() << "takes half a minute; FrameSocket.APeerThatReadsNothingForLongIsLeft is short";
  start();
  const auto request = order("bytes", 60'000);
  auto daemon = connect();
  ASSERT_TRUE(daemon->fetch(request));
  const RequestKey key = daemon->key_of(request);
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.hello();
  Stopwatch silence;
  // 6 MiB, which is far below the limit of bytes.
  for (uint64_t i = 1; i <= 100; ++i) {
    peer.send({.type = wire::Type::kGet, .request_id = i, .body = {std::as_bytes(std::span(key))}});
  }
  EXPECT_TRUE(eventually([&] { return stats()["rejected_total"].contains("slow_reader"); }));
  const double left_ms = silence.ms();
  EXPECT_GE(left_ms, 29'000);
  judge_time("ms until a peer that reads nothing is left", left_ms, 31'000);
  EXPECT_TRUE(eventually([&] { return stats()["connections"] == 2; }));  // daemon's and stats' own
  figure(31, "a peer that reads nothing of 6 MiB: left after %.1f s", left_ms / 1000);
}

TEST_F(BarSecurity, Statement31LiesCostNoMemory) {
  start();
  ASSERT_TRUE(connect()->compile(order("bytes")));
  const size_t descriptors = open_descriptors(daemon_.pid());
  const auto before = stats()["rss_bytes"].get<int64_t>();
  const int rounds = count(5, 200);
  auto with_json = [&](const std::string& json) {
    return raw_header({.type = wire::Type::kCompile,
                       .json_size = static_cast<uint32_t>(json.size()),
                       .body_size = 4,
                       .request_id = 9}) +
           json + std::string(4, '\0');
  };
  int refused = 0, closed = 0, sent = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const std::string& bytes :
         {raw_header({.type = wire::Type::kCompile, .body_size = uint64_t{1} << 63, .request_id = 1}),
          raw_header({.type = wire::Type::kCompile, .json_size = 1 << 20, .request_id = 1}) + std::string(1 << 20, '['),
          with_json("{\"a\":" + std::string(10'000, '[') + std::string(10'000, ']') + "}"),
          with_json(std::string(60'000, '[')), with_json("{\"deadline_ms\": 1e999}"),
          with_json("{\"trace_id\": \"\xff\xfe\"}"), with_json(std::string("{\"a\"\0:1}", 8)),
          with_json("{\"deadline_ms\": 1, \"deadline_ms\": 1}")}) {
      RawPeer peer(runtime());
      ASSERT_TRUE(peer.read());
      peer.hello();
      // Descriptors that nobody asked for, while the connection lives and as it ends. From Linux 6.16 on the kernel
      // lets none pass.
      constexpr int kMostInAMessage = 253;
      const std::string ping = raw_header({.type = wire::Type::kPing, .request_id = 5});
      auto flood_descriptors = [&] {
        int passed = 0;
        for (int i = 0; i < 5; ++i) passed += send_with_descriptors(peer.fd(), ping, i < 4 ? 1 : kMostInAMessage) > 0;
        return passed;
      };
      for (int passed = flood_descriptors(); passed > 0; --passed) EXPECT_TRUE(peer.read());
      peer.send_bytes(bytes);
      auto reply = peer.read();
      ++sent;
      refused += reply && wire::parse_error(reply->json).code == ErrorCode::kInvalidArgument;
      flood_descriptors();
      closed += peer.closed();
    }
  }
  EXPECT_EQ(refused, sent);
  EXPECT_EQ(closed, sent);
  Stopwatch silence;
  RawPeer silent(runtime()), half(runtime());
  half.send_bytes(raw_header({.type = wire::Type::kHello, .json_size = 200}) + "{\"version\":");
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(half.closed());
  const double silent_ms = silence.ms();
  EXPECT_GE(silent_ms, 1900);
  judge_time("ms until a peer without a whole hello is closed", silent_ms, 2100);
  EXPECT_TRUE(eventually([&] { return open_descriptors(daemon_.pid()) <= descriptors + 1; }));
  const auto grown = stats()["rss_bytes"].get<int64_t>() - before;
  if (!kSanitized) {
    EXPECT_LE(grown, 1 << 20);
  }
  figure(31,
         "%d hostile frames: %d refused, the connection closed; memory %+d KiB, descriptors +0; no hello, or half of "
         "one: closed after %.0f ms",
         sent, refused, static_cast<int>(grown / 1024), silent_ms);
}

// A frame of any type but SHUTDOWN, whose lengths are mostly right, whose JSON is mostly an object, and of which some
// bits may be others.
std::string garbage(std::mt19937_64& random) {
  static constexpr const char* kNames[] = {"deadline_ms", "trace_id", "priority", "format", "last", "wait", "scalars"};
  static constexpr const char* kValues[] = {"1", "-1", "1e99", "null", "[]", "{}", "true", "\"json\"", "\"\\u0000\""};
  const auto any_bytes = [&](size_t size) {
    std::string out(size, '\0');
    for (char& byte : out) byte = static_cast<char>(random());
    return out;
  };
  std::string json = any_bytes(random() % 40);
  if (random() % 4 != 0) {
    json = "{";
    for (uint64_t i = random() % 4; i > 0; --i) {
      json += std::string("\"") + kNames[random() % std::size(kNames)] + "\":" + kValues[random() % std::size(kValues)];
      if (i > 1) json += ",";
    }
    json += "}";
  }
  const std::string body = any_bytes(random() % 200);
  auto type = static_cast<wire::Type>(random() % 20);
  if (type == wire::Type::kShutdown) type = wire::Type::kCompile;
  const uint32_t json_size = static_cast<uint32_t>(json.size()) + (random() % 8 == 0);
  const auto header =
      wire::encode_header({.type = type, .json_size = json_size, .body_size = body.size(), .request_id = random() % 3});
  std::string out(reinterpret_cast<const char*>(header.data()), header.size());
  constexpr size_t kTypeAt = 6;
  if (random() % 8 == 0) {
    const size_t at = random() % (out.size() - 2);
    out[at < kTypeAt ? at : at + 2] ^= static_cast<char>(1 << random() % 8);
  }
  return out + json + body;
}

TEST_F(BarSecurity, Statement31GarbageHarmsNobody) {
  start();
  auto victim = connect();
  ASSERT_TRUE(victim->compile(order("bytes")));
  const size_t descriptors = open_descriptors(daemon_.pid());
  const auto before = stats()["rss_bytes"].get<int64_t>();
  const int frames = count(5000, 100'000);
  std::mt19937_64 random(31);
  int connections = 0, right = 0;
  for (int sent = 0; sent < frames; ++connections) {
    RawPeer peer(runtime());
    if (random() % 8 != 0) peer.hello();
    for (uint64_t i = random() % 4 + 1; i > 0; --i, ++sent) peer.send_bytes(garbage(random));
    if (connections % 20 != 0) continue;
    auto hit = victim->fetch(order("bytes"));
    ASSERT_TRUE(hit) << "after " << sent << " frames: " << hit.error().message;
    right += judge(hit, "x", 64) == Answer::kRight;
  }
  EXPECT_EQ(right, (connections + 19) / 20);
  EXPECT_TRUE(eventually([&] { return stats()["connections"] == 2; }));  // the victim's and stats' own
  EXPECT_TRUE(eventually([&] { return open_descriptors(daemon_.pid()) <= descriptors + 1; }));
  const auto grown = stats()["rss_bytes"].get<int64_t>() - before;
  if (!kSanitized) {
    EXPECT_LT(grown, 16 << 20);
  }
  figure(31, "%d frames of garbage on %d connections: %d hits meanwhile right, memory %+d KiB", frames, connections,
         right, static_cast<int>(grown / 1024));
}

// Asks for an entry so many times, and stops itself once the first has come. Exit code: whether all were the same.
[[noreturn]] void receive_and_stop(const std::string& runtime, const RequestKey& key, uint64_t times) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  RawPeer peer(runtime);
  (void)peer.read();
  peer.hello();
  for (uint64_t id = 1; id <= times; ++id) {
    peer.send({.type = wire::Type::kGet, .request_id = id, .body = {std::as_bytes(std::span(key))}});
  }
  const auto next = [&] {
    auto frame = peer.read();
    if (!frame || frame->type() != wire::Type::kResult) ::_exit(2);
    if (!frame->fd) return std::move(frame->body);
    struct stat about{};
    if (::fstat(frame->fd.get(), &about) != 0) ::_exit(3);
    std::vector<std::byte> body(static_cast<size_t>(about.st_size));
    if (::pread(frame->fd.get(), body.data(), body.size(), 0) != about.st_size) ::_exit(4);
    return body;
  };
  const auto first = next();
  ::raise(SIGSTOP);
  uint64_t alike = 1;
  for (uint64_t id = 2; id <= times; ++id) alike += next() == first;
  ::_exit(alike == times && first.size() > 1 << 20 ? 0 : 1);
}

TEST_F(BarSecurity, Statement31AClientThatStopsInAnAnswerHoldsUpNobody) {
  constexpr uint64_t kTimes = 40;  // a few travel as descriptors, the others as bytes
  start();
  auto victim = connect();
  const auto large = order("bytes", 4 << 20, "large");
  ASSERT_TRUE(victim->compile(large));
  ASSERT_TRUE(victim->compile(order("bytes")));
  const RequestKey key = victim->key_of(large);
  const auto alone = hit_times(300);
  const size_t descriptors = open_descriptors(daemon_.pid());
  const auto before = stats()["rss_bytes"].get<int64_t>();
  std::vector<pid_t> stopped;
  for (int i = 0; i < 2; ++i) {
    stopped.push_back(::fork());
    if (stopped.back() == 0) receive_and_stop(runtime(), key, kTimes);
    int status = 0;
    ASSERT_EQ(::waitpid(stopped.back(), &status, WUNTRACED), stopped.back());
    ASSERT_TRUE(WIFSTOPPED(status)) << status;
  }
  auto meanwhile = victim->compile(order("bytes", 64, "meanwhile"), {.deadline_ms = 20'000});
  ASSERT_TRUE(meanwhile) << meanwhile.error().message;
  const auto among = hit_times(300);
  const auto grown = stats()["rss_bytes"].get<int64_t>() - before;
  if (!kSanitized) {
    EXPECT_LT(grown, 16 << 20) << "what waits for them is the same bytes";
  }
  judge_time("us for a hit beside clients that have stopped (p99)", percentile(among, 0.99),
             2 * percentile(alone, 0.99));
  ::kill(stopped[0], SIGCONT);
  int status = -1;
  ASSERT_EQ(::waitpid(stopped[0], &status, 0), stopped[0]);
  EXPECT_EQ(status, 0) << "it goes on where it was";
  if (times_are_judged()) {
    EXPECT_TRUE(eventually([&] { return stats()["rejected_total"].contains("slow_reader"); })) << "after half a minute";
  } else {
    ::kill(stopped[1], SIGKILL);
  }
  EXPECT_TRUE(eventually([&] { return stats()["connections"] == 2; }));  // the victim's and stats' own
  EXPECT_TRUE(eventually([&] { return open_descriptors(daemon_.pid()) <= descriptors + 1; }));
  ::kill(stopped[1], SIGKILL);
  ::waitpid(stopped[1], nullptr, 0);
  figure(31, "a client stopped amid %d answers of 4 MiB: hits p99 %.0f us, %.0f without; memory %+d KiB",
         static_cast<int>(kTimes), percentile(among, 0.99), percentile(alone, 0.99), static_cast<int>(grown / 1024));
}

// Passes a socket whose last close takes long, and leaves that to the daemon: before its connection is taken in, and
// behind so many requests that it is still to be received.
TEST_F(BarSecurity, Statement42ADescriptorThatLingersHoldsUpNobody) {
  start();
  ASSERT_TRUE(connect()->compile(order("bytes")));
  auto victim = connect();
  const std::string ping = raw_header({.type = wire::Type::kPing, .request_id = 5});
  std::string pings;
  for (int i = 0; i < 500; ++i) pings += ping;
  std::vector<Lingering> left;
  double longest_ms = 0;
  for (const bool is_greeted : {false, true}) {
    RawPeer peer(runtime());
    if (is_greeted) {
      ASSERT_TRUE(peer.read());
      peer.hello();
      peer.send_bytes(pings);
    }
    Lingering& lingering = left.emplace_back(20);
    const ssize_t sent = send_with(peer.fd(), ping, {lingering.socket.get()});
    EXPECT_TRUE(sent > 0 || errno == EPERM) << errno;
    if (sent < 0) lingering.peer.reset();  // the last close is made here, and does not take long then
    lingering.socket.reset();
    for (int i = 0; i < 20; ++i) {
      Stopwatch took;
      EXPECT_TRUE(victim->fetch(order("bytes")));
      longest_ms = std::max(longest_ms, took.ms());
      std::this_thread::sleep_for(5ms);
    }
  }
  EXPECT_LT(longest_ms, 10'000);
  figure(42, "a socket that lingers 20 s, passed to the daemon: hits beside it took %.1f ms at most", longest_ms);
}

// Where the log goes to standard error, as with --foreground, and whoever is to read it does not.
TEST_F(BarSecurity, Statement42ALogThatNobodyReadsHoldsUpNobody) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  wire::UniqueFd ours(ends[0]), theirs(ends[1]);
  ::fcntl(ours.get(), F_SETPIPE_SZ, 4096);
  wire::Program program{
      .command = {KILN_TEST_KILND, "--foreground", "--log-level", "debug", "--runtime-dir", runtime()},
      .descriptors = {{.number = 2, .fd = theirs.get()}}};
  for (const std::string& word : daemon_arguments()) program.command.push_back(word);
  const auto pid = wire::spawn(program);
  ASSERT_TRUE(pid);
  ASSERT_TRUE(eventually([&] { return Connection::open(options()).ok(); }));
  int failed = 0;
  for (int i = 0; i < 60 && failed == i; ++i) {
    const auto refused = connect()->compile(order("fail", 64, std::to_string(i)), {.deadline_ms = 10'000});
    failed += !refused && refused.error().code == ErrorCode::kCompileFailed;
  }
  EXPECT_EQ(failed, 60);
  EXPECT_EQ(::fcntl(theirs.get(), F_GETFL) & O_NONBLOCK, 0) << "others have it too";
  ::kill(*pid, SIGTERM);
  theirs.reset();
  std::string log;
  char chunk[4096];
  for (ssize_t size; (size = ::read(ours.get(), chunk, sizeof chunk)) > 0;)
    log.append(chunk, static_cast<size_t>(size));
  EXPECT_EQ(wire::exit_text(wire::wait_for_exit(*pid, kPatience).value()), "exit code 0");
  EXPECT_NE(log.find("log_lines_dropped"), std::string::npos);
}

// Whoever uses up the user's watches of epoll keeps others out as long as it has them, and ends nobody.
TEST_F(BarSecurity, Statement42WithoutWatchesConnectionsAreRefused) {
  const std::string none = temp_ / "no_watches";
  ::setenv("LD_PRELOAD", KILN_TEST_FEW_WATCHES, 1);
  allow_preloading();
  ::setenv("KILN_TEST_NO_WATCHES", none.c_str(), 1);
  start({"--workers", "1"});
  ::unsetenv("LD_PRELOAD");
  ::unsetenv("KILN_TEST_NO_WATCHES");
  auto daemon = connect();
  ASSERT_TRUE(daemon->ping());
  const size_t before = open_descriptors(daemon_.pid());
  std::ofstream(none).close();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(RawPeer(runtime()).closed());
  auto miss = daemon->compile(order("bytes"));
  ASSERT_FALSE(miss);
  EXPECT_EQ(miss.error().code, ErrorCode::kResourceExhausted) << miss.error().message;
  EXPECT_EQ(open_descriptors(daemon_.pid()), before);
  std::filesystem::remove(none);
  EXPECT_TRUE(connect()->ping());
  EXPECT_TRUE(daemon->compile(order("bytes")));
  EXPECT_EQ(stats()["rejected_total"]["watches"], 3);
}

}  // namespace
}  // namespace kiln::service_test
