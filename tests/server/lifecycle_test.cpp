// Starting, finding, leaving, draining, replacing.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/process.h"
#include "other_build.h"
#include "service_fixture.h"

namespace kiln::service_test {
namespace {

class LifecycleTest : public ServiceTest {
 protected:
  ConnectOptions autostart(const std::string& idle = "60") const {
    ConnectOptions out = options();
    out.autostart = true;
    out.daemon_args = {"--cache-dir", cache(), "--workers", "2", "--idle-timeout", idle};
    return out;
  }
  std::string socket_path() const { return runtime() + "/" + wire::kSocketName; }

  // Daemons that clients started are nobody's children here.
  void TearDown() override {
    auto left = Connection::open(options());
    if (left) {
      EXPECT_TRUE((*left)->shutdown());
    }
  }
};

TEST_F(LifecycleTest, ClientStartsTheDaemon) {
  auto first = Connection::open(autostart());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE((*first)->fetch(order("bytes")));
  auto second = Connection::open(autostart());
  ASSERT_TRUE(second);
  EXPECT_EQ((*first)->server().pid, (*second)->server().pid);
  EXPECT_EQ((*second)->fetch(order("bytes"))->metadata.served_from, "memory");
}

TEST_F(LifecycleTest, WithoutAutostartNoDaemonIsUnavailable) {
  auto none = Connection::open(options());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
}

TEST_F(LifecycleTest, SpawnRaceMakesOneDaemon) {
  std::vector<std::jthread> threads;
  std::mutex mutex;
  std::set<int64_t> pids;
  std::atomic<int> good{0};
  for (int i = 0; i < 40; ++i) {
    threads.emplace_back([&] {
      auto connection = Connection::open(autostart());
      if (!connection) return;
      if ((*connection)->fetch(order("bytes"))) ++good;
      std::lock_guard lock(mutex);
      pids.insert((*connection)->server().pid);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 40);
  EXPECT_EQ(pids.size(), 1u);
}

TEST_F(LifecycleTest, IdleExitRaceLosesNoRequest) {
  // The daemon leaves every few milliseconds, and clients keep coming at about that moment.
  int failures = 0;
  std::string why;
  for (int i = 0; i < 60; ++i) {
    auto connection = Connection::open(autostart("0.01"));
    auto result = connection ? (*connection)->ping() : Result<void>(connection.error());
    if (!result) {
      ++failures;
      why = result.error().message;
    }
    connection = internal_error("closed");
    std::this_thread::sleep_for(std::chrono::microseconds(8000 + 150 * i % 4000));
  }
  EXPECT_EQ(failures, 0) << why;
}

TEST_F(LifecycleTest, IdleDaemonExitsAndIsStartedAgain) {
  auto connection = Connection::open(autostart("0.05"));
  ASSERT_TRUE(connection);
  pid_t pid = (*connection)->server().pid;
  std::this_thread::sleep_for(150ms);
  EXPECT_TRUE(alive(pid)) << "a connected client keeps the daemon";
  connection = internal_error("closed");
  EXPECT_TRUE(eventually([&] { return !alive(pid); }));
  EXPECT_FALSE(std::filesystem::exists(socket_path()));
  auto again = Connection::open(autostart());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_NE((*again)->server().pid, pid);
}

TEST_F(LifecycleTest, RequestsFindARestartedDaemon) {
  auto connection = Connection::open(autostart());
  ASSERT_TRUE(connection);
  ASSERT_TRUE((*connection)->fetch(order("bytes")));
  // The reply does not wait for the disk.
  ASSERT_TRUE(eventually([&] { return entry_files(cache()).size() == 1; }));
  pid_t pid = (*connection)->server().pid;
  ::kill(pid, SIGKILL);
  ASSERT_TRUE(eventually([&] { return !alive(pid); }));
  auto after = (*connection)->fetch(order("bytes"));
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->metadata.served_from, "disk");
  EXPECT_NE((*connection)->server().pid, pid);
}

TEST_F(LifecycleTest, SecondDaemonLeavesTheFirstAlone) {
  start();
  auto first = connect();
  DaemonProcess second;
  std::string line = second.start(runtime(), daemon_arguments());
  EXPECT_TRUE(line.starts_with("another ")) << line;
  EXPECT_EQ(second.wait(), 0);
  EXPECT_TRUE(first->ping());
  EXPECT_EQ(connect()->server().pid, daemon_.pid());
}

TEST_F(LifecycleTest, StaleSocketIsReplaced) {
  start();
  daemon_.signal(SIGKILL);
  daemon_.wait();
  EXPECT_TRUE(std::filesystem::exists(socket_path()));
  start();
  EXPECT_TRUE(connect()->ping());
}

TEST_F(LifecycleTest, RegularFileOrSymlinkInPlaceOfTheSocketIsReplaced) {
  std::filesystem::create_directory(runtime());
  ::chmod(runtime().c_str(), 0700);
  std::ofstream(socket_path()) << "not a socket";
  start();
  EXPECT_TRUE(connect()->ping());
  daemon_.kill_now();
  std::filesystem::create_symlink("/nonexistent", socket_path());
  start();
  EXPECT_TRUE(connect()->ping());
}

TEST_F(LifecycleTest, DirectoryInPlaceOfTheSocketIsAClearError) {
  std::filesystem::create_directories(socket_path());
  ::chmod(runtime().c_str(), 0700);
  std::string line = daemon_.start(runtime(), daemon_arguments());
  EXPECT_NE(line.find("is a directory"), std::string::npos) << line;
  EXPECT_EQ(daemon_.wait(), 1);
}

TEST_F(LifecycleTest, DaemonWithoutItsSocketLeaves) {
  start({"--self-check", "0.05"});
  std::filesystem::remove(socket_path());
  EXPECT_EQ(daemon_.wait(), 0);
}

TEST_F(LifecycleTest, LongRuntimeDirectoryWorks) {
  ConnectOptions deep = autostart();
  deep.runtime_dir = temp_ / (std::string(100, 'd') + "/" + std::string(100, 'e'));
  auto connection = Connection::open(deep);
  ASSERT_TRUE(connection) << connection.error().message;
  EXPECT_TRUE((*connection)->fetch(order("bytes")));
  EXPECT_TRUE((*connection)->shutdown());
}

TEST_F(LifecycleTest, RelativeDirectoriesMeanTheClientsOwn) {
  auto before = std::filesystem::current_path();
  std::filesystem::current_path(temp_.path());
  ConnectOptions relative = autostart();
  relative.runtime_dir = "run";
  relative.daemon_args[1] = "cache";
  auto connection = Connection::open(relative);
  std::filesystem::current_path(before);
  ASSERT_TRUE(connection) << connection.error().message;
  EXPECT_TRUE((*connection)->fetch(order("bytes")));
  EXPECT_TRUE(eventually([&] { return entry_files(cache()).size() == 1; }));
}

TEST_F(LifecycleTest, DrainLetsRunningCompilesFinish) {
  start({"--drain-timeout", "60"});
  auto daemon = connect();
  std::jthread running([&] {
    auto artifact = daemon->compile(order("waits"));
    EXPECT_TRUE(artifact) << artifact.error().message;
  });
  ASSERT_TRUE(eventually([&] { return busy_workers().size() == 1; }));
  const auto worker = busy_workers();
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.hello();
  peer.send({.type = wire::Type::kPing, .request_id = 1});
  ASSERT_TRUE(peer.read());
  daemon_.signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(socket_path()); }));
  RequestBytes request = order("bytes", 5, "late");
  uint32_t size = request.canonical.size();
  peer.send(
      {.type = wire::Type::kCompile, .request_id = 2, .body = {std::as_bytes(std::span(&size, 1)), request.canonical}});
  auto refused = peer.read();
  ASSERT_TRUE(refused);
  EXPECT_EQ(wire::parse_error(refused->json).code, ErrorCode::kDraining);
  let_go(worker);
  EXPECT_EQ(daemon_.wait(), 0);
  running.join();
}

