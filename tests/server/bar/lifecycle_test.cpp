// Statements 22 to 27: starting, leaving, replacing, doing without.
#include <seccomp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <thread>

#include "bar.h"
#include "golden_kernel.h"
#include "kiln/client/client.h"
#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/process.h"

namespace kiln::service_test {
namespace {

namespace fs = std::filesystem;

class BarLifecycle : public Bar {
 protected:
  ConnectOptions autostart(const std::string& idle = "60") const {
    ConnectOptions out = options();
    out.autostart = true;
    out.daemon_args = {"--cache-dir", cache(), "--workers", "2", "--idle-timeout", idle};
    return out;
  }
  // Compiles that come out right where the client must have its daemon as a child.
  static int right_by_a_child(ConnectOptions options, int compiles) {
    options.allow_pipe = true;
    auto child = Connection::open(options);
    if (!child) {
      ADD_FAILURE() << child.error().message;
      return 0;
    }
    int right = 0;
    for (int i = 0; i < compiles; ++i) {
      const std::string salt = std::to_string(i);
      right += judge((*child)->fetch(order("bytes", 100, salt)), salt, 100) == Answer::kRight;
    }
    return right;
  }
  std::string socket_path() const { return runtime() + "/" + wire::kSocketName; }
  void write_config(const std::string& text) const { std::ofstream(temp_ / "kilnd.toml") << text; }
  void TearDown() override { shut_down_what_runs(); }
};

struct Started {
  pid_t daemon = 0;
  double ms = 0;
};

TEST_F(BarLifecycle, Statement22AHundredClientsStartOneDaemon) {
  const int rounds = count(1, 10), clients = 100;
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    int gate[2], results[2];
    ASSERT_EQ(::pipe(gate), 0);
    ASSERT_EQ(::pipe(results), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < clients; ++i) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        ::close(gate[1]);
        char byte;
        (void)!::read(gate[0], &byte, 1);  // until everybody is there
        Stopwatch took;
        Started out;
        auto daemon = Connection::open(autostart());
        auto served = daemon ? (*daemon)->fetch(order("bytes")) : Result<Artifact>(daemon.error());
        if (served) out = {static_cast<pid_t>((*daemon)->server().pid), took.ms()};
        if (!served) std::fprintf(stderr, "%s: %s\n", daemon ? "fetch" : "open", served.error().message.c_str());
        (void)!::write(results[1], &out, sizeof out);
        ::_exit(0);
      }
      children.push_back(pid);
    }
    ::close(gate[0]);
    ::close(gate[1]);
    std::set<pid_t> daemons;
    for (int i = 0; i < clients; ++i) {
      Started started;
      ASSERT_EQ(::read(results[0], &started, sizeof started), static_cast<ssize_t>(sizeof started));
      ASSERT_NE(started.daemon, 0) << "a client was not served";
      daemons.insert(started.daemon);
      times.push_back(started.ms);
    }
    for (pid_t pid : children) ::waitpid(pid, nullptr, 0);
    ::close(results[0]);
    ::close(results[1]);
    EXPECT_EQ(daemons.size(), 1u);
    EXPECT_TRUE(connect()->shutdown());
  }
  std::ifstream log(runtime() + "/kilnd.log");
  int listens = 0;
  for (std::string line; std::getline(log, line);) listens += line.find("\"listening\"") != std::string::npos;
  EXPECT_EQ(listens, rounds);
  judge_time("ms for the slowest of a hundred clients", percentile(times, 1), 3000);
  judge_time("ms for the typical one", percentile(times, 0.5), 500);
  figure(22, "%d times 100 processes at once: %d daemons, all served; p50 %.0f ms, slowest %.0f ms", rounds, listens,
         percentile(times, 0.5), percentile(times, 1));
}

