// What somebody who has taken over a worker cannot do: each attempt is made from inside a live one.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>

#include "attempts.h"
#include "kiln/confine/confine.h"
#include "kiln/wire/json.h"
#include "kiln/wire/process.h"
#include "service_fixture.h"

namespace kiln::service_test {
namespace {

namespace fs = std::filesystem;

class SandboxTest : public ServiceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    fs::create_directories(prey() + "/cache");
    std::ofstream(prey() + "/key") << "secret";
  }
  std::string prey() const { return temp_ / "prey"; }

  // Of an attempt in a worker, or in a helper beside it.
  int error_of(const char* who, const std::string& name) {
    const std::string where = std::to_string(::getpgid(daemon_.pid())) + " " + prey();
    auto made = connect()->compile(order(who, static_cast<uint64_t>(daemon_.pid()), name, where));
    if (!made) {
      ADD_FAILURE() << made.error().message;
      return 0;
    }
    return static_cast<int>(made->metadata.constexprs["errno"]);
  }
  void expect_untouched() {
    std::ifstream key(prey() + "/key");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(key), {}), "secret");
    EXPECT_EQ(std::distance(fs::directory_iterator(prey()), fs::directory_iterator()), 2);
    EXPECT_TRUE(fs::is_empty(prey() + "/cache"));
    EXPECT_TRUE(alive(daemon_.pid()));
  }
};

bool refused(int error) { return error == EPERM || error == EACCES || error == ENOSYS; }

TEST_P(SandboxTest, IsRefusedToAWorker) {
  if (kSanitized && GetParam() == "own_memory") GTEST_SKIP() << "address space is not limited under a sanitizer";
  start();
  const int error = error_of("attempt", GetParam());
  EXPECT_TRUE(refused(error)) << GetParam() << ": " << (error ? std::strerror(error) : "it worked");
  expect_untouched();
}

INSTANTIATE_TEST_SUITE_P(Attempts, SandboxTest, ::testing::ValuesIn(attempt_names()),
                         [](const auto& info) { return info.param; });

// What Landlock refuses where there is no filter of system calls, by the version that does so first.
struct Refused {
  const char* attempt;
  int since = 1;
};
constexpr Refused kByLandlock[] = {{"read_key"},         {"overwrite_key"}, {"start_up_file"},  {"cache_entry"},
                                   {"list_directory"},   {"nameless_file"}, {"make_directory"}, {"make_link"},
                                   {"make_fifo"},        {"remove_file"},   {"rename_file"},    {"execve"},
                                   {"truncate_file", 3}, {"kill_daemon", 6}};

std::vector<std::string> refused_by_landlock() {
  std::vector<std::string> out;
  for (const Refused& each : kByLandlock) out.emplace_back(each.attempt);
  return out;
}

// A worker has both, and the filter comes first: it hides that the other is there.
class LandlockTest : public SandboxTest {
 protected:
  void SetUp() override {
    SandboxTest::SetUp();
    ::setenv("KILN_PTXAS", "no filter", 1);  // the fake worker's word for it
  }
  void TearDown() override { ::unsetenv("KILN_PTXAS"); }
};

TEST_P(LandlockTest, HoldsAWorkerWithoutTheFilter) {
  const int version = confine::landlock_version();
  if (version == 0) GTEST_SKIP() << "this kernel has no Landlock";
  const auto* wanted = std::ranges::find(kByLandlock, GetParam(), &Refused::attempt);
  if (version < wanted->since) GTEST_SKIP() << "this kernel's Landlock is of version " << version;
  start();
  ASSERT_EQ(error_of("attempt", "look_at_file"), 0) << "the filter is there";
  const int error = error_of("attempt", GetParam());
  EXPECT_TRUE(refused(error)) << GetParam() << ": " << (error ? std::strerror(error) : "it worked");
  expect_untouched();
}

INSTANTIATE_TEST_SUITE_P(Attempts, LandlockTest, ::testing::ValuesIn(refused_by_landlock()),
                         [](const auto& info) { return info.param; });