TEST_F(LifecycleTest, DrainGivesUpAtItsLimit) {
  start({"--drain-timeout", "0.2"});
  auto daemon = connect();
  std::stop_source stop;
  std::jthread running([&] { EXPECT_FALSE(daemon->compile(order("hang"), {.cancel = stop.get_token()})); });
  ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
  daemon_.signal(SIGTERM);
  EXPECT_EQ(daemon_.wait(), 0);
  stop.request_stop();  // its client waits for the next daemon
  running.join();
}

// They are answered when they are on disk, which is after their compiles have ended.
TEST_F(LifecycleTest, DrainWaitsForDurableResults) {
  constexpr int kClients = 8;
  start({"--workers", std::to_string(kClients), "--drain-timeout", "60"});
  std::atomic<int> durable{0};
  std::vector<std::jthread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i, client = connect()] {
      auto artifact = client->compile(order("waits", 0, std::to_string(i)), {.durable = true});
      ASSERT_TRUE(artifact) << artifact.error().message;
      durable += artifact->metadata.durable == true;
    });
  }
  ASSERT_TRUE(eventually([&] { return busy_workers().size() == kClients; }));
  const auto workers = busy_workers();
  daemon_.signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(socket_path()); }));
  let_go(workers);
  EXPECT_EQ(daemon_.wait(), 0);
  clients.clear();
  EXPECT_EQ(durable, kClients);
}