TEST_F(BarLifecycle, Statement23IdleExitLosesNoRequest) {
  // Several daemons beside each other, each in a directory of its own, so that it does not take the whole day.
  constexpr int kLanes = 8;
  const int rounds = count(80, 10'000) / kLanes;
  std::atomic<int> requests{0}, daemons{0};
  std::vector<std::jthread> lanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    lanes.emplace_back([&, lane] {
      ConnectOptions here = autostart("0.05");
      here.runtime_dir += std::to_string(lane);
      here.daemon_args[1] += std::to_string(lane);  // its cache
      std::mt19937_64 random(lane);
      std::set<int64_t> seen;
      for (int i = 0; i < rounds; ++i) {
        auto connection = Connection::open(here);
        ASSERT_TRUE(connection) << connection.error().message;
        ASSERT_TRUE((*connection)->ping());
        ++requests;
        seen.insert((*connection)->server().pid);
        connection = internal_error("closed");
        std::this_thread::sleep_for(std::chrono::microseconds(47'000 + random() % 6000));
      }
      daemons += static_cast<int>(seen.size());
      here.autostart = false;
      if (auto left = Connection::open(here)) {
        EXPECT_TRUE((*left)->shutdown());
      }
    });
  }
  lanes.clear();
  EXPECT_EQ(requests, rounds * kLanes);
  figure(23, "%d requests at about the moment of idle exit, 50 ms: 0 failed, %d daemons", requests.load(),
         daemons.load());
}

TEST_F(BarLifecycle, Statement24WhateverIsInTheSocketsPlace) {
  start();
  kill_daemon();  // leaves socket and lock file
  ASSERT_TRUE(fs::exists(socket_path()));
  std::vector<double> recovered;
  auto serves = [&] {
    Stopwatch took;
    start();
    EXPECT_TRUE(connect()->ping());
    recovered.push_back(took.ms());
  };
  serves();
  daemon_.kill_now();
  // The process that a lock file names may be another's by now: the lock itself is what counts.
  for (const char* lock : {wire::kLockName, wire::kSpawnLockName}) std::ofstream(runtime() + "/" + lock) << ::getpid();
  std::ofstream(cache() + "/LOCK") << "pid " << ::getpid() << "\n";
  serves();
  EXPECT_EQ(stats()["store_read_only"], 0);
  daemon_.kill_now();
  std::ofstream(socket_path()) << "not a socket";
  serves();
  daemon_.kill_now();
  fs::create_symlink("/nonexistent", socket_path());
  serves();
  // Under a live daemon, in its watch and not at its next check: a client that comes is served all the same, by
  // another.
  for (const char* what : {"removed", "file", "symlink", "moved"}) {
    daemon_.kill_now();
    start();
    const pid_t before = daemon_.pid();
    if (what == std::string("moved")) {
      fs::rename(runtime(), runtime() + ".gone");
    } else {
      fs::remove(socket_path());
      if (what == std::string("file")) std::ofstream(socket_path()) << "x";
      if (what == std::string("symlink")) fs::create_symlink("/nonexistent", socket_path());
    }
    Stopwatch took;
    auto served = Connection::open(autostart());
    ASSERT_TRUE(served) << what << ": " << served.error().message;
    EXPECT_EQ(judge((*served)->compile(order("bytes", 100, what)), what, 100), Answer::kRight);
    recovered.push_back(took.ms());
    EXPECT_NE((*served)->server().pid, before) << what;
    EXPECT_EQ(daemon_.wait(), 0) << what;
    EXPECT_TRUE((*served)->shutdown());
    served = internal_error("closed");
    ASSERT_TRUE(eventually([&] { return !fs::exists(socket_path()); }));
  }
  // Another one never takes the place, and the daemon leaves.
  for (const char* what : {"moved", "removed", "file", "directory"}) {
    daemon_.kill_now();
    start({"--self-check", "0.05"});
    DaemonProcess second;
    EXPECT_TRUE(second.start(runtime(), daemon_arguments()).starts_with("another ")) << what;
    EXPECT_EQ(second.wait(), 0);
    if (what == std::string("moved")) {
      fs::rename(runtime(), runtime() + ".moved");
      EXPECT_EQ(daemon_.wait(), 0) << what;
      continue;
    }
    fs::remove(socket_path());
    if (what == std::string("file")) std::ofstream(socket_path()) << "x";
    if (what == std::string("directory")) fs::create_directory(socket_path());
    EXPECT_EQ(daemon_.wait(), 0) << what;
  }
  // What its watch does not see: a directory above is moved.
  std::vector<std::string> checking = daemon_arguments();
  checking.insert(checking.end(), {"--self-check", "0.05"});
  fs::create_directory(temp_ / "outer");
  ASSERT_EQ(daemon_.start(temp_ / "outer/run", checking), "ready");
  fs::rename(temp_ / "outer", temp_ / "outer.moved");
  EXPECT_EQ(daemon_.wait(), 0);
  std::string line = daemon_.start(runtime(), daemon_arguments());
  EXPECT_NE(line.find("is a directory"), std::string::npos) << line;
  EXPECT_EQ(daemon_.wait(), 1);
  fs::remove(socket_path());
  judge_time("ms until it serves where something else was", percentile(recovered, 1), 1000);
  figure(24,
         "stale socket, file, symlink, and a live daemon's socket taken away: serving after %.0f ms at most; a "
         "directory: one clear error; unreachable daemons leave",
         percentile(recovered, 1));
}

// Greets as a daemon of these versions would, each client that comes, and then hears what it says.
class OtherDaemon {
 public:
  OtherDaemon(const std::string& runtime_dir, wire::Version min, wire::Version max)
      : dir_(wire::open_private_dir(runtime_dir).value()),
        socket_(wire::listen_socket(runtime_dir, dir_.get(), 8).value()) {
    thread_ = std::jthread([this, min, max](const std::stop_token& stop) {
      wire::Welcome welcome;
      welcome.min_version = min;
      welcome.max_version = max;
      const std::string json = wire::to_text(welcome);
      while (!stop.stop_requested()) {
        wire::Channel channel(wire::UniqueFd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
        if (channel.fd() < 0 || !channel.write({.type = wire::Type::kWelcome, .json = json})) continue;
        if (auto hello = channel.read(wire::Clock::now() + kPatience)) hellos_ += hello->type() == wire::Type::kHello;
        if (auto ping = channel.read(wire::Clock::now() + kPatience)) {
          (void)channel.write({.type = wire::Type::kResult, .request_id = ping->id(), .flags = wire::flag::kLast});
        }
      }
    });
  }
  ~OtherDaemon() {
    thread_.request_stop();
    ::shutdown(socket_.get(), SHUT_RDWR);
  }
  int hellos() const { return hellos_; }

 private:
  wire::UniqueFd dir_, socket_;
  std::atomic<int> hellos_{0};
  std::jthread thread_;
};

TEST_F(BarLifecycle, Statement25GenerationsServeReplaceOrDoWithout) {
  {
    // The newer one still speaks our version, or the older one already does: served.
    OtherDaemon newer(runtime(), wire::kMinVersion, 0x0205);
    auto served = Connection::open(options());
    ASSERT_TRUE(served) << served.error().message;
    EXPECT_TRUE((*served)->ping());
    EXPECT_EQ(newer.hellos(), 1);
  }
  {
    // None in common: a child over a pipe, and no compile fails.
    OtherDaemon other(runtime(), 0x0200, 0x0205);
    ConnectOptions boxed = autostart();
    boxed.allow_pipe = true;
    auto child = Connection::open(boxed);
    ASSERT_TRUE(child) << child.error().message;
    EXPECT_EQ(judge((*child)->compile(order("bytes", 100, "boxed")), "boxed", 100), Answer::kRight);
    EXPECT_EQ(other.hellos(), 0);
  }
  start();
  RawPeer old(runtime());
  ASSERT_TRUE(old.read());
  old.hello(0x0100);
  old.send({.type = wire::Type::kPing, .request_id = 1});
  EXPECT_EQ(old.read()->type(), wire::Type::kResult);
  RawPeer newer(runtime());
  ASSERT_TRUE(newer.read());
  newer.hello(0x0200);
  EXPECT_EQ(wire::parse_error(newer.read()->json).code, ErrorCode::kVersionMismatch);
  figure(25,
         "overlapping versions: served; none in common: a child over a pipe, 0 failed compiles; another build: "
         "LifecycleTest.DaemonOfAnotherBuildIsReplaced, LifecycleTest.InstallationsSideBySideHaveADaemonEach");
}

TEST_F(BarLifecycle, Statement26DrainFinishesOrCancelsInTime) {
  const int limit = times_are_judged() ? 10 : 4;  // seconds
  start({"--workers", "8", "--drain-timeout", std::to_string(limit)});
  std::atomic<int> finished{0}, cancelled{0};
  std::stop_source stop;
  std::vector<std::jthread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      auto artifact =
          connect()->compile(order(i % 2 ? "waits" : "hang", 0, std::to_string(i)), {.cancel = stop.get_token()});
      ++(artifact ? finished : cancelled);
    });
  }
  ASSERT_TRUE(eventually([&] { return busy_workers().size() == 8; }));
  const auto workers = busy_workers();
  Stopwatch drain;
  daemon_.signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return !fs::exists(socket_path()); }));
  let_go(workers);  // those that hang do not hear it
  EXPECT_EQ(daemon_.wait(), 0);
  const double took = drain.ms();
  stop.request_stop();  // those that were cut off wait for the next daemon
  clients.clear();
  EXPECT_EQ(finished, 4);
  EXPECT_EQ(cancelled, 4);
  EXPECT_GE(took, limit * 1000 - 1);
  judge_time("ms until the exit", took, limit * 1000 + 2000);
  figure(26, "SIGTERM with 8 running jobs and %d s to drain: %d finished, %d cancelled, exit code 0 after %.0f ms",
         limit, finished.load(), cancelled.load(), took);
}