// One that is compiled again, by `kiln reproduce`, may be one that has killed workers.
TEST_F(SandboxTest, WhatIsReproducedIsConfinedToo) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's report opens files";
  for (const char* name : {"read_key", "start_up_file", "fork", "execve", "socket_inet", "kill_daemon"}) {
    const auto request =
        order("attempt", static_cast<uint64_t>(::getpid()), name, std::to_string(::getpgrp()) + " " + prey());
    const auto size = static_cast<uint32_t>(request.canonical.size());
    std::ofstream file(temp_ / "request", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&size), sizeof size);
    for (const auto& part : {request.canonical, request.debug}) {
      file.write(reinterpret_cast<const char*>(part.data()), static_cast<std::streamsize>(part.size()));
    }
    file.close();
    auto again = wire::spawn({.command = {KILN_TEST_WORKER, "--compile", temp_ / "request", temp_ / "code"}});
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(wire::wait_for_exit(*again, kPatience), 0);
    const int error = std::ifstream(temp_ / "code", std::ios::binary).get();
    EXPECT_TRUE(refused(error)) << name << ": " << error;
  }
}

// What a linker is given lies in memory, and has but the name of a descriptor. Nothing else is opened, with or without
// Landlock.
TEST(OpeningTest, WhatIsOpenIsOpenedAgainAndNothingElse) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int file = ::memfd_create("open", MFD_CLOEXEC);
    const std::string name = "/proc/self/fd/" + std::to_string(file);
    if (!confine::gain_no_rights() || !confine::call_only({.opening = confine::Opening::kNone})) ::_exit(1);
    const int again = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
    char byte = 0;
    if (again < 0 || ::write(file, "x", 1) != 1 || ::pread(again, &byte, 1, 0) != 1 || byte != 'x') ::_exit(2);
    for (const std::string& other :
         {name + "/x", name + "9", std::string("/proc/self/fd/"), std::string("/proc/self/fd"),
          std::string("/proc/self/fd/-1"), std::string("/dev/null"), std::string("")}) {
      if (::open(other.c_str(), O_RDONLY) >= 0 || ::openat(file, other.c_str(), O_RDONLY) >= 0) ::_exit(3);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << wire::exit_text(status);
}

// Likewise with looks: a C library may make fstat() of one at a descriptor without a name.
TEST(OpeningTest, WhatIsOpenIsLookedAtAndNothingElse) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int file = ::memfd_create("look", MFD_CLOEXEC);
    const std::string name = "/proc/self/fd/" + std::to_string(file);
    if (::ftruncate(file, 7) != 0 || !confine::gain_no_rights() ||
        !confine::call_only({.opening = confine::Opening::kNone})) {
      ::_exit(1);
    }
    const auto looks = [](int at, const char* path, int flags) {
      struct stat about{};
      const long error = ::syscall(SYS_newfstatat, at, path, &about, flags);
      return error == 0 && about.st_size != 7 ? EIO : error == 0 ? 0 : errno;
    };
    if (looks(file, "", AT_EMPTY_PATH) != 0 || looks(AT_FDCWD, name.c_str(), 0) != 0) ::_exit(2);
    if (looks(-1, "", AT_EMPTY_PATH) != EBADF || looks(AT_FDCWD, nullptr, 0) != EFAULT) ::_exit(3);
    if (looks(file, "", 0) != EACCES || looks(AT_FDCWD, name.c_str(), AT_SYMLINK_NOFOLLOW) != EACCES) ::_exit(4);
    for (const char* other : {"/", "/proc/self/fd/", "/proc/self/fd/3/x", "/dev/null", "none", "/none"}) {
      if (looks(AT_FDCWD, other, 0) != EACCES || looks(file, other, AT_EMPTY_PATH) != EACCES) ::_exit(5);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << wire::exit_text(status);
}

// A process beside the worker that becomes NVIDIA's assembler on its word.
class HelperTest : public SandboxTest {
 protected:
  void SetUp() override {
    SandboxTest::SetUp();
    ::setenv("KILN_PTXAS", "helper", 1);  // the fake worker's word for it
  }
  void TearDown() override { ::unsetenv("KILN_PTXAS"); }
};