// Those who wait in its queue, and those who come while there is none, go to the next one, whoever starts that.
TEST_F(LifecycleTest, AnEndingDaemonIsNobodysError) {
  start({"--workers", "1", "--drain-timeout", "0.2"});
  constexpr int kClients = 6;
  std::atomic<int> finished{0};
  std::vector<std::jthread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i, client = connect()] {
      auto artifact = client->compile(order("sleep", 1000, std::to_string(i)), {.deadline_ms = 60'000});
      EXPECT_TRUE(artifact) << artifact.error().message;
      finished += artifact.ok();
    });
  }
  // One after the other ends under those who wait.
  for (const char* workers : {"1", "6"}) {
    ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
    daemon_.signal(SIGTERM);
    ASSERT_EQ(daemon_.wait(), 0);
    start({"--workers", workers, "--drain-timeout", "0.2"});
  }
  clients.clear();
  EXPECT_EQ(finished, kClients);
}

// A daemon of another protocol has names of its own: neither waits for the other, or touches what is its.
// The client starts none itself; whoever does is not there yet when it notices.
TEST_F(LifecycleTest, AnIdleClientGoesToTheNextDaemonThatSomebodyElseStarts) {
  start();
  auto client = connect();
  const auto request = order("bytes", 64);
  ASSERT_TRUE(client->compile(request, {.durable = true}));
  for (int round = 0; round < 3; ++round) {
    daemon_.signal(SIGTERM);
    ASSERT_EQ(daemon_.wait(), 0);
    std::vector<std::jthread> callers;
    std::atomic<int> right = 0;
    for (int i = 0; i < 4; ++i) {
      callers.emplace_back([&, i] {
        auto done = i % 2 == 0 ? client->ping() : Result<void>();
        auto artifact = client->fetch(request);
        if (done && artifact) return void(++right);
        ADD_FAILURE() << (done ? artifact.error().message : done.error().message);
      });
    }
    if (round > 0) std::this_thread::sleep_for(50ms);  // they have all found nobody
    start();
    callers.clear();
    EXPECT_EQ(right, 4);
  }
}

// Then it says so, and the next call does not wait again.
TEST_F(LifecycleTest, AnIdleClientWithoutANextDaemonIsToldInTime) {
  start();
  auto in_a_hurry = options();
  in_a_hurry.start_timeout = 200ms;
  Result<std::unique_ptr<Connection>> client = internal_error("none yet");
  ASSERT_TRUE(eventually([&] { return (client = Connection::open(in_a_hurry)).ok(); })) << client.error().message;
  daemon_.signal(SIGTERM);
  ASSERT_EQ(daemon_.wait(), 0);
  for (int i = 0; i < 1000; ++i) {
    auto answer = (*client)->ping();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable) << answer.error().message;
  }
}

