// Processes of the user that take what they can get: places, descriptors, the tuner's memory, room for words.
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <fstream>
#include <thread>

#include "connections/idle_longest.h"
#include "connections/listener.h"
#include "connections/owners.h"
#include "descriptors.h"
#include "directory_watch.h"
#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/process.h"
#include "processes/process_state.h"
#include "processes/tuner_process.h"
#include "service_fixture.h"

namespace kiln::service_test {
namespace {

class GreedyTest : public ServiceTest {
 protected:
  std::unique_ptr<RawPeer> greeted() {
    auto peer = std::make_unique<RawPeer>(runtime());
    EXPECT_TRUE(peer->read());
    peer->hello();
    return peer;
  }
  static bool answers(RawPeer& peer) {
    peer.send({.type = wire::Type::kPing, .request_id = 1});
    return peer.read().ok();
  }
  // Whether another process than this one is served.
  bool another_is_served() {
    auto pid = wire::spawn({.command = {"/bin/sh", "-c",
                                        "KILN_RUNTIME_DIR=" + runtime() + " exec " KILN_TEST_KILN " stats --json > " +
                                            (temp_ / "figures")}});
    EXPECT_TRUE(pid);
    return wire::exit_text(wire::wait_for_exit(*pid, kPatience).value()) == "exit code 0";
  }
};

TEST_F(GreedyTest, OfAProcessThatHasAllItsPlacesTheOneIdleForLongestGoes) {
  start({"--max-connections", "8"});
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 8; ++i) {
    peers.push_back(greeted());
    ASSERT_TRUE(answers(*peers.back()));
  }
  ASSERT_TRUE(answers(*peers[0]));  // so that another has been idle for longest
  EXPECT_TRUE(another_is_served());
  peers.push_back(greeted());
  EXPECT_TRUE(answers(*peers.back()));
  EXPECT_TRUE(peers[1]->closed());
  for (int i : {0, 2, 3, 4, 5, 6, 7, 8}) EXPECT_TRUE(answers(*peers[static_cast<size_t>(i)])) << i;
  // A client whose connection has gone meanwhile does not notice.
  auto daemon = connect();
  for (int i = 0; i < 9; ++i) {
    peers.push_back(greeted());
    EXPECT_TRUE(answers(*peers.back()));
  }
  EXPECT_TRUE(daemon->compile(order("bytes")));
  EXPECT_GE(stats()["rejected_total"]["idle"], 3);
}

// Those that are in the midst of something are not sent away, and leave room for others all the same.
TEST_F(GreedyTest, BusyConnectionsOfAProcessAreNotMoreThanItsShare) {
  start({"--max-connections", "8"});
  const auto header = wire::encode_header({.type = wire::Type::kCompile, .body_size = 1000, .request_id = 1});
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 8; ++i) {
    peers.push_back(greeted());
    ASSERT_TRUE(answers(*peers.back()));
    peers.back()->send_bytes({reinterpret_cast<const char*>(header.data()), header.size()});
  }
  // The last of them may not have been read yet, and goes then.
  RawPeer surplus(runtime()), another(runtime());
  EXPECT_TRUE(surplus.closed() || peers.back()->closed());
  EXPECT_TRUE(another_is_served());
  EXPECT_TRUE(another_is_served());
}

// A connection of a process that ends when it has made it.
std::unique_ptr<wire::Channel> minted(const std::string& runtime) {
  auto ends = wire::make_channel_pair().value();
  const pid_t pid = ::fork();
  if (pid == 0) {
    RawPeer peer(runtime);
    if (!peer.read()) ::_exit(1);
    peer.hello();
    const std::byte one{};
    const std::array<std::span<const std::byte>, 1> pieces = {std::span(&one, 1)};
    ::_exit(wire::send_some(ends.theirs.get(), pieces, 0, peer.fd()) == 1 ? 0 : 1);
  }
  std::byte one{};
  std::deque<wire::UniqueFd> fds;
  EXPECT_EQ(wire::exit_text(wire::wait_for_exit(pid, kPatience).value()), "exit code 0");
  EXPECT_EQ(wire::receive_some(ends.ours.get(), &one, 1, &fds), 1);
  return std::make_unique<wire::Channel>(std::move(fds.at(0)));
}

TEST_F(GreedyTest, ConnectionsWhoseProcessesHaveEndedAreOfOneOwner) {
  start({"--max-connections", "4"});
  std::vector<std::unique_ptr<wire::Channel>> peers;
  auto asks = [](wire::Channel& peer) {
    return peer.write({.type = wire::Type::kPing, .request_id = 1}, wire::Clock::now() + kPatience).ok() &&
           peer.read(wire::Clock::now() + kPatience).ok();
  };
  // Each was another process's when it came, and they share the places of one when they are used.
  for (int i = 0; i < 6; ++i) peers.push_back(minted(runtime()));
  std::this_thread::sleep_for(2 * server::Owners::kLook);  // they may have said hello while it lived
  for (auto& each : peers) (void)asks(*each);
  EXPECT_EQ(std::ranges::count_if(peers, [&](const auto& each) { return asks(*each); }), 4);
  EXPECT_EQ(stats()["rejected_total"]["idle"], 2);
  EXPECT_TRUE(another_is_served());
}