TEST_P(HelperTest, IsRefusedToAHelper) {
  if (confine::landlock_version() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  start();
  const int error = error_of("attempt_beside", GetParam());
  EXPECT_TRUE(refused(error)) << GetParam() << ": " << (error ? std::strerror(error) : "it worked");
  expect_untouched();
}

std::vector<std::string> attempts_but(const std::vector<std::string>& allowed) {
  std::vector<std::string> out = attempt_names();
  std::erase_if(out, [&](const std::string& name) { return std::ranges::count(allowed, name) != 0; });
  return out;
}

// What it is for; and the assembler's loader looks for its libraries, which Landlock does not hinder.
const std::vector<std::string> kHelpersWork = {
    "execve", "change_directory", "look_at_file", "look_for_file", "look_more_closely", "ask_for_access", "read_link"};

INSTANTIATE_TEST_SUITE_P(Attempts, HelperTest, ::testing::ValuesIn(attempts_but(kHelpersWork)),
                         [](const auto& info) { return info.param; });

// Neither it nor who has started it.
TEST_F(HelperTest, LeavesNobodyBehind) {
  if (confine::landlock_version() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  start({"--workers", "1"});
  auto lasting = connect()->compile(order("lasting_beside"));
  ASSERT_TRUE(lasting) << lasting.error().message;
  const auto helper = static_cast<pid_t>(lasting->metadata.constexprs["errno"]);
  ASSERT_TRUE(alive(helper));
  EXPECT_FALSE(connect()->compile(order("exit", 3)));
  EXPECT_TRUE(eventually([&] { return !alive(helper); }));
}

// A process confined as a GPU's runner is, whose driver calls what it likes; and one about to become an assembler.
class DriverTest : public SandboxTest {
 protected:
  void SetUp() override {
    SandboxTest::SetUp();
    prey_ = ::fork();
    if (prey_ == 0) {
      ::setpgid(0, 0);
      confine::hide_from_others();
      for (;;) ::pause();
    }
  }
  void TearDown() override {
    ::kill(prey_, SIGKILL);
    ::waitpid(prey_, nullptr, 0);
  }

  int error_of_child(const std::string& name, const std::function<Result<void>()>& confine) const {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends[0], 3);
      ::_exit(confine() ? attempt(name, {.daemon = prey_, .group = prey_, .directory = prey()}) : 255);
    }
    ::close(ends[0]);
    ::close(ends[1]);
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  }

  pid_t prey_ = -1;
};

Result<void> confine_as_driver() {
  confine::hide_from_others();
  for (int resource : {RLIMIT_AS, RLIMIT_FSIZE, RLIMIT_CPU, RLIMIT_NOFILE, RLIMIT_CORE, RLIMIT_MSGQUEUE}) {
    if (resource == RLIMIT_AS && kSanitized) continue;
    rlimit some{1u << 30, 1u << 30};
    (void)::setrlimit(static_cast<__rlimit_resource_t>(resource), &some);
  }
  if (auto done = confine::gain_no_rights(); !done) return done;
  if (auto done = confine::open_only({.read = {"/"}, .write = {"/dev/null"}}); !done) return done;
  return confine::reach_nobody();
}

TEST_P(DriverTest, IsRefusedToADriver) {
  if (confine::landlock_version() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  if (kSanitized && GetParam() == "own_memory") GTEST_SKIP() << "address space is not limited under a sanitizer";
  const int error = error_of_child(GetParam(), confine_as_driver);
  EXPECT_TRUE(refused(error)) << GetParam() << ": " << (error ? std::strerror(error) : "it worked");
  std::ifstream key(prey() + "/key");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(key), {}), "secret");
  EXPECT_TRUE(alive(prey_));
}

// Reading is what its inputs need; sockets to itself, its descriptors' flags, threads and anonymous files are a
// driver's own. What root has opened of a hidden process' directory it cannot list.
const std::vector<std::string> kDriversWork = {"look_at_file",   "look_for_file",      "look_more_closely",
                                               "ask_for_access", "read_link",          "read_key",
                                               "list_directory", "change_directory",   "socket_unix",
                                               "socket_pair",    "write_over_the_log", "daemon_descriptors",
                                               "thread",         "anonymous_file"};

INSTANTIATE_TEST_SUITE_P(Attempts, DriverTest, ::testing::ValuesIn(attempts_but(kDriversWork)),
                         [](const auto& info) { return info.param; });

using AssemblerTest = DriverTest;