// Who starts none has as long as he has given the call, and as long as starting one may take where he has not.
TEST_F(LifecycleTest, ACallWaitsForTheNextDaemonUntilItsDeadline) {
  start();
  const auto request = order("bytes", 64);
  auto impatient = options();
  impatient.start_timeout = 200ms;
  Result<std::unique_ptr<Connection>> client = internal_error("none yet");
  ASSERT_TRUE(eventually([&] { return (client = Connection::open(impatient)).ok(); })) << client.error().message;
  daemon_.signal(SIGTERM);
  ASSERT_EQ(daemon_.wait(), 0);
  std::vector<std::jthread> callers;
  std::atomic<int> right = 0, told = 0;
  const client::CompileOptions in_a_minute{.deadline_ms = 60'000};
  callers.emplace_back([&] { right += (*client)->compile(request, in_a_minute).ok(); });
  callers.emplace_back([&] { right += (*client)->fetch(request, in_a_minute).ok(); });
  callers.emplace_back([&] { told += (*client)->ping().error().code == ErrorCode::kUnavailable; });
  EXPECT_TRUE(eventually([&] { return told == 1; }));
  std::this_thread::sleep_for(300ms);  // longer than starting may take
  start();
  callers.clear();
  EXPECT_EQ(right, 2);
}

TEST_F(LifecycleTest, ACallWaitsForTheNextDaemonNoLongerThanItsDeadline) {
  start();
  auto client = connect();
  daemon_.signal(SIGTERM);
  ASSERT_EQ(daemon_.wait(), 0);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(client->compile(order("bytes", 64), {.deadline_ms = 200}));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 4s) << "the 5 s after it are for a daemon's answer";
}

