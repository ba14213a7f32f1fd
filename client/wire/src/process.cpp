#include "kiln/wire/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <thread>

#include "kiln/wire/channel.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every unistd.h

namespace kiln::wire {
namespace {

constexpr int kOutOfTheWay = 10;  // above all numbers that a program is given

// Owns the two structures of posix_spawn.
struct SpawnPlan {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  SpawnPlan() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
};

short group_flag(ProcessGroup group) {
  switch (group) {
    case ProcessGroup::kCallers:
      return 0;
    case ProcessGroup::kOwn:
      return POSIX_SPAWN_SETPGROUP;
    case ProcessGroup::kSession:
      return POSIX_SPAWN_SETSID;
  }
  return 0;
}

void set_attributes(SpawnPlan& plan, ProcessGroup group) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  sigdelset(&all, SIGXFSZ);  // who ignores it has children whose writes fail as its own do
  posix_spawnattr_setsigmask(&plan.attributes, &none);
  posix_spawnattr_setsigdefault(&plan.attributes, &all);
  posix_spawnattr_setpgroup(&plan.attributes, 0);
  posix_spawnattr_setflags(&plan.attributes,
                           static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group_flag(group)));
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<pid_t> spawn(const Program& program) {
  SpawnPlan plan;
  set_attributes(plan, program.group);
  // Copies, so that no descriptor stands where another is to go; a dup2 onto itself would leave close-on-exec set.
  std::vector<UniqueFd> copies;
  int highest = 2;
  for (const Inherited& one : program.descriptors) {
    highest = std::max(highest, one.number);
    if (one.fd < 0) {
      posix_spawn_file_actions_addopen(&plan.actions, one.number, one.path.c_str(), one.flags, 0600);
      continue;
    }
    copies.emplace_back(::fcntl(one.fd, F_DUPFD_CLOEXEC, kOutOfTheWay));
    if (!copies.back()) return errno_error(ErrorCode::kResourceExhausted, "cannot copy a descriptor", errno);
    posix_spawn_file_actions_adddup2(&plan.actions, copies.back().get(), one.number);
  }
  posix_spawn_file_actions_addclosefrom_np(&plan.actions, highest + 1);
  std::vector<std::string> command = program.command;
  std::vector<std::string> environment = program.environment.value_or(std::vector<std::string>());
  std::vector<char*> arguments = pointers(command), variables = pointers(environment);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, arguments[0], &plan.actions, &plan.attributes, arguments.data(),
                                   program.environment ? variables.data() : environ);
  if (failed != 0) return errno_error(ErrorCode::kUnavailable, "cannot start " + command[0], failed);
  return pid;
}

std::optional<int> wait_for_exit(pid_t pid, std::chrono::steady_clock::duration patience) {
  const auto deadline = Clock::now() + patience;
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return status;
}

std::string exit_text(int status) {
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace kiln::wire
