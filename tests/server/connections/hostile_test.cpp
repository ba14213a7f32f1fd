// Peers that lie, stall, flood or are somebody else.
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "descriptors.h"
#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/process.h"
#include "service_fixture.h"

namespace kiln::service_test {
namespace {

constexpr uid_t kNobody = 65534;

class HostileTest : public ServiceTest {
 protected:
  uint64_t rss() { return stats()["rss_bytes"].get<uint64_t>(); }
  std::string raw_header(wire::FrameHeader header) {
    auto bytes = wire::encode_header(header);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // The daemon's process; -1 where there is none.
  pid_t start_with_few_descriptors() {
    std::string line = "ulimit -n 64; exec " KILN_TEST_KILND " --runtime-dir " + runtime();
    for (const std::string& word : daemon_arguments()) line += " " + word;
    auto pid = wire::spawn({.command = {"/bin/sh", "-c", line}});
    EXPECT_TRUE(pid);
    EXPECT_TRUE(eventually([&] { return Connection::open(options()).ok(); }));
    return pid ? *pid : -1;
  }
  // A greeted peer that sends these bytes is told INVALID_ARGUMENT and is hung up on; everybody else goes on.
  void expect_rejected(const std::string& bytes) {
    RawPeer peer(runtime());
    ASSERT_TRUE(peer.read());
    peer.hello();
    peer.send_bytes(bytes);
    auto reply = peer.read();
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->type(), wire::Type::kError);
    EXPECT_EQ(wire::parse_error(reply->json).code, ErrorCode::kInvalidArgument) << reply->json;
    EXPECT_TRUE(peer.closed());
    EXPECT_TRUE(connect()->ping());
  }
};

TEST_F(HostileTest, HugeLengthsAreRefusedBeforeAllocation) {
  start();
  uint64_t before = rss();
  for (uint64_t size : {uint64_t{1} << 63, (uint64_t{64} << 20) + 1}) {
    expect_rejected(raw_header({.type = wire::Type::kCompile, .body_size = size, .request_id = 1}));
  }
  expect_rejected(raw_header({.type = wire::Type::kCompile, .json_size = 0xffffffff, .request_id = 1}));
  // A length that is allowed but never delivered costs one step.
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 20; ++i) {
    peers.push_back(std::make_unique<RawPeer>(runtime()));
    peers.back()->hello();
    peers.back()->send_bytes(raw_header({.type = wire::Type::kCompile, .body_size = 64u << 20, .request_id = 1}));
  }
  EXPECT_LT(rss(), before + (8u << 20));
}

TEST_F(HostileTest, WrongMagicIsClosedWithoutReply) {
  start();
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.send_bytes("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  auto reply = peer.read();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(stats()["rejected_total"]["magic"], 1);
}

TEST_F(HostileTest, JsonThatIsNot) {
  start();
  auto compile_with = [&](const std::string& json) {
    return raw_header({.type = wire::Type::kCompile,
                       .json_size = static_cast<uint32_t>(json.size()),
                       .body_size = 4,
                       .request_id = 9}) +
           json + std::string(4, '\0');
  };
  std::string deep = "{\"a\":" + std::string(10'000, '[') + std::string(10'000, ']') + "}";
  for (const std::string& json :
       {deep, std::string(60'000, '['), std::string("{\"deadline_ms\": 1e999}"),
        std::string("{\"trace_id\": \"\xff\xfe\"}"), std::string("{\"deadline_ms\": \"soon\"}"),
        std::string("{\"deadline_ms\": -1}"), std::string("[1]"), std::string("{"), std::string("{\"a\"\0:1}", 8),
        std::string("{\"trace_id\": \"a\", \"trace_id\": \"b\"}"), std::string("{\"priority\": \"urgent\"}"),
        std::string("{\"deadline_ms\": 99999999999999999999999}")}) {
    RawPeer peer(runtime());
    ASSERT_TRUE(peer.read());
    peer.hello();
    peer.send_bytes(compile_with(json));
    auto reply = peer.read();
    ASSERT_TRUE(reply) << json.substr(0, 50);
    EXPECT_EQ(reply->id(), 9u);
    EXPECT_EQ(wire::parse_error(reply->json).code, ErrorCode::kInvalidArgument) << json.substr(0, 50);
    EXPECT_TRUE(peer.closed()) << json.substr(0, 50);
  }
  EXPECT_TRUE(connect()->ping());
}

TEST_F(HostileTest, UnknownTypesFlagsAndBodies) {
  start();
  expect_rejected(raw_header({.type = static_cast<wire::Type>(999), .request_id = 1}));
  expect_rejected(raw_header({.type = wire::Type::kSpawn, .request_id = 1}));
  expect_rejected(raw_header({.type = wire::Type::kPing, .flags = 1u << 20, .request_id = 1}));
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.hello();
  // Unknown flags of the lower half are ignored.
  peer.send_bytes(raw_header({.type = wire::Type::kPing, .flags = 1u << 10, .request_id = 5}));
  auto pong = peer.read();
  ASSERT_TRUE(pong);
  EXPECT_EQ(pong->id(), 5u);
  for (size_t size : {0u, 31u, 33u}) {
    std::string body(size, 'k');
    peer.send({.type = wire::Type::kGet, .request_id = 6, .body = {std::as_bytes(std::span(body))}});
    auto refused = peer.read();
    ASSERT_TRUE(refused);
    EXPECT_EQ(wire::parse_error(refused->json).code, ErrorCode::kInvalidArgument);
  }
  // A canonical section longer than the body.
  std::string lying = {'\x10', 0, 0, 0, 'x'};
  peer.send({.type = wire::Type::kCompile, .request_id = 7, .body = {std::as_bytes(std::span(lying))}});
  auto refused = peer.read();
  ASSERT_TRUE(refused);
  EXPECT_EQ(wire::parse_error(refused->json).code, ErrorCode::kInvalidArgument);
}

TEST_F(HostileTest, RequestIdInUse) {
  start();
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.hello();
  RequestBytes hang = order("hang");
  uint32_t size = hang.canonical.size();
  wire::OutFrame frame{
      .type = wire::Type::kCompile, .request_id = 1, .body = {std::as_bytes(std::span(&size, 1)), hang.canonical}};
  peer.send(frame);
  peer.send(frame);
  auto reply = peer.read();
  ASSERT_TRUE(reply);
  EXPECT_EQ(wire::parse_error(reply->json).code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(peer.closed());
}

TEST_F(HostileTest, ProtocolVersionMismatchNamesBoth) {
  start();
  RawPeer peer(runtime());
  auto welcome = peer.read();
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->type(), wire::Type::kWelcome);
  peer.hello(0x0900);
  auto reply = peer.read();
  ASSERT_TRUE(reply);
  Error failure = wire::parse_error(reply->json);
  EXPECT_EQ(failure.code, ErrorCode::kVersionMismatch);
  EXPECT_NE(failure.message.find("9.0"), std::string::npos) << failure.message;
  EXPECT_NE(failure.message.find("1.0"), std::string::npos) << failure.message;
  EXPECT_TRUE(peer.closed());
}

// A server that is not this kilnd, for the client's side of the greeting.
struct FakeServer {
  wire::UniqueFd dir, socket;
  explicit FakeServer(const std::string& runtime_dir) {
    dir = wire::open_private_dir(runtime_dir).value();
    socket = wire::listen_socket(runtime_dir, dir.get(), 8).value();
  }
  wire::Channel accept() const {
    return wire::Channel(wire::UniqueFd(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  }
};

TEST_F(HostileTest, ClientRefusesADaemonOfAnotherVersion) {
  FakeServer server(runtime());
  wire::Welcome welcome;
  welcome.min_version = welcome.max_version = 0x0200;
  welcome.daemon_path = "/opt/newer/kilnd";
  std::string json = wire::to_text(welcome);
  std::jthread serving([&] {
    auto channel = server.accept();
    (void)channel.write({.type = wire::Type::kWelcome, .json = json});
    (void)channel.read(wire::Clock::now() + kPatience);
  });
  auto refused = Connection::open(options());
  serving.join();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kVersionMismatch);
  for (const char* part : {"1.0", "2.0", "/opt/newer/kilnd"}) {
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  }
}

TEST_F(HostileTest, ADaemonThatSaysNothingIsGivenUp) {
  FakeServer server(runtime());
  ConnectOptions impatient = options();
  impatient.start_timeout = 100ms;
  auto silent = Connection::open(impatient);
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ErrorCode::kDeadlineExceeded) << silent.error().message;
}

TEST_F(HostileTest, ClientRetriesOnceWhenClosedBeforeTheGreeting) {
  FakeServer server(runtime());
  std::string json = wire::to_text(wire::Welcome{});
  std::jthread serving([&] {
    server.accept();  // and hangs up
    auto channel = server.accept();
    (void)channel.write({.type = wire::Type::kWelcome, .json = json});
    while (channel.read(wire::Clock::now() + kPatience)) {
    }
  });
  auto connection = Connection::open(options());
  EXPECT_TRUE(connection) << connection.error().message;
  connection = internal_error("closed");
  serving.join();
}

TEST_F(HostileTest, ClientChecksWhatItIsSent) {
  FakeServer server(runtime());
  std::string json = wire::to_text(wire::Welcome{});
  std::jthread serving([&] {
    auto channel = server.accept();
    (void)channel.write({.type = wire::Type::kWelcome, .json = json});
    (void)channel.read();
    auto request = channel.read();
    std::string junk(300, 'j');
    (void)channel.write({.type = wire::Type::kResult,
                         .request_id = request->id(),
                         .json = "{}",
                         .body = {std::as_bytes(std::span(junk))},
                         .flags = wire::flag::kLast});
    (void)channel.read(wire::Clock::now() + kPatience);
  });
  auto connection = Connection::open(options());
  ASSERT_TRUE(connection);
  auto artifact = (*connection)->get(RequestKey{});
  ASSERT_FALSE(artifact);
  EXPECT_NE(artifact.error().message.find("damaged"), std::string::npos) << artifact.error().message;
  connection = internal_error("closed");
  serving.join();
}

TEST_F(HostileTest, SilentPeersAreDroppedAndDelayNobody) {
  start({"--hello-timeout", "1"});
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 50; ++i) peers.push_back(std::make_unique<RawPeer>(runtime()));
  EXPECT_TRUE(connect()->fetch(order("bytes")));
  for (auto& peer : peers) EXPECT_TRUE(peer->closed());
  EXPECT_EQ(stats()["rejected_total"]["hello_timeout"], 50);
  EXPECT_EQ(stats()["connections"], 1);
}

TEST_F(HostileTest, OneByteAtATime) {
  start();
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.hello();
  for (char byte : raw_header({.type = wire::Type::kPing, .request_id = 3})) peer.send_bytes({&byte, 1});
  auto pong = peer.read();
  ASSERT_TRUE(pong);
  EXPECT_EQ(pong->id(), 3u);
}

TEST_F(HostileTest, SurplusDescriptorsAreClosed) {
  start();
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.hello();
  size_t before = open_descriptors(daemon_.pid());
  for (uint64_t i = 0; i < 50; ++i) {
    const std::string ping = raw_header({.type = wire::Type::kPing, .request_id = i});
    if (send_with_descriptors(peer.fd(), ping, 1) < 0) {
      ASSERT_EQ(errno, EPERM) << "from Linux 6.16 on the kernel lets none pass";
      peer.send_bytes(ping);
    }
    ASSERT_TRUE(peer.read());
  }
  EXPECT_LE(open_descriptors(daemon_.pid()), before + 1);
}

TEST_F(HostileTest, RandomBytesNeverHarmTheDaemon) {
  start();
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    RawPeer peer(runtime());
    if (round % 2) peer.hello();
    std::string bytes = raw_header({.type = static_cast<wire::Type>(random() % 14),
                                    .json_size = uint32_t(random() % 40),
                                    .body_size = random() % 100,
                                    .request_id = random() % 3});
    while (bytes.size() < 400) bytes += static_cast<char>(random());
    if (round % 5 == 0) bytes[random() % 32] ^= static_cast<char>(random());
    // A well-formed SHUTDOWN ends the daemon, which is its right.
    if (bytes[6] == static_cast<char>(wire::Type::kShutdown)) continue;
    peer.send_bytes(bytes);
  }
  EXPECT_TRUE(connect()->fetch(order("bytes")));
  EXPECT_TRUE(eventually([&] { return stats()["connections"] == 1; }));
}

// What is refused before it is a job has its request's name, or the daemon's for it.
TEST_F(HostileTest, RefusalsNameTheirRequests) {
  start();
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.hello();
  for (wire::Type type : {wire::Type::kCompile, wire::Type::kTune}) {
    const std::string broken = "x";  // no lengths and sections
    peer.send(
        {.type = type, .request_id = 7, .json = R"({"trace_id": "mine"})", .body = {std::as_bytes(std::span(broken))}});
    auto named = peer.read();
    ASSERT_TRUE(named);
    EXPECT_EQ(wire::parse_error(named->json).code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(wire::parse_error(named->json).trace_id, "mine");
    peer.send({.type = type, .request_id = 8, .json = "{}", .body = {std::as_bytes(std::span(broken))}});
    auto unnamed = peer.read();
    ASSERT_TRUE(unnamed);
    EXPECT_TRUE(wire::parse_error(unnamed->json).trace_id.ends_with("-8")) << unnamed->json;
  }
  std::multiset<std::string> logged;
  std::ifstream log(runtime() + "/kilnd.log");
  for (std::string line; std::getline(log, line);) {
    const auto event = nlohmann::json::parse(line);
    if (event.value("event", "") == "failed") logged.insert(event.value("trace_id", ""));
  }
  EXPECT_EQ(logged.count("mine"), 2u);
  EXPECT_EQ(logged.size(), 4u);
  peer.send({.type = wire::Type::kCompile, .request_id = 9, .json = "[]"});
  auto rejected = peer.read();
  ASSERT_TRUE(rejected);
  EXPECT_TRUE(wire::parse_error(rejected->json).trace_id.ends_with("-9")) << rejected->json;
}

// Its requests wait in its own socket until it reads.
TEST_F(HostileTest, ReaderThatNeverReadsIsBounded) {
  start();
  auto request = order("bytes", 100'000);
  auto daemon = connect();
  ASSERT_TRUE(daemon->fetch(request));
  const RequestKey key = daemon->key_of(request);
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.hello();
  std::string get = raw_header({.type = wire::Type::kGet, .body_size = key.size(), .request_id = 1});
  get.append(reinterpret_cast<const char*>(key.data()), key.size());
  auto send_all_it_can = [&] {
    size_t sent = 0;
    while (::send(peer.fd(), get.data(), get.size(), MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(get.size()))
      ++sent;
    return sent;
  };
  size_t sent = 0;
  EXPECT_TRUE(eventually([&] {  // until nothing more is taken for a while
    const size_t more = send_all_it_can();
    sent += more;
    std::this_thread::sleep_for(50ms);
    return more == 0;
  }));
  const uint64_t hits = stats()["hits_total"]["memory"].get<uint64_t>();
  EXPECT_GT(hits, 5u);
  EXPECT_LT(hits, 100u) << "1 MiB, and what the kernel holds";
  EXPECT_LT(hits, sent);
  EXPECT_TRUE(daemon->fetch(request));
  EXPECT_EQ(stats()["connections"], 3);
}

// Those who come wait until there are descriptors again; who is there is served meanwhile.
TEST_F(HostileTest, OutOfDescriptorsTheOthersWait) {
  const pid_t process = start_with_few_descriptors();
  auto daemon = connect();
  ASSERT_TRUE(daemon);
  ASSERT_TRUE(daemon->fetch(order("bytes")));
  std::vector<wire::UniqueFd> crowd;
  for (int i = 0; i < 200; ++i) crowd.push_back(wire::connect_socket(runtime()).value());
  // Those that were accepted say nothing and are closed after two seconds, when the next have their turn.
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(daemon->fetch(order("bytes")));
    auto more = daemon->compile(order("bytes", 64, "more" + std::to_string(i)), {.deadline_ms = 60'000});
    EXPECT_TRUE(more || more.error().retryable) << more.error().message;
  }
  crowd.clear();
  EXPECT_TRUE(eventually([&] { return Connection::open(options()).ok(); }));
  EXPECT_TRUE(daemon->compile(order("bytes", 64, "after"), {.deadline_ms = 60'000}));
  EXPECT_TRUE(daemon->shutdown());
  EXPECT_EQ(wire::exit_text(wire::wait_for_exit(process, kPatience).value()), "exit code 0");
}

// Connections that stay do not take the descriptors that a worker needs, or an entry that travels as one.
TEST_F(HostileTest, FewDescriptorsLeaveSomeForWorkers) {
  const pid_t process = start_with_few_descriptors();
  auto daemon = connect();
  ASSERT_TRUE(daemon);
  std::vector<std::unique_ptr<RawPeer>> crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.push_back(std::make_unique<RawPeer>(runtime()));
    crowd.back()->hello();
  }
  // What is asked behind them, they have come before.
  ASSERT_TRUE(daemon->ping());
  for (int i = 0; i < 40; ++i) {
    auto artifact = daemon->compile(order("bytes", 200'000, std::to_string(i)), {.deadline_ms = 60'000});
    ASSERT_TRUE(artifact) << artifact.error().message;
  }
  crowd.clear();
  EXPECT_TRUE(daemon->shutdown());
  EXPECT_EQ(wire::exit_text(wire::wait_for_exit(process, kPatience).value()), "exit code 0");
}

// In a child that became another user: the exit code says whether the daemon said anything.
int foreign_greeting(const std::string& path) {
  pid_t pid = ::fork();
  if (pid == 0) {
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) ::_exit(9);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) ::_exit(8);
    char byte;
    ::_exit(::read(fd, &byte, 1) > 0 ? 1 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}

TEST_F(HostileTest, ForeignUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  start();
  std::string path = runtime() + "/" + wire::kSocketName;
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 077, 0u);
  EXPECT_EQ(foreign_greeting(path), 8) << "the directory keeps others out";
  // And if the directory were open, the daemon itself would.
  ::chmod(temp_.path().c_str(), 0711);
  ::chmod(runtime().c_str(), 0711);
  ::chmod(path.c_str(), 0666);
  EXPECT_EQ(foreign_greeting(path), 0);
  EXPECT_TRUE(eventually([&] { return stats()["rejected_total"]["uid"] == 1; }));
}

}  // namespace
}  // namespace kiln::service_test