TEST_F(LifecycleTest, GenerationsShareADirectory) {
  ASSERT_TRUE(wire::open_private_dir(runtime()));
  std::vector<wire::UniqueFd> others;
  for (const char* name : {"kilnd.v2.lock", "kilnd.v2.spawn.lock", "LOCK"}) {
    others.emplace_back(::open((runtime() + "/" + name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::flock(others.back().get(), LOCK_EX | LOCK_NB), 0);
  }
  std::ofstream(runtime() + "/kilnd.v2.sock") << "theirs";
  ConnectOptions with_start = options();
  with_start.autostart = true;
  with_start.daemon_args = {"--cache-dir", cache(), "--workers", "1", "--idle-timeout", "60"};
  auto daemon = Connection::open(with_start);
  ASSERT_TRUE(daemon) << daemon.error().message;
  EXPECT_TRUE((*daemon)->compile(order("bytes")));
  EXPECT_TRUE((*daemon)->shutdown());
  EXPECT_TRUE(std::filesystem::exists(runtime() + "/kilnd.v2.sock"));
}

// Figures into the log, for who cannot ask.
TEST_F(LifecycleTest, Usr1WritesFiguresToTheLog) {
  start();
  ASSERT_TRUE(connect()->compile(order("bytes")));
  daemon_.signal(SIGUSR1);
  ASSERT_TRUE(eventually([&] {
    std::ifstream log(runtime() + "/kilnd.log");
    for (std::string line; std::getline(log, line);) {
      auto entry = wire::parse_object(line);
      if (entry && (*entry)["event"] == "state") return (*entry)["figures"]["compiles_total"] == 1;
    }
    return false;
  }));
  EXPECT_TRUE(connect()->ping());
}

TEST_F(LifecycleTest, SecondSignalEndsAtOnce) {
  start({"--drain-timeout", "30"});
  auto daemon = connect();
  std::jthread running([&] { EXPECT_FALSE(daemon->compile(order("hang"))); });
  ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
  daemon_.signal(SIGTERM);
  ASSERT_TRUE(eventually([&] { return !std::filesystem::exists(socket_path()); }));
  daemon_.signal(SIGTERM);
  EXPECT_EQ(daemon_.wait(), 1);
  running.join();
}

TEST_F(LifecycleTest, ShutdownRequest) {
  start();
  EXPECT_TRUE(connect()->shutdown());
  EXPECT_EQ(daemon_.wait(), 0);
}

TEST_F(LifecycleTest, SuccessorStartsWhileThePredecessorDrains) {
  start({"--drain-timeout", "60"});
  auto old = connect();
  std::jthread running([&] { EXPECT_TRUE(old->compile(order("waits"))); });
  ASSERT_TRUE(eventually([&] { return busy_workers().size() == 1; }));
  const auto worker = busy_workers();
  daemon_.signal(SIGTERM);
  ASSERT_TRUE(eventually([&] { return !std::filesystem::exists(socket_path()); }));
  auto successor = Connection::open(autostart());
  ASSERT_TRUE(successor) << successor.error().message;
  EXPECT_NE((*successor)->server().pid, daemon_.pid());
  EXPECT_TRUE((*successor)->compile(order("bytes", 6, "new")));
  let_go(worker);
  running.join();
  EXPECT_EQ(daemon_.wait(), 0);
}

// An upgrade: another build is put in the place of what the daemon was started from.
TEST_F(LifecycleTest, DaemonOfAnotherBuildIsReplaced) {
  const std::string worker = temp_ / "worker";
  std::filesystem::copy_file(KILN_TEST_WORKER, worker);
  start({"--worker", worker, "--drain-timeout", "60"});
  ASSERT_TRUE(connect()->fetch(order("bytes")));
  ConnectOptions newer = autostart();
  newer.worker_path = worker;
  std::filesystem::rename(other_build_of(KILN_TEST_WORKER, temp_ / "other_worker"), worker);
  auto same = newer;
  same.exact_build = false;
  auto tolerant = Connection::open(same);
  ASSERT_TRUE(tolerant);
  EXPECT_EQ((*tolerant)->server().pid, daemon_.pid());
  // Whoever waits for a compile of the old one gets it.
  auto waiting = connect();
  std::atomic<int> finished{0};
  std::jthread running([&] { finished += waiting->compile(order("waits")).ok(); });
  ASSERT_TRUE(eventually([&] { return busy_workers().size() == 1; }));
  const auto old_worker = busy_workers();
  auto replaced = Connection::open(newer);
  ASSERT_TRUE(replaced) << replaced.error().message;
  EXPECT_NE((*replaced)->server().pid, daemon_.pid());
  let_go(old_worker);
  running.join();
  EXPECT_EQ(finished, 1);
  EXPECT_EQ((*replaced)->server().worker_path, newer.worker_path);
  EXPECT_EQ(daemon_.wait(), 0);
}

// Those that wait in its queue then are asked for again, of the new one.
TEST_F(LifecycleTest, QueuedCompilesOutliveTheReplacement) {
  const std::string worker = temp_ / "worker";
  std::filesystem::copy_file(KILN_TEST_WORKER, worker);
  start({"--workers", "1", "--worker", worker});
  ConnectOptions newer = autostart();
  newer.worker_path = worker;
  std::filesystem::rename(other_build_of(KILN_TEST_WORKER, temp_ / "other_worker"), worker);
  // Whoever comes back finds the new files.
  ConnectOptions patient = newer;
  patient.exact_build = false;
  constexpr int kClients = 6;
  std::atomic<int> finished{0};
  std::vector<std::jthread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i, client = Connection::open(patient).value()] {
      auto artifact = client->compile(order("waits", 0, std::to_string(i)));
      EXPECT_TRUE(artifact) << artifact.error().message;
      finished += artifact.ok();
    });
  }
  ASSERT_TRUE(eventually([&] { return stats()["jobs"] == kClients && busy_workers().size() == 1; }));
  const auto old_worker = busy_workers();
  auto replaced = Connection::open(newer);
  ASSERT_TRUE(replaced) << replaced.error().message;
  let_go(old_worker);
  EXPECT_TRUE(eventually([&] {
    let_go(busy_workers());
    return finished == kClients;
  }));
  clients.clear();
  EXPECT_EQ(daemon_.wait(), 0);
}