TEST(Owners, AProcessThatHasEndedIsNoOwner) {
  server::Owners owners;
  int ends[2];
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::pause();
    ::_exit(0);
  }
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const wire::UniqueFd mine(ends[0]), other(ends[1]);
  const auto now = server::Owners::Clock::now();
  const server::Owner self = owners.of(mine.get(), 7);
  EXPECT_EQ(self.id, static_cast<uint64_t>(::getpid()));
  EXPECT_FALSE(owners.has_ended(self, now));
  EXPECT_TRUE(owners.has_ended({self.id, self.started + 1}, now)) << "an earlier one of the same number";
  const server::Owner child{static_cast<uint64_t>(pid), server::process_state(pid).value().started};
  EXPECT_FALSE(owners.has_ended(child, now));
  ::kill(pid, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(owners.has_ended(child, now)) << "it was looked at just now";
  EXPECT_TRUE(owners.has_ended(child, now + server::Owners::kLook)) << "nobody has waited for it";
  ::waitpid(pid, nullptr, 0);
  EXPECT_TRUE(owners.has_ended(child, now + 2 * server::Owners::kLook));
  EXPECT_TRUE(owners.has_ended({server::Owners::kEnded, 0}));
}

// One that connects for each that is taken in, and never reads: the others have their turn all the same.
TEST(Listener, WhoConnectsWithoutEndIsTakenInAFewAtATime) {
  TempDir temp;
  boost::asio::io_context io;
  server::Log log(temp / "log", "info");
  server::MemoryWatch memory;
  server::Listener listener(io, log, memory, 1000);
  const auto runtime = temp / "run";
  auto flood = [&] { return wire::connect_socket(runtime, wire::Clock::now() + kPatience); };
  size_t taken = 0, others = 0;
  std::vector<wire::UniqueFd> peers;
  ASSERT_TRUE(listener.elect(runtime));
  ASSERT_TRUE(listener.listen([&](wire::UniqueFd) {
    ++taken;
    if (taken < 2000) {
      EXPECT_TRUE(flood());
    }
    if (taken == 1) boost::asio::post(io, [&] { others = taken; });
    return true;
  }));
  for (int i = 0; i < 100; ++i) peers.push_back(flood().value());
  while (others == 0) io.run_one();
  EXPECT_LE(others, 8u);
  while (taken < 2000) io.run_one();
  // Before it leaves it takes in all who had connected.
  EXPECT_FALSE(listener.leave_if_unused());
  EXPECT_EQ(taken, 2099u);
  EXPECT_TRUE(listener.leave_if_unused());
}

// Those for whom nothing can be done now are taken in later, and none is lost meanwhile but the one that showed it.
TEST(Listener, ItRestsWhileNothingCanBeDoneForConnections) {
  TempDir temp;
  boost::asio::io_context io;
  server::Log log(temp / "log", "info");
  server::MemoryWatch memory;
  server::Listener listener(io, log, memory, 1000);
  size_t taken = 0, wanted = 0;
  ASSERT_TRUE(listener.elect(temp / "run"));
  ASSERT_TRUE(listener.listen([&](wire::UniqueFd) { return ++wanted > 1 && ++taken > 0; }));
  std::vector<wire::UniqueFd> peers;
  for (int i = 0; i < 5; ++i)
    peers.push_back(wire::connect_socket(temp / "run", wire::Clock::now() + kPatience).value());
  while (wanted == 0) io.run_one();
  while (io.poll_one() > 0) {
  }
  EXPECT_EQ(wanted, 1u);
  while (taken < 4) io.run_one();
  EXPECT_EQ(wanted, 5u);
}

// Nor does one that makes names without end in the runtime directory.
TEST(DirectoryWatch, NamesWithoutEndAreHeardOfAFewAtATime) {
  TempDir temp;
  boost::asio::io_context io;
  server::DirectoryWatch watch(io);
  size_t told = 0, others = 0;
  watch.start(temp.path(), [&] {
    if (++told == 1) boost::asio::post(io, [&] { others = told; });
  });
  for (int i = 0; i < 1000; ++i) std::ofstream(temp / std::to_string(i));
  while (io.poll_one() > 0) {
  }
  EXPECT_EQ(others, 1u);
  EXPECT_GT(told, 4u);
}

struct SomeConnection {
  static inline size_t asked;
  std::chrono::steady_clock::time_point heard;
  bool is_idle = true;

