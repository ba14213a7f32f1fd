// The tuner holds a fleet's secrets: other processes of its user, its runners among them, read neither its memory nor
// its environment.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "batch_helpers.h"
#include "kiln/wire/fd.h"
#include "waiting.h"

namespace kiln::autotune {
namespace {

constexpr uid_t kNobody = 65534;

// Root owns what a process hides from others of its user. Until the program runs that may have other reasons.
bool is_hidden_tuner(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::ifstream file(process + "/comm");
  std::string name;
  struct stat info{};
  return std::getline(file, name) && name == "kiln-tune" && ::stat((process + "/environ").c_str(), &info) == 0 &&
         info.st_uid == 0;
}

TEST(TunerProcess, IsHiddenFromOthers) {
  const ScratchDirectory directory;
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const wire::UniqueFd ours(ends[0]), theirs(ends[1]);
  const std::string program = KILN_BIN_DIR "/kiln-tune", runtime = directory.path();
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(126);
    if (::access(program.c_str(), X_OK) != 0 || ::dup2(theirs.get(), 3) != 3) ::_exit(126);
    ::execl(program.c_str(), "kiln-tune", "--serve", "--runtime-dir", runtime.c_str(), nullptr);
    ::_exit(126);
  }
  int status = 0;
  bool is_there = true;
  const bool hidden = eventually([&] {
    is_there = ::waitpid(child, &status, WNOHANG) == 0;
    return !is_there || is_hidden_tuner(child);
  });
  if (is_there) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  } else if (WIFEXITED(status) && WEXITSTATUS(status) == 126) {
    GTEST_SKIP() << "an ordinary user cannot start the tuner here";
  }
  EXPECT_TRUE(is_there && hidden);
}

}  // namespace
}  // namespace kiln::autotune