TEST_P(AssemblerTest, StaysAlone) {
  const auto confine_it = [] {
    if (auto done = confine::gain_no_rights(); !done) return done;
    if (auto done = confine::run_programs(); !done) return done;
    return confine::stay_alone();
  };
  const int error = error_of_child(GetParam(), confine_it);
  EXPECT_TRUE(refused(error)) << GetParam() << ": " << (error ? std::strerror(error) : "it worked");
}

INSTANTIATE_TEST_SUITE_P(Attempts, AssemblerTest,
                         ::testing::Values("fork", "clone3", "process_with_shared_memory", "sibling", "clone_user",
                                           "thread"),
                         [](const auto& info) { return info.param; });

// Exit codes of a child that looks.
constexpr int kHidden = 0, kSeen = 1, kNotStarted = 2;

class HidingTest : public ServiceTest {
 protected:
  // Root owns what a process hides from others of its user.
  int look() {
    if (daemon_.start(runtime(), daemon_arguments()) != "ready") return kNotStarted;
    auto connection = Connection::open(options());
    if (!connection || !(*connection)->compile(order("bytes"))) return kNotStarted;
    std::vector<pid_t> all = descendants(daemon_.pid());
    all.push_back(daemon_.pid());
    const bool hidden = std::ranges::all_of(all, [](pid_t pid) {
      struct stat info{};
      return ::stat(("/proc/" + std::to_string(pid) + "/environ").c_str(), &info) == 0 && info.st_uid == 0;
    });
    connection->reset();
    daemon_.kill_now();
    return all.size() < 3 ? kNotStarted : hidden ? kHidden : kSeen;
  }
};

TEST_F(HidingTest, DaemonZygoteAndWorkersAreHidden) {
  if (::geteuid() != 0) {
    EXPECT_EQ(look(), kHidden);
    return;
  }
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::chown(temp_.path().c_str(), kNobody, kNobody), 0);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::setresuid(kNobody, kNobody, kNobody) == 0 ? look() : kNotStarted);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == kNotStarted) GTEST_SKIP() << "an ordinary user cannot start a daemon here";
  EXPECT_EQ(WEXITSTATUS(status), kHidden);
}

using TuneFromElsewhereTest = ServiceTest;

// Exit code of the child: the error's.
[[noreturn]] void tune_from(const std::string& runtime) {
  RawPeer peer(runtime);
  (void)peer.read();
  peer.hello();
  const std::string body(8, '\0');
  peer.send({.type = wire::Type::kTune, .request_id = 1, .json = "{}", .body = {std::as_bytes(std::span(body))}});
  auto answer = peer.read();
  ::_exit(answer && answer->type() == wire::Type::kError ? static_cast<int>(wire::parse_error(answer->json).code)
                                                         : 255);
}

// Absent: there can be no namespaces here.
std::optional<ErrorCode> tune_from_another_namespace(const std::string& runtime) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int flags = ::geteuid() == 0 ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID;
    if (::unshare(flags) != 0) ::_exit(254);
    const pid_t inner = ::fork();
    if (inner == 0) tune_from(runtime);
    int status = 0;
    ::waitpid(inner, &status, 0);
    ::_exit(WEXITSTATUS(status));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 254) return std::nullopt;
  return static_cast<ErrorCode>(WEXITSTATUS(status));
}

TEST_F(TuneFromElsewhereTest, AnotherProcessNamespaceIsRefused) {
  start({"--tuner", ""});
  const auto refused = tune_from_another_namespace(runtime());
  if (!refused) GTEST_SKIP() << "process namespaces need root or user namespaces";
  EXPECT_EQ(*refused, ErrorCode::kPermissionDenied);
  auto here = connect()->tune(order("bytes"), {});
  ASSERT_FALSE(here);
  EXPECT_EQ(here.error().code, ErrorCode::kUnavailable) << here.error().message;  // there is no tuner
}

TEST_F(TuneFromElsewhereTest, AnotherProcessNamespaceMayBeAllowed) {
  auto arguments = daemon_arguments();
  arguments.insert(arguments.end(), {"--tuner", "", "--tune-from-containers"});
  ASSERT_EQ(daemon_.start(runtime(), arguments), "ready");
  const auto allowed = tune_from_another_namespace(runtime());
  if (!allowed) GTEST_SKIP() << "process namespaces need root or user namespaces";
  EXPECT_EQ(*allowed, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace kiln::service_test
