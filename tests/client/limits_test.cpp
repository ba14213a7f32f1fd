// Whatever state the daemon is in, stopped, full, half-started or gone, connecting and calling end in their time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kiln/client/client.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/kernels.h"
#include "kiln/wire/channel.h"
#include "kiln/wire/paths.h"
#include "patience.h"
#include "scratch.h"

namespace kiln {
namespace {

using namespace std::chrono_literals;
using client::Connection;
using client::ConnectOptions;

class Limits : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kiln-limits-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    ::setenv("KILN_CACHE_DIR", path("cache").c_str(), 1);
  }
  void TearDown() override {
    if (stopped_ > 0) ::kill(stopped_, SIGKILL);
    ConnectOptions running = patient();
    running.autostart = running.allow_pipe = false;
    if (auto daemon = Connection::open(running)) (void)(*daemon)->shutdown();
    test::remove_scratch(directory_);
  }
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string runtime() const { return path("run"); }
  ConnectOptions patient() const {
    ConnectOptions out;
    out.runtime_dir = runtime();
    out.kilnd_path = KILND_EXECUTABLE;
    out.start_timeout = test::kPatience;
    return out;
  }
  ConnectOptions hurried() const {
    ConnectOptions out = patient();
    out.start_timeout = 200ms;
    return out;
  }
  // A kilnd that writes its process's number to "pid", and sleeps.
  std::string sleeping_kilnd() const {
    const std::string name = path("asleep");
    std::ofstream(name) << "#!/bin/sh\necho $$ >> " + path("pid") + "\nexec sleep 1000\n";
    ::chmod(name.c_str(), 0700);
    return name;
  }
  void expect_none_asleep() const {
    std::ifstream pids(path("pid"));
    for (pid_t pid; pids >> pid;) {
      const auto give_up = std::chrono::steady_clock::now() + test::kPatience;
      while (::kill(pid, 0) == 0 && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(1ms);
      EXPECT_NE(::kill(pid, 0), 0) << "the program that hung is left";
    }
  }
  void stop(const Connection& daemon) {
    stopped_ = static_cast<pid_t>(daemon.server().pid);
    ::kill(stopped_, SIGSTOP);
  }
  void go_on() { ::kill(std::exchange(stopped_, 0), SIGCONT); }

 private:
  std::filesystem::path directory_;
  pid_t stopped_ = 0;
};

// Many times the limits that the tests set, and as long as a machine may stand still, but less than any other limit
// that would end a call for which these were forgotten: a reply's half a minute, a patient start's minute.
constexpr auto kInTime = 20s;

template <class Body>
auto in_time(Body body) {
  const auto begin = std::chrono::steady_clock::now();
  auto out = body();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kInTime);
  return out;
}

void expect_late(const ConnectOptions& options, const std::string& words,
                 wire::Deadline deadline = wire::Clock::time_point::max()) {
  const auto opened = in_time([&] { return Connection::open(options, deadline); });
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ErrorCode::kDeadlineExceeded) << opened.error().message;
  EXPECT_NE(opened.error().message.find(words), std::string::npos) << opened.error().message;
}

// Connections that nobody takes in, until there is no room for one more.
std::vector<wire::UniqueFd> fill_backlog(const std::string& runtime_dir) {
  std::vector<wire::UniqueFd> out;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = runtime_dir + "/" + wire::kSocketName;
  name.copy(address.sun_path, sizeof address.sun_path - 1);
  for (;;) {
    wire::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      EXPECT_EQ(errno, EAGAIN);
      return out;
    }
    out.push_back(std::move(fd));
  }
}

TEST_F(Limits, AStoppedDaemonWithAFullBacklog) {
  auto daemon = Connection::open(patient());
  ASSERT_TRUE(daemon.ok()) << daemon.error().message;
  stop(**daemon);
  {
    const auto crowd = fill_backlog(runtime());
    expect_late(hurried(), "takes nobody in");
    expect_late(patient(), "takes nobody in", std::chrono::steady_clock::now() + 100ms);
    Client client({.connect = hurried()});
    EXPECT_FALSE(in_time([&] { return client.get(kernels::vector_add<>()); }).ok());
  }
  go_on();
  EXPECT_TRUE((*daemon)->ping().ok());
  auto again = Connection::open(patient());
  EXPECT_TRUE(again.ok()) << again.error().message;
}

TEST_F(Limits, AStoppedDaemonThatCannotGreet) {
  auto daemon = Connection::open(patient());
  ASSERT_TRUE(daemon.ok()) << daemon.error().message;
  stop(**daemon);
  expect_late(hurried(), "does not greet");
  go_on();
  EXPECT_TRUE((*daemon)->ping().ok());
}

