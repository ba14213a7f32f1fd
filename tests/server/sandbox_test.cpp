// What somebody who has taken over a worker cannot do: each attempt is made from inside a live one.
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>

#include "attempts.h"
#include "kiln/confine/confine.h"
#include "kiln/wire/json.h"
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
    return made->metadata["errno"];
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
  if (needs_landlock(GetParam()) && confine::landlock_version() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  start();
  const int error = error_of("attempt", GetParam());
  EXPECT_TRUE(refused(error)) << GetParam() << ": " << (error ? std::strerror(error) : "it worked");
  expect_untouched();
}

INSTANTIATE_TEST_SUITE_P(Attempts, SandboxTest, ::testing::ValuesIn(attempt_names()),
                         [](const auto& info) { return info.param; });

// A process beside the worker that may run programs, as NVIDIA's assembler needs one.
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

INSTANTIATE_TEST_SUITE_P(Attempts, HelperTest,
                         ::testing::Values("io_uring", "daemon_memory_read", "daemon_memory_write",
                                           "daemon_environment", "process_vm_readv", "process_vm_writev", "pidfd_getfd",
                                           "pidfd_send_signal", "kill_daemon", "kill_daemons_group", "sigqueue_daemon",
                                           "start_up_file", "overwrite_key", "read_key", "list_directory",
                                           "cache_entry", "make_link", "remove_file", "rename_file", "unshare_user",
                                           "clone_user", "userfaultfd", "socket_inet", "connect", "ptrace_attach",
                                           "perf_event", "bpf", "keyctl", "mount", "open_by_handle"),
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