TEST_F(BarLifecycle, Statement26ReloadChangesLimitsAndDropsNobody) {
  write_config("negative-ttl = 50\n");
  start({"--config", temp_ / "kilnd.toml"});
  auto daemon = connect();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(daemon->fetch(order("bytes", 20'000, std::to_string(i)), {.durable = true}));
  auto config = stats()["config"];
  EXPECT_EQ(config["negative_ttl_ms"], 50'000);
  EXPECT_EQ(config["sources"]["negative-ttl"], "file");
  EXPECT_EQ(config["sources"]["workers"], "command line");
  EXPECT_FALSE(config["sources"].contains("deadline"));
  write_config(
      "cache-size = \"500KiB\"\nmemory-size = \"100KiB\"\nlog-level = \"debug\"\npoison-ttl = 7\nqueue-limit = "
      "5\nworkers = 3\nfrozen = true\n");
  daemon_.signal(SIGHUP);
  ASSERT_TRUE(eventually([&] { return stats()["config"]["queue_jobs"] == 5; }));
  config = stats()["config"];
  EXPECT_EQ(config["poison_ttl_ms"], 7000);
  EXPECT_EQ(config["negative_ttl_ms"], 60'000) << "no longer in the file";
  EXPECT_EQ(config["log_level"], "debug");
  EXPECT_EQ(config["frozen"], false);
  EXPECT_FALSE(config["sources"].contains("frozen")) << "it is not in force, and so comes from nowhere";
  EXPECT_EQ(config["sources"]["queue-limit"], "file");
  EXPECT_EQ(config["workers"], 4) << "the command line wins, and the number of workers is that of the start";
  EXPECT_TRUE(eventually([&] { return stats()["disk_bytes"].get<int>() <= 500 << 10; }));
  EXPECT_LE(stats()["memory_bytes"], 100 << 10);
  write_config("no-such-option = 1\n");
  daemon_.signal(SIGHUP);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(stats()["config"]["queue_jobs"], 5) << "a file with an error changes nothing";
  std::filesystem::remove(temp_ / "kilnd.toml");
  ASSERT_EQ(::mkfifo((temp_ / "kilnd.toml").c_str(), 0600), 0);
  daemon_.signal(SIGHUP);
  std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(daemon->ping()) << "nobody waits for who might write to a pipe";
  EXPECT_EQ(stats()["pid"], daemon_.pid());
  EXPECT_TRUE(daemon->ping());
  figure(26,
         "SIGHUP: limits of both tiers, queue, times and log level changed under an open connection; a faulty file "
         "changes nothing");
}

TEST_F(BarLifecycle, Statement27WhereNothingCanBeWritten) {
  const int compiles = count(20, 200);
  std::ofstream(temp_ / "file") << "a directory cannot be made below";
  ConnectOptions nowhere = autostart();
  nowhere.runtime_dir = temp_ / "file/run";
  nowhere.daemon_args = {"--cache-dir", temp_ / "file/cache", "--workers", "2"};
  const int right = right_by_a_child(nowhere, compiles);
  EXPECT_EQ(right, compiles);
  ConnectOptions strict = nowhere;
  strict.allow_pipe = false;
  auto refused = Connection::open(strict);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find(nowhere.runtime_dir), std::string::npos) << refused.error().message;
  figure(27, "%d of %d compiles right where no directory can be made", right, compiles);
}

// As a container may have it.
void forbid_sockets() {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  if (!filter || seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 0) != 0 ||
      seccomp_load(filter) != 0) {
    ::_exit(100);
  }
  seccomp_release(filter);
}

TEST_F(BarLifecycle, Statement27WhereSocketsAreForbidden) {
  const int compiles = count(20, 200);
  const pid_t pid = ::fork();
  if (pid == 0) {
    forbid_sockets();
    ::_exit(right_by_a_child(autostart(), compiles) == compiles ? 0 : 1);
  }
  EXPECT_EQ(wire::exit_text(wire::wait_for_exit(pid, kPatience).value()), "exit code 0");
  figure(27, "%d of %d compiles right where a filter forbids sockets", compiles, compiles);
}

TEST_F(BarLifecycle, Statement27WithoutADaemonAChildCompilesAndFailuresAreCheap) {
  const int compiles = count(100, 1000);
  fs::create_directories(socket_path());  // no daemon can listen here
  ::chmod(runtime().c_str(), 0700);
  const int right = right_by_a_child(autostart(), compiles);
  EXPECT_EQ(right, compiles);
  fs::remove_all(socket_path());
  // A daemon that goes and cannot be started again.
  start();
  ConnectOptions strict = options();
  strict.start_timeout = 5s;  // for so long it waits for another one
  auto lost = Connection::open(strict);
  ASSERT_TRUE(lost);
  kill_daemon();
  EXPECT_FALSE((*lost)->ping());
  std::vector<double> calls;
  for (int i = 0; i < 1000; ++i) {
    Stopwatch took;
    EXPECT_EQ((*lost)->ping().error().code, ErrorCode::kUnavailable);
    calls.push_back(took.ms());
  }
  judge_time("ms for a call to a daemon that is not available (p99)", percentile(calls, 0.99), 1);
  figure(27,
         "%d of %d compiles right by a child over a pipe; an unavailable daemon costs p50 %.4f ms, max %.3f ms a call",
         right, compiles, percentile(calls, 0.5), percentile(calls, 1));
}

// The same for who asks for kernels: get() through a client that cannot have a daemon, and one that has lost it.
TEST_F(BarLifecycle, Statement27AGetWithoutADaemonIsCheap) {
  auto kernel = golden_kernel("matmul");
  ASSERT_TRUE(kernel) << kernel.error().message;
  const client::GetOptions config{.target = "cpu", .constexprs = small_config(*kernel)};
  auto time_of_gets = [&](const char* what, client::Client& asking) {
    EXPECT_FALSE(asking.get(*kernel, config));  // the first looks for one
    std::vector<double> calls;
    for (int i = 0; i < count(100, 1000); ++i) {
      Stopwatch took;
      auto refused = asking.get(*kernel, config);
      calls.push_back(took.ms());
      EXPECT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable) << refused.error().message;
    }
    judge_time(what, percentile(calls, 0.99), 1);
    return calls;
  };
  client::ClientOptions nowhere;
  nowhere.connect = options();
  nowhere.connect.start_timeout = 5s;
  client::Client never(nowhere);
  const auto without = time_of_gets("ms for a get() that never had a daemon (p99)", never);
  start();
  client::Client lost(nowhere);
  EXPECT_EQ(lost.get(*kernel, config).error().code, ErrorCode::kInvalidArgument) << "the fake worker knows no kernels";
  kill_daemon();
  const auto gone = time_of_gets("ms for a get() that has lost its daemon (p99)", lost);
  figure(27, "get() of a kernel without a daemon: p50 %.3f ms, max %.3f; with one that is gone: %.3f and %.3f",
         percentile(without, 0.5), percentile(without, 1), percentile(gone, 0.5), percentile(gone, 1));
}

// A name that goes between listening and being watched, as a preloaded library has it.
TEST_F(BarLifecycle, Statement24ANameThatGoesBeforeItIsWatchedIsNoticed) {
  ::setenv("LD_PRELOAD", KILN_TEST_LATE_WATCH, 1);
  allow_preloading();
  ::setenv("KILN_TEST_LOST_SOCKET", socket_path().c_str(), 1);
  start({"--self-check", "3600"});
  ::unsetenv("LD_PRELOAD");
  ::unsetenv("KILN_TEST_LOST_SOCKET");
  EXPECT_EQ(daemon_.wait(), 0) << "it stays, and nobody can reach it";
  EXPECT_EQ(log_lines("kilnd.log").back()["event"], "exit");
  start();
  EXPECT_TRUE(connect()->ping());
}

}  // namespace
}  // namespace kiln::service_test