// Of a call that is under way the deadline counts, and that of the connection behind it.
TEST_F(Limits, CallsOfAStoppedDaemon) {
  auto daemon = Connection::open(patient());
  ASSERT_TRUE(daemon.ok()) << daemon.error().message;
  auto request = dsl::encode_request(
      {*kernels::vector_add<>().ir(), (*daemon)->server().native_target, {{"BLOCK", 4096}}, {}, "so"});
  ASSERT_TRUE(request.ok());
  wire::TuneHeader waiting{};
  waiting.wait = true;
  stop(**daemon);
  std::vector<std::jthread> callers;
  const auto call = [&](const std::function<ErrorCode()>& body) {
    callers.emplace_back([body] { EXPECT_EQ(body(), ErrorCode::kDeadlineExceeded); });
  };
  const auto code = [](const auto& result) { return result.ok() ? ErrorCode::kInternal : result.error().code; };
  const auto hurry = [&](const std::function<ErrorCode()>& body) { call([body] { return in_time(body); }); };
  hurry([&] { return code((*daemon)->compile(*request, {.deadline_ms = 10})); });
  hurry([&] { return code((*daemon)->fetch(*request, {.deadline_ms = 10})); });
  hurry([&] { return code((*daemon)->tune(*request, waiting, {}, 10)); });
  std::stop_source cancelled;
  cancelled.request_stop();
  callers.emplace_back([&] {
    const auto cancel = [&] { return code((*daemon)->compile(*request, {.cancel = cancelled.get_token()})); };
    EXPECT_EQ(in_time(cancel), ErrorCode::kCancelled);
  });
  if (::getenv("KILN_SOAK") != nullptr) {  // half a minute each, at the same time
    call([&] { return code((*daemon)->ping()); });
    call([&] { return code((*daemon)->stats()); });
    call([&] { return code((*daemon)->get(RequestKey{})); });
    call([&] { return code((*daemon)->compile(*request)); });
    call([&] { return code((*daemon)->tune(*request, waiting)); });
    call([&] { return code((*daemon)->get_many(std::vector<RequestKey>(1000)).back()); });
  }
  callers.clear();
  go_on();
  EXPECT_TRUE((*daemon)->ping().ok());
}

TEST_F(Limits, ADaemonThatHangsWhileItStarts) {
  ConnectOptions options = hurried();
  options.kilnd_path = sleeping_kilnd();
  expect_late(options, "did not become ready");
  expect_none_asleep();
  EXPECT_TRUE(Connection::open(patient()).ok()) << "nothing is left that would keep another from starting";
}

// A machine that stands still, as this process sees it: stopped by the first daemon that it starts for longer than that
// daemon has to start.
TEST_F(Limits, AStandstillOfTheMachineIsNoDaemonThatHangs) {
  const std::string stops = path("stops");
  std::ofstream(stops) << "#!/bin/sh\nif mkdir " + path("stopped") +
                              "; then kill -STOP $PPID; sleep 3; kill -CONT $PPID; " +
                              "exec sleep 1000; fi\nexec " KILND_EXECUTABLE " \"$@\"\n";
  ::chmod(stops.c_str(), 0700);
  ConnectOptions options = patient();
  options.kilnd_path = stops;
  options.worker_path = (std::filesystem::path(KILND_EXECUTABLE).parent_path() / "kiln-worker").string();
  options.start_timeout = 2s;
  auto daemon = Connection::open(options);
  EXPECT_TRUE(daemon.ok()) << daemon.error().message;
  EXPECT_TRUE(std::filesystem::exists(path("stopped")));
}

TEST_F(Limits, ADaemonThatHangsOverItsOptions) {
  const std::string fifo = path("kilnd.toml");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ConnectOptions options = hurried();
  options.daemon_args = {"--config", fifo};
  EXPECT_FALSE(in_time([&] { return Connection::open(options); }).ok());
  EXPECT_TRUE(Connection::open(patient()).ok()) << "nothing is left that would keep another from starting";
}

TEST_F(Limits, AChildOverAPipeThatHangs) {
  std::ofstream(path("file")) << "no directory";
  ConnectOptions options = hurried();
  options.runtime_dir = path("file");
  options.kilnd_path = sleeping_kilnd();
  const auto opened = in_time([&] { return Connection::open(options); });
  ASSERT_FALSE(opened.ok());
  expect_none_asleep();
}

// Several clients at once, one of which starts the daemon that hangs: the others wait for it, and no longer.
TEST_F(Limits, AnotherThatStartsADaemonAndHangs) {
  auto directory = wire::open_private_dir(runtime());
  ASSERT_TRUE(directory.ok());
  const wire::UniqueFd lock(::openat(directory->get(), wire::kSpawnLockName, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  expect_late(hurried(), "another process has been starting kilnd for too long");
}

TEST_F(Limits, ManyThreadsOfAClientWaitForOneStart) {
  ClientOptions options{.connect = hurried()};
  options.connect.kilnd_path = sleeping_kilnd();
  options.connect.start_timeout = 1s;
  Client client(options);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      // Half of them wait less than the start may take.
      const GetOptions waits{.deadline_ms = i % 2 ? 50u : 0u};
      const auto fn = in_time([&] { return client.get(kernels::vector_add<>(), waits); });
      ASSERT_FALSE(fn.ok());
      EXPECT_EQ(fn.error().code, ErrorCode::kDeadlineExceeded) << fn.error().message;
    });
  }
  threads.clear();
  expect_none_asleep();
}

// What stands where files are expected opens at once, whatever it is.
TEST_F(Limits, FifosInThePlaceOfFiles) {
  auto directory = wire::open_private_dir(runtime());
  ASSERT_TRUE(directory.ok());
  for (const char* name : {"kilnd.stderr", "kilnd.v1.spawn.lock"}) {
    ASSERT_EQ(::mkfifoat(directory->get(), name, 0600), 0);
  }
  (void)in_time([&] { return Connection::open(hurried()); });
  ConnectOptions options = hurried();
  options.kilnd_path = path("fifo");
  ASSERT_EQ(::mkfifo(options.kilnd_path.c_str(), 0700), 0);
  EXPECT_FALSE(in_time([&] { return Connection::open(options); }).ok());
  EXPECT_EQ(wire::read_build_id(options.kilnd_path), "");
}

}  // namespace
}  // namespace kiln