  bool idle() const {
    ++asked;
    return is_idle;
  }
  auto last_heard() const { return heard; }
};

// Nor is each connection asked for each that comes.
TEST(IdleLongest, IsLookedForOnceForMany) {
  std::map<uint64_t, std::shared_ptr<SomeConnection>> all;
  const auto now = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < 1000; ++i)
    all[i] = std::make_shared<SomeConnection>(SomeConnection{now - std::chrono::seconds(i), i % 2 == 0});
  server::IdleLongest<SomeConnection> idle;
  auto any = [](const SomeConnection&) { return true; };
  SomeConnection::asked = 0;
  auto oldest = idle.next(all, any);
  ASSERT_TRUE(oldest);
  EXPECT_EQ(oldest, all[998]);
  all[996]->heard = now;
  all[994]->is_idle = false;
  for (uint64_t due = 992; due > 0; due -= 2) ASSERT_EQ(idle.next(all, any), all[due]);
  EXPECT_EQ(idle.next(all, [&](const SomeConnection& each) { return &each == all[996].get(); }), all[996]);
  EXPECT_LT(SomeConnection::asked, 3000u);
  // Where all are busy, those who come are refused, and none is asked for a while.
  for (auto& [id, each] : all) each->is_idle = false;
  SomeConnection::asked = 0;
  for (int i = 0; i < 10'000; ++i) EXPECT_FALSE(idle.next(all, any));
  EXPECT_LT(SomeConnection::asked, 1'000'000u);
}

// The daemon without the rights of root, and with few descriptors, which the kernel compares with what the user has on
// its way (ETOOMANYREFS).
pid_t start_with_few_descriptors(const std::string& runtime, const std::vector<std::string>& arguments) {
  std::string line = "ulimit -n 256; exec " KILN_TEST_KILND " --runtime-dir " + runtime;
  for (const std::string& word : arguments) line += " " + word;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE);
    ::prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN);
    ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    ::_exit(127);
  }
  return pid;
}

// Sends so many descriptors that nobody receives; as far as it may.
void pass_descriptors(int socket, int count) {
  for (; count > 0; count -= 50) {
    if (send_with_descriptors(socket, "x", 50) < 0) return;
  }
}

