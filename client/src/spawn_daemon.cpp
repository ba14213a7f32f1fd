// posix_spawn of kilnd: no fork in a process that may have threads and gigabytes of memory.
#include "spawn_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "kiln/wire/channel.h"
#include "kiln/wire/paths.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every unistd.h

namespace kiln::client {
namespace {

using wire::Clock;
using wire::UniqueFd;

constexpr auto kStartTimeout = std::chrono::seconds(5);
constexpr auto kChildPatience = std::chrono::seconds(2);
constexpr auto kLockPoll = std::chrono::milliseconds(2);
constexpr int kReadyFd = 3;

// Owns the two structures of posix_spawn.
struct SpawnPlan {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  std::vector<std::string> arguments;

  SpawnPlan() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    // Masks and ignored signals of the application are not the daemon's.
    sigset_t none, defaults;
    sigemptyset(&none);
    sigfillset(&defaults);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    set_flags(0);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void set_flags(short more) {
    posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | more));
  }

  Result<pid_t> run() {
    std::vector<char*> pointers;
    for (auto& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_t pid = -1;
    int failed = ::posix_spawn(&pid, pointers[0], &actions, &attributes, pointers.data(), environ);
    if (failed) return wire::errno_error(ErrorCode::kUnavailable, "cannot start " + arguments[0], failed);
    return pid;
  }
};

std::vector<std::string> common_arguments(const ConnectOptions& options) {
  std::vector<std::string> out = {options.kilnd_path};
  if (!options.worker_path.empty()) out.insert(out.end(), {"--worker", options.worker_path});
  out.insert(out.end(), options.daemon_args.begin(), options.daemon_args.end());
  return out;
}

// A pipe end that is surely not one of the child's fixed numbers: dup2 onto itself would leave close-on-exec set.
UniqueFd out_of_the_way(UniqueFd fd) { return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 10)); }

// The daemon's one line: "ready", "another …" or "error …". Both of the first mean: connect.
Result<void> await_ready(int fd, const std::string& runtime_dir) {
  std::string line;
  auto deadline = Clock::now() + kStartTimeout;
  while (!line.ends_with('\n')) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{fd, POLLIN, 0};
    int ready = left > 0 ? ::poll(&wait, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return error(ErrorCode::kUnavailable, "kilnd did not become ready within 5 s");
    char chunk[512];
    ssize_t count = ::read(fd, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return error(ErrorCode::kUnavailable, "kilnd ended while starting; see " + runtime_dir + "/kilnd.stderr");
    }
    line.append(chunk, static_cast<size_t>(count));
  }
  line.pop_back();
  if (line.starts_with("error ")) return error(ErrorCode::kUnavailable, "kilnd cannot start: " + line.substr(6));
  return {};
}

Result<void> start_daemon(const ConnectOptions& options) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return wire::errno_error(ErrorCode::kResourceExhausted, "pipe", errno);
  UniqueFd ours(ends[0]), theirs = out_of_the_way(UniqueFd(ends[1]));
  SpawnPlan plan;
  plan.arguments = common_arguments(options);
  plan.arguments.insert(plan.arguments.end(), {"--runtime-dir", options.runtime_dir, "--detach", "--ready-fd", "3"});
  std::string log = options.runtime_dir + "/kilnd.stderr";
  posix_spawn_file_actions_addopen(&plan.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&plan.actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&plan.actions, 1, 2);
  posix_spawn_file_actions_adddup2(&plan.actions, theirs.get(), kReadyFd);
  posix_spawn_file_actions_addclosefrom_np(&plan.actions, kReadyFd + 1);
  plan.set_flags(POSIX_SPAWN_SETSID);
  auto pid = plan.run();
  if (!pid) return pid.error();
  theirs.reset();
  auto ready = await_ready(ours.get(), options.runtime_dir);
  ::waitpid(*pid, nullptr, 0);  // the daemon itself is a child of that process, which ended at once
  return ready;
}

Result<UniqueFd> lock_spawn(const std::string& runtime_dir) {
  auto dir = wire::open_private_dir(runtime_dir);
  if (!dir) return dir;
  UniqueFd lock(::openat(dir->get(), "spawn.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return wire::errno_error(ErrorCode::kUnavailable, "cannot open " + runtime_dir + "/spawn.lock", errno);
  auto deadline = Clock::now() + 2 * kStartTimeout;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (Clock::now() > deadline)
      return error(ErrorCode::kUnavailable, "another process is starting kilnd for too long");
    std::this_thread::sleep_for(kLockPoll);
  }
  return lock;
}

}  // namespace

Result<UniqueFd> connect_or_start(const ConnectOptions& options) {
  auto lock = lock_spawn(options.runtime_dir);
  if (!lock) return lock;
  auto socket = wire::connect_socket(options.runtime_dir);
  if (socket || socket.error().code != ErrorCode::kNotFound) return socket;
  if (auto started = start_daemon(options); !started) return started.error();
  return wire::connect_socket(options.runtime_dir);
}

void end_pipe_child(pid_t pid) {
  auto deadline = Clock::now() + kChildPatience;
  while (::waitpid(pid, nullptr, WNOHANG) == 0) {
    if (Clock::now() > deadline) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Result<PipeChild> start_pipe_child(const ConnectOptions& options) {
  auto pair = wire::make_channel_pair();
  if (!pair) return pair.error();
  UniqueFd theirs = out_of_the_way(std::move(pair->theirs));
  SpawnPlan plan;
  plan.arguments = common_arguments(options);
  plan.arguments.push_back("--pipe");
  plan.arguments.insert(plan.arguments.end(), {"--log-level", "warn"});
  posix_spawn_file_actions_adddup2(&plan.actions, theirs.get(), 0);
  posix_spawn_file_actions_addopen(&plan.actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&plan.actions, 3);
  auto pid = plan.run();
  if (!pid) return pid.error();
  return PipeChild{std::move(pair->ours), *pid};
}

}  // namespace kiln::client
