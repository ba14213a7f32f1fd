// Statement 41: a daemon keeps nothing of the client that happened to start it.
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <set>

#include "bar.h"
#include "kiln/wire/paths.h"
#include "left_out.h"

namespace kiln::service_test {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

class BarFreshStart : public Bar {
 protected:
  // A process that becomes odd, starts the daemon and ends.
  void start_by(const std::function<void()>& become_odd) {
    const pid_t child = ::fork();
    if (child == 0) {
      become_odd();
      ConnectOptions how = options();
      how.autostart = true;
      how.daemon_args = {"--cache-dir", cache(), "--workers", "1", "--idle-timeout", "60"};
      auto daemon = Connection::open(how);
      if (!daemon) std::fprintf(stderr, "%s\n", daemon.error().message.c_str());
      ::_exit(daemon ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  pid_t daemon_process() {
    auto daemon = connect();
    return daemon ? static_cast<pid_t>(daemon->server().pid) : 0;
  }
  static std::string proc(pid_t pid, const std::string& name) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The value of a line "NAME:\tVALUE".
  static std::string status_of(pid_t pid, const std::string& name) {
    const std::string text = "\n" + proc(pid, "status");
    const size_t at = text.find("\n" + name + ":\t");
    if (at == std::string::npos) return "";
    const size_t begin = at + name.size() + 3;
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  static std::vector<std::string> environment_of(pid_t pid) {
    std::vector<std::string> out;
    const std::string all = proc(pid, "environ");
    for (size_t begin = 0; begin < all.size(); begin = all.find('\0', begin) + 1) out.push_back(all.c_str() + begin);
    return out;
  }
  void TearDown() override {
    if (auto left = Connection::open(options())) {
      EXPECT_TRUE((*left)->shutdown());
    }
  }
};

TEST_F(BarFreshStart, Statement41ProcessorsAndPrioritiesAreTheMachines) {
  // What this process may have at most is what the daemon has.
  cpu_set_t before, all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  std::memset(&all, 0xff, sizeof all);
  ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
  const std::string most = status_of(::getpid(), "Cpus_allowed_list");
  ::sched_setaffinity(0, sizeof before, &before);
  start_by([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    }
    ::sched_setaffinity(0, sizeof one, &one);
    const sched_param none{};
    ::sched_setscheduler(0, SCHED_BATCH, &none);
    ::setpriority(PRIO_PROCESS, 0, 7);
    ::syscall(SYS_ioprio_set, 1, 0, 3 << 13);  // idle
  });
  const pid_t daemon = daemon_process();
  EXPECT_EQ(status_of(daemon, "Cpus_allowed_list"), most);
  EXPECT_EQ(::sched_getscheduler(daemon), SCHED_OTHER);
  EXPECT_NE(::syscall(SYS_ioprio_get, 1, daemon) >> 13, 3);
  if (test::root_may("have a niceness back")) {
    EXPECT_EQ(::getpriority(PRIO_PROCESS, static_cast<id_t>(daemon)), 0);
  }
}

// What a program's children have too, for ever: `choom -n 700`, `setarch -R -L`, and prctl(2).
TEST_F(BarFreshStart, Statement41WhatTheKernelPassesOnIsTheMachines) {
  const std::string guesses = status_of(::getpid(), "Speculation_Store_Bypass");
  start_by([&] {
    std::ofstream("/proc/self/oom_score_adj") << 700;
    ::prctl(PR_SET_TIMERSLACK, 40'000'000);
    ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    ::prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE, 0, 0);
    // The thread sanitizer has its own idea of where things lie.
    if (!kSanitized) ::personality(ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT | READ_IMPLIES_EXEC);
  });
  const pid_t daemon = daemon_process();
  const std::vector<pid_t> below = descendants(daemon);
  ASSERT_FALSE(below.empty());
  EXPECT_EQ(std::stoi(proc(daemon, "oom_score_adj")), 0);
  for (const pid_t process : {daemon, below.front()}) {
    EXPECT_EQ(status_of(process, "Speculation_Store_Bypass"), guesses);
    if (const std::string huge = status_of(process, "THP_enabled"); !huge.empty()) {
      EXPECT_EQ(huge, "1");
    }
    if (const std::string slack = proc(process, "timerslack_ns"); !slack.empty()) {
      EXPECT_EQ(std::stoul(slack), 50'000u);
    }
    if (const std::string persona = proc(process, "personality"); !persona.empty()) {
      EXPECT_EQ(std::stoul(persona, nullptr, 16), 0u);
    }
  }
}

// How long a process may run while others wait: `chrt --other --sched-runtime`. Absent: the kernel does not tell.
uint64_t slice_of(pid_t pid) {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes{};
  return ::syscall(SYS_sched_getattr, pid, &attributes, sizeof attributes, 0) == 0 ? attributes.runtime : 0;
}

void take_slice(uint64_t nanoseconds) {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes{48, SCHED_OTHER, 0, 0, 0, nanoseconds, 0, 0};
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

TEST_F(BarFreshStart, Statement41TheSliceIsTheMachines) {
  const uint64_t usual = slice_of(::getpid());
  if (usual == 0) GTEST_SKIP() << "before Linux 6.12 there is no slice of one's own";
  start_by([] {
    take_slice(100'000'000);
    EXPECT_EQ(slice_of(::getpid()), 100'000'000u);
  });
  const pid_t daemon = daemon_process();
  EXPECT_EQ(slice_of(daemon), usual);
  for (const pid_t process : descendants(daemon)) EXPECT_EQ(slice_of(process), usual);
}

// A program lies where it was laid when it was executed: at another place each time.
TEST_F(BarFreshStart, Statement41ADaemonLiesAtRandomAddresses) {
  if (::geteuid() != 0) GTEST_SKIP() << "a daemon shows its memory to root alone";
  if (kSanitized) GTEST_SKIP() << "a sanitizer may want another layout";
  std::set<std::string> places;
  for (int i = 0; i < 3; ++i) {
    start_by([&] {
      ::personality(ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT);
      const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
      ::setrlimit(RLIMIT_STACK, &none);
    });
    const pid_t daemon = daemon_process();
    const std::string maps = proc(daemon, "maps");
    places.insert(maps.substr(0, maps.find('-')));
    EXPECT_TRUE(connect()->shutdown());
    ASSERT_TRUE(eventually([&] { return !alive(daemon); }));
  }
  EXPECT_EQ(places.size(), 3u);
}

// A service with AmbientCapabilities= starts the daemon of its user, whose other programs have none.
TEST_F(BarFreshStart, Statement41CapabilitiesAreNotHandedOn) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can hand one on";
  ASSERT_EQ(::chown(temp_.path().c_str(), kNobody, kNobody), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr unsigned kOne = CAP_NET_BIND_SERVICE;
    ::prctl(PR_SET_KEEPCAPS, 1);
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) ::_exit(2);
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{1u << kOne, 1u << kOne, 1u << kOne}, {}};
    if (::syscall(SYS_capset, &header, sets) != 0) ::_exit(3);
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, kOne, 0, 0) != 0) ::_exit(4);
    ConnectOptions how = options();
    how.autostart = true;
    how.daemon_args = {"--cache-dir", cache(), "--workers", "1"};
    auto daemon = Connection::open(how);
    if (!daemon) std::fprintf(stderr, "%s\n", daemon.error().message.c_str());
    if (!daemon) ::_exit(5);
    bool none = true;
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
      const std::string has = status_of(static_cast<pid_t>((*daemon)->server().pid), set);
      none = none && !has.empty() && std::stoull(has, nullptr, 16) == 0;
    }
    ::_exit((*daemon)->shutdown() && none ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// `ulimit -S -t 2` would end it under others, and 1 MiB a file keep it from logging.
TEST_F(BarFreshStart, Statement41LimitsAreRaised) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs its address space";
  constexpr std::pair<__rlimit_resource, rlim_t> kLimits[] = {
      {RLIMIT_CPU, 2}, {RLIMIT_FSIZE, 1 << 20}, {RLIMIT_AS, rlim_t{8} << 30}, {RLIMIT_NOFILE, 64}};
  start_by([&] {
    for (const auto& [resource, value] : kLimits) {
      rlimit limit{};
      ::getrlimit(resource, &limit);
      limit.rlim_cur = std::min(value, limit.rlim_max);
      ::setrlimit(resource, &limit);
    }
  });
  const pid_t daemon = daemon_process();
  for (const auto& [resource, value] : kLimits) {
    rlimit limit{};
    ASSERT_EQ(::prlimit(daemon, resource, nullptr, &limit), 0);
    EXPECT_TRUE(limit.rlim_cur == limit.rlim_max || limit.rlim_cur == 65536) << resource << ": " << limit.rlim_cur;
  }
}

TEST_F(BarFreshStart, Statement41WhatCannotBeChangedIsSaid) {
  const uid_t user = ::geteuid() == 0 ? kNobody : ::geteuid();
  ASSERT_EQ(::chown(temp_.path().c_str(), user, user), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit file{rlim_t{1} << 30, rlim_t{1} << 30};
    ::setrlimit(RLIMIT_FSIZE, &file);
    const rlimit time{1000, 1000};  // `ulimit -t 1000`: at its end the kernel kills, and asks nobody
    ::setrlimit(RLIMIT_CPU, &time);
    ::setpriority(PRIO_PROCESS, 0, 7);
    if (user != ::geteuid() && (::setgid(user) != 0 || ::setuid(user) != 0)) ::_exit(2);
    ConnectOptions how = options();
    how.autostart = true;
    how.daemon_args = {"--cache-dir", cache(), "--workers", "1"};
    auto daemon = Connection::open(how);
    if (!daemon) std::fprintf(stderr, "%s\n", daemon.error().message.c_str());
    ::_exit(daemon && (*daemon)->shutdown() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  std::string kept;
  for (const auto& line : log_lines("kilnd.log")) {
    if (line["event"] == "inherited") kept = line["kept"].dump();
  }
  EXPECT_NE(kept.find("limit of 1073741824 bytes a file"), std::string::npos) << kept;
  EXPECT_NE(kept.find("limit of 1000 seconds of processor time"), std::string::npos) << kept;
  EXPECT_NE(kept.find("niceness 7"), std::string::npos) << kept;
}

TEST_F(BarFreshStart, Statement41TheEnvironmentIsByList) {
  const std::string path = temp_ / "notify";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  wire::UniqueFd manager(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(::bind(manager.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  start_by([&] {
    for (const char* name : {"LD_PRELOAD", "LD_AUDIT", "NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "LC_ALL",
                             "MALLOC_ARENA_MAX", "OMP_NUM_THREADS", "MY_SECRET"}) {
      ::setenv(name, path.c_str(), 1);
    }
    ::setenv("KILN_OF_MINE", "kept", 1);
    ::setenv("XDG_DATA_HOME", temp_.path().c_str(), 1);
  });
  const pid_t daemon = daemon_process();
  const std::vector<std::string> has = environment_of(daemon);
  EXPECT_NE(std::find(has.begin(), has.end(), "KILN_OF_MINE=kept"), has.end());
  EXPECT_NE(std::find(has.begin(), has.end(), "XDG_DATA_HOME=" + temp_.path()), has.end());
  for (const std::string& each : has) EXPECT_EQ(each.find(path), std::string::npos) << each;
  EXPECT_TRUE(connect()->shutdown());
  ASSERT_TRUE(eventually([&] { return !alive(daemon); }));
  char heard[64];
  EXPECT_EQ(::recv(manager.get(), heard, sizeof heard, 0), -1) << "the client's service manager was told something";
}

TEST_F(BarFreshStart, Statement41NothingElseIsLeft) {
  start_by([&] {
    ::umask(0);
    (void)!::chdir(temp_.path().c_str());
    ::dup2(STDERR_FILENO, 50);
    ::signal(SIGTERM, SIG_IGN);
    ::signal(SIGCHLD, SIG_IGN);
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
  });
  const pid_t daemon = daemon_process();
  EXPECT_EQ(status_of(daemon, "Umask"), "0077");
  EXPECT_EQ(std::stoull(status_of(daemon, "SigBlk"), nullptr, 16), 0u);
  constexpr uint64_t kOrdinary = (uint64_t{1} << 31) - 1;  // the C library has two of the others
  uint64_t meaningless = 0;
  for (int number :
       {SIGPIPE, SIGXFSZ, SIGXCPU, SIGQUIT, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGPOLL, SIGPWR, SIGSTKFLT})
    meaningless |= uint64_t{1} << (number - 1);
  EXPECT_EQ(std::stoull(status_of(daemon, "SigIgn"), nullptr, 16) & kOrdinary, meaningless);
  const std::string root = "/proc/" + std::to_string(daemon);
  EXPECT_EQ(fs::read_symlink(root + "/cwd"), "/");
  EXPECT_FALSE(fs::exists(fs::symlink_status(root + "/fd/50")));
  EXPECT_EQ(::getsid(daemon) == ::getsid(0), false);
}

}  // namespace
}  // namespace kiln::service_test