TEST_F(GreedyTest, DescriptorsThatNobodyReceivesEndNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root's processes may have more on their way than the daemon";
  auto arguments = daemon_arguments();
  arguments.insert(arguments.end(), {"--worker-jobs", "1"});  // so that each compile takes a new worker
  const pid_t pid = start_with_few_descriptors(runtime(), arguments);
  ASSERT_TRUE(eventually([&] { return Connection::open(options()).ok(); }));
  auto daemon = connect();
  const auto large = order("bytes", 300'000);
  ASSERT_TRUE(daemon->compile(large));
  ASSERT_TRUE(eventually([&] { return stats()["workers"] == 0; }));
  auto crowd = wire::make_channel_pair().value();
  pass_descriptors(crowd.ours.get(), 400);
  auto hit = daemon->fetch(large);
  ASSERT_TRUE(hit) << hit.error().message;
  EXPECT_EQ(hit->metadata.served_from, "memory");
  std::atomic<bool> done{false};
  std::jthread waiting([&] {
    auto compiled = connect()->compile(order("bytes", 64, "new"), {.deadline_ms = 60'000});
    EXPECT_TRUE(compiled) << compiled.error().message;
    done = true;
  });
  ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(done) << "the kernel did pass a descriptor; this test shows nothing";
  EXPECT_TRUE(daemon->ping());
  crowd = {};
  waiting.join();
  const auto figures = stats();
  EXPECT_EQ(figures["zygote_restarts_total"], 0);
  EXPECT_EQ(figures["pid"], pid);
  EXPECT_TRUE(daemon->shutdown());
  EXPECT_EQ(wire::exit_text(wire::wait_for_exit(pid, kPatience).value()), "exit code 0");
}

// The zygote's side of the same: its words about a worker wait.
int channel_beside_a_crowd() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  const rlimit few{30, 30};
  auto crowd = wire::make_channel_pair().value(), ends = wire::make_channel_pair().value();
  pass_descriptors(crowd.ours.get(), 400);  // before the limits: another test may have a crowd of this user's just now
  if (::syscall(SYS_capset, &header, none) != 0 || ::setrlimit(RLIMIT_NOFILE, &few) != 0) return 2;
  wire::Channel channel(std::move(ends.ours));
  const wire::OutFrame frame{.type = wire::Type::kSpawned, .request_id = 1, .fd = STDERR_FILENO};
  auto late = channel.write(frame, wire::Clock::now() + 50ms);
  if (late || late.error().code != ErrorCode::kDeadlineExceeded) return 3;
  std::jthread later([&] {
    std::this_thread::sleep_for(50ms);
    crowd = {};
  });
  if (!channel.write(frame, wire::Clock::now() + kPatience)) return 4;
  auto received = wire::Channel(std::move(ends.theirs)).read(wire::Clock::now() + kPatience);
  return received && received->fd ? 0 : 5;
}

TEST(Channel, ADescriptorWaitsUntilItMayBePassed) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(channel_beside_a_crowd());
  EXPECT_EQ(wire::exit_text(wire::wait_for_exit(pid, kPatience).value()), "exit code 0");
}

// A tuner that reads nothing.
struct Tuner {
  TempDir temp;
  boost::asio::io_context io;
  server::Config config;
  server::Log log{temp / "log", "info"};
  server::Metrics metrics;
  server::History history{"test"};
  std::shared_ptr<server::Bytes> scratch = std::make_shared<server::Bytes>(4096);
  uint64_t requests = 0;
  int refused = 0;
  std::unique_ptr<server::TunerProcess> process;

  Tuner() {
    config.tuner_path = temp / "tuner";
    std::ofstream(config.tuner_path) << "#!/bin/sh\nexec sleep 1000\n";
    std::filesystem::permissions(config.tuner_path, std::filesystem::perms::owner_all);
    process = std::make_unique<server::TunerProcess>(io, config, scratch, log, metrics, history);
  }
  // The number of those that were taken, of so many of a process.
  int submit(uint64_t owner, int count, size_t size) {
    refused = 0;
    for (int i = 0; i < count; ++i) {
      process->submit({.requester = {owner, ++requests},
                       .owner = owner,
                       .trace_id = "t",
                       .json = "{}",
                       .body = std::make_shared<const server::Bytes>(size)},
                      [this](const Result<std::string>& answer) {
                        if (answer.error().code == ErrorCode::kDraining) return;  // the end of the test
                        EXPECT_EQ(answer.error().code, ErrorCode::kResourceExhausted) << answer.error().message;
                        EXPECT_TRUE(answer.error().retryable);
                        ++refused;
                      });
    }
    io.poll();
    return count - refused;
  }
};

TEST(TunerShares, WhatAProcessAsksTheTunerForLeavesRoomForOthers) {
  Tuner tuner;
  tuner.config.queue_bytes = 4 << 20;
  EXPECT_EQ(tuner.submit(1, 10, 1 << 20), 4);
  EXPECT_EQ(tuner.submit(2, 10, 1 << 20), 2) << "half of what is left";
  EXPECT_EQ(tuner.submit(3, 10, 100), 10);
  EXPECT_EQ(tuner.metrics.queue_rejected, 14u);
  EXPECT_EQ(tuner.process->stats()["tuner_running"], 1);
  // What left is here until the tuner has read it.
  tuner.process->forget_client(1);
  EXPECT_EQ(tuner.process->stats()["tune_waiters"], 12);
  EXPECT_LE(tuner.submit(1, 10, 1 << 20), 1);
  EXPECT_EQ(tuner.metrics.tuner_deaths, 0u);
}

TEST(TunerShares, AreOfRequestsToo) {
  Tuner tuner;
  tuner.config.queue_jobs = 20;
  EXPECT_EQ(tuner.submit(1, 50, 10), 20);
  EXPECT_EQ(tuner.submit(2, 50, 10), 10);
  EXPECT_EQ(tuner.submit(3, 1, 10), 1);
}

// What a worker says is kept as far as somebody may read it.
TEST_F(GreedyTest, WordsOfAWorkerAreCut) {
  start();
  auto daemon = connect();
  auto talks = daemon->compile(order("talks", 60'000, "x"));
  EXPECT_TRUE(talks || talks.error().code == ErrorCode::kInternal);
  auto trace = daemon->stats("trace", 10);
  ASSERT_TRUE(trace);
  int phases = 0;
  const auto told = nlohmann::json::parse(*trace);
  for (const auto& event : told["traceEvents"]) {
    const std::string name = event["name"];
    EXPECT_LE(name.size(), 32u);
    phases += name == std::string(32, 'p');
  }
  EXPECT_EQ(phases, 1);
  const auto figures = stats();
  ASSERT_TRUE(figures.contains("compile_ms"));
  for (const auto& [kind, each] : figures["compile_ms"].items()) EXPECT_LE(kind.size(), 32u);
  for (int i = 0; i < 2; ++i) {  // the second is remembered
    auto complains = daemon->compile(order("complains", 60'000, "x"));
    ASSERT_FALSE(complains);
    EXPECT_EQ(complains.error().code, ErrorCode::kCompileFailed);
    EXPECT_EQ(complains.error().message.size(), 8192u);
  }
  EXPECT_EQ(stats()["negative_hits_total"], 1);
}

}  // namespace
}  // namespace kiln::service_test