// Neither replaces the other, however often they come, and nobody's compile is disturbed.
TEST_F(LifecycleTest, InstallationsSideBySideHaveADaemonEach) {
  ConnectOptions one = autostart(), other = autostart();
  other.worker_path = other_build_of(KILN_TEST_WORKER, temp_ / "other_worker");
  auto first = Connection::open(one), second = Connection::open(other);
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(second) << second.error().message;
  const int64_t of_one = (*first)->server().pid, of_other = (*second)->server().pid;
  EXPECT_NE(of_one, of_other);
  EXPECT_EQ((*second)->server().worker_path, other.worker_path);
  std::atomic<int> finished{0};
  std::vector<std::jthread> running;
  for (Connection* client : {first->get(), second->get()}) {
    running.emplace_back([&finished, client] { finished += client->compile(order("sleep", 500)).ok(); });
  }
  for (int i = 0; i < 10; ++i) {
    auto again = Connection::open(one), beside = Connection::open(other);
    ASSERT_TRUE(again) << again.error().message;
    ASSERT_TRUE(beside) << beside.error().message;
    EXPECT_EQ((*again)->server().pid, of_one);
    EXPECT_EQ((*beside)->server().pid, of_other);
  }
  running.clear();
  EXPECT_EQ(finished, 2);
  EXPECT_TRUE((*first)->shutdown());
  // The usual place is free: whoever comes next has it.
  auto later = Connection::open(other);
  ASSERT_TRUE(later) << later.error().message;
  EXPECT_NE((*later)->server().pid, of_other);
  EXPECT_TRUE((*second)->compile(order("bytes", 64, "still"))) << "the one that is there stays";
  EXPECT_TRUE((*second)->shutdown());
}

// A new user in a container: no directory is there but HOME, and no variable says anything.
TEST_F(LifecycleTest, ANewHomeGetsItsDirectoriesAndKeepsWhatIsCompiled) {
  if (std::filesystem::exists("/run/user/" + std::to_string(::geteuid())))
    GTEST_SKIP() << "there is a place for sockets";
  ConnectOptions here;
  here.runtime_dir = temp_ / ".cache/kiln/run";
  here.autostart = false;
  for (const char* from : {"compile", "disk"}) {
    const std::string line = "umask 022; exec env -i HOME=" + temp_.path() + " " + KILN_TEST_KILND +
                             " --foreground --log-level err --worker " + KILN_TEST_WORKER;
    auto pid = wire::spawn({.command = {"/bin/sh", "-c", line}});
    ASSERT_TRUE(pid);
    Result<std::unique_ptr<Connection>> daemon = internal_error("none yet");
    ASSERT_TRUE(eventually([&] { return (daemon = Connection::open(here)).ok(); }));
    auto artifact = (*daemon)->fetch(order("bytes"));
    ASSERT_TRUE(artifact) << artifact.error().message;
    EXPECT_EQ(artifact->metadata.served_from, from);
    daemon = internal_error("closed");
    ::kill(*pid, SIGTERM);
    EXPECT_TRUE(wire::wait_for_exit(*pid, kPatience));
  }
}

TEST_F(LifecycleTest, NoDaemonInADirectoryThatOthersCanEnter) {
  std::filesystem::create_directory(runtime());
  ::chmod(runtime().c_str(), 0755);
  auto refused = Connection::open(autostart());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("must be 0700"), std::string::npos) << refused.error().message;
  ConnectOptions boxed = autostart();
  boxed.allow_pipe = true;
  auto child = Connection::open(boxed);
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_TRUE((*child)->ping());
}

TEST_F(LifecycleTest, PipeModeServesOneClient) {
  ConnectOptions boxed = autostart();
  boxed.allow_pipe = true;
  // The socket's place is taken by a directory: no daemon can listen here.
  std::filesystem::create_directories(socket_path());
  ::chmod(runtime().c_str(), 0700);
  auto connection = Connection::open(boxed);
  ASSERT_TRUE(connection) << connection.error().message;
  EXPECT_EQ((*connection)->fetch(order("bytes"))->metadata.served_from, "compile");
  EXPECT_EQ((*connection)->fetch(order("bytes", 300'000))->code.size(), 300'000u);
  EXPECT_EQ((*connection)->fetch(order("bytes"))->metadata.served_from, "memory");
  pid_t child = (*connection)->server().pid;
  connection = internal_error("closed");
  EXPECT_FALSE(alive(child));
}

}  // namespace
}  // namespace kiln::service_test
