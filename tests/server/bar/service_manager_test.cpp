// Statements 24 and 28: a daemon that a service manager starts, which gives it its socket.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "bar.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/process.h"

namespace kiln::service_test {
namespace {

namespace fs = std::filesystem;

class BarServiceManager : public Bar {
 protected:
  std::string socket_path() const { return runtime() + "/" + wire::kSocketName; }
  // Says that it gives a socket, and gives the one that there is.
  Result<pid_t> start_with(const wire::UniqueFd& socket, const std::string& environment,
                           const std::string& more = "") const {
    std::string line = "LISTEN_PID=$$ LISTEN_FDS=1 " + environment + " exec " + KILN_TEST_KILND +
                       " --foreground --log-level warn" + more + " --runtime-dir " + runtime();
    for (const std::string& word : daemon_arguments()) line += " " + word;
    wire::Program program{.command = {"/bin/sh", "-c", line}};
    if (socket) program.descriptors = {{.number = 3, .fd = socket.get()}};
    return wire::spawn(program);
  }
  void TearDown() override { shut_down_what_runs(); }
};

// A socket of the service manager's, on which it is told things.
wire::UniqueFd notify_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  wire::UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  timeval patience{60, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}

std::string told(const wire::UniqueFd& fd) {
  char text[200];
  const ssize_t count = ::recv(fd.get(), text, sizeof text, 0);
  return count < 0 ? "nothing" : std::string(text, static_cast<size_t>(count));
}

TEST_F(BarServiceManager, Statement28ServiceManagersGiveTheSocketAndAreTold) {
  auto notified = notify_socket(temp_ / "notify");
  auto dir = wire::open_private_dir(runtime()).value();
  auto socket = wire::listen_socket(runtime(), dir.get(), 16).value();
  // Clients come before the daemon does.
  auto early = wire::connect_socket(runtime());
  ASSERT_TRUE(early);
  auto pid = start_with(socket, "NOTIFY_SOCKET=" + (temp_ / "notify") + " WATCHDOG_USEC=100000");
  ASSERT_TRUE(pid);
  EXPECT_EQ(told(notified), "READY=1");
  EXPECT_EQ(told(notified), "WATCHDOG=1");
  EXPECT_EQ(told(notified), "WATCHDOG=1");
  wire::Channel first(std::move(*early));
  EXPECT_EQ(first.read(wire::Clock::now() + kPatience)->type(), wire::Type::kWelcome);
  EXPECT_EQ(connect()->server().pid, *pid);
  EXPECT_TRUE(connect()->fetch(order("bytes")));
  ::kill(*pid, SIGTERM);
  std::string last;
  for (int i = 0; i < 100 && last != "STOPPING=1"; ++i) last = told(notified);
  EXPECT_EQ(last, "STOPPING=1");
  auto status = wire::wait_for_exit(*pid, kPatience);
  ASSERT_TRUE(status);
  EXPECT_EQ(*status, 0);
  EXPECT_TRUE(fs::exists(socket_path())) << "the socket is the manager's";
  fs::remove(socket_path());
  figure(28, "LISTEN_FDS: a client that came first was served; READY, WATCHDOG and STOPPING heard on NOTIFY_SOCKET");
}

// A socket unit that is enabled while a daemon that a client had started still runs: asking whether that one answers
// would reach the manager's socket, whose daemon then left before it was ready, again and again.
TEST_F(BarServiceManager, Statement28AManagersSocketNeedsNoElection) {
  start();
  const pid_t first = connect()->server().pid;
  auto notified = notify_socket(temp_ / "notify");
  auto dir = wire::open_private_dir(runtime()).value();
  auto socket = wire::listen_socket(runtime(), dir.get(), 16).value();
  auto pid = start_with(socket, "NOTIFY_SOCKET=" + (temp_ / "notify"));
  ASSERT_TRUE(pid);
  EXPECT_EQ(told(notified), "READY=1");
  EXPECT_NE(*pid, first);
  EXPECT_EQ(connect()->server().pid, *pid);
  EXPECT_TRUE(connect()->fetch(order("bytes")));
  ::kill(*pid, SIGTERM);
  EXPECT_TRUE(wire::wait_for_exit(*pid, 60s));
}

// A service manager's socket that somebody has removed: the daemon leaves, so that the lock is free for one that can be
// reached. What lies at its path by then is not its own to touch.
TEST_F(BarServiceManager, Statement24AManagersSocketThatIsGoneIsNoticed) {
  fs::create_directory(runtime());
  fs::permissions(runtime(), fs::perms::owner_all);
  for (const char* instead : {"", "file"}) {
    wire::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(socket_path().size(), sizeof address.sun_path);
    std::strcpy(address.sun_path, socket_path().c_str());
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(socket.get(), 16), 0);
    auto pid = start_with(socket, "", " --self-check 0.05");
    ASSERT_TRUE(pid);
    EXPECT_EQ(connect()->server().pid, *pid);
    std::this_thread::sleep_for(200ms);
    EXPECT_TRUE(connect()->ping()) << "it stays as long as its path leads to it";
    fs::remove(socket_path());
    if (*instead) std::ofstream(socket_path()) << instead;
    Stopwatch gone;
    auto status = wire::wait_for_exit(*pid, 60s);
    ASSERT_TRUE(status);
    EXPECT_EQ(*status, 0);
    judge_time("ms until a daemon leaves whose given socket is gone", gone.ms(), 1000);
    EXPECT_EQ(fs::exists(socket_path()), *instead != 0);
    fs::remove(socket_path());
  }
}

// A period of no length is fed as one of 100 ms.
TEST_F(BarServiceManager, Statement28AWatchdogsPeriodIsNotTooShort) {
  auto notified = notify_socket(temp_ / "notify");
  auto pid = start_with({}, "NOTIFY_SOCKET=" + (temp_ / "notify") + " WATCHDOG_USEC=1");
  ASSERT_TRUE(pid);
  EXPECT_EQ(told(notified), "READY=1");
  EXPECT_EQ(told(notified), "WATCHDOG=1");
  Stopwatch passed;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(told(notified), "WATCHDOG=1");
  EXPECT_GE(passed.ms(), 400);
  ::kill(*pid, SIGTERM);
  EXPECT_TRUE(wire::wait_for_exit(*pid, 60s));
}

// Nobody could be served over it.
TEST_F(BarServiceManager, Statement28ASocketOfAnotherFamilyIsAnError) {
  wire::UniqueFd network(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::listen(network.get(), 16), 0);  // at a port of the kernel's choice
  wire::UniqueFd packets(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_EQ(::bind(packets.get(), reinterpret_cast<sockaddr*>(&address), sizeof address.sun_family), 0);
  ASSERT_EQ(::listen(packets.get(), 16), 0);
  for (const wire::UniqueFd* socket : {&network, &packets}) {
    const std::string said = temp_ / "said";
    auto pid = start_with(*socket, "", " 2> " + said);
    ASSERT_TRUE(pid);
    auto status = wire::wait_for_exit(*pid, 20s);
    if (!status) ::kill(*pid, SIGKILL);
    ASSERT_TRUE(status) << "it serves";
    EXPECT_EQ(wire::exit_text(*status), "exit code 1");
    std::ifstream file(said);
    const std::string words(std::istreambuf_iterator<char>(file), {});
    EXPECT_NE(words.find("LISTEN_FDS"), std::string::npos) << words;
  }
}

TEST_F(BarServiceManager, Statement28AWordOfASocketThatIsNotThereIsNoSocket) {
  auto pid = start_with({}, "");
  ASSERT_TRUE(pid);
  EXPECT_TRUE(eventually([&] { return fs::exists(socket_path()); }));
  EXPECT_EQ(connect()->server().pid, *pid);
  ::kill(*pid, SIGTERM);
  EXPECT_TRUE(wire::wait_for_exit(*pid, 60s));
}

}  // namespace
}  // namespace kiln::service_test
