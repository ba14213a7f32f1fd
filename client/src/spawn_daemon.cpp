// How kilnd is started: by one client for all, or by one for itself.
#include "spawn_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <thread>

#include "kiln/wire/channel.h"
#include "kiln/wire/own_file.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/process.h"
#include "kiln/wire/trusted.h"

namespace kiln::client {
namespace {

using wire::Clock;
using wire::UniqueFd;

constexpr auto kLockPoll = std::chrono::milliseconds(2);
constexpr int kReadyFd = 3;

std::vector<std::string> common_arguments(const ConnectOptions& options) {
  std::vector<std::string> out = {options.kilnd_path};
  if (!options.worker_path.empty()) out.insert(out.end(), {"--worker", options.worker_path});
  out.insert(out.end(), options.daemon_args.begin(), options.daemon_args.end());
  return out;
}

// What of this program's environment the daemon has too (docs/reference/service.md, "Start"). It serves other programs
// as well, and what is meant for this one (NOTIFY_SOCKET, LD_PRELOAD, a locale) is none of theirs.
std::vector<std::string> daemon_environment() {
  constexpr std::string_view kOurs = "KILN_";
  constexpr std::string_view kNames[] = {"HOME", "USER", "LOGNAME", "PATH", "TMPDIR", "TZ", "LD_LIBRARY_PATH",
                                         "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
                                         // which of the devices are the user's to measure on
                                         "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MPS_PIPE_DIRECTORY",
                                         "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASAN_OPTIONS", "LSAN_OPTIONS",
                                         "TSAN_OPTIONS", "UBSAN_OPTIONS"};
  std::vector<std::string> out;
  if (::getauxval(AT_SECURE)) return out;  // all of it is of somebody who has fewer rights
  for (char** each = environ; each && *each; ++each) {
    const std::string_view variable = *each, name = variable.substr(0, variable.find('='));
    if (name.starts_with(kOurs) || std::ranges::find(kNames, name) != std::end(kNames)) out.emplace_back(variable);
  }
  return out;
}

// The daemon's one line: "ready", "another …" or "error …". Both of the first mean: connect.
Result<void> await_ready(int fd, const ConnectOptions& options, wire::Deadline deadline) {
  std::string line;
  while (!line.ends_with('\n')) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{fd, POLLIN, 0};
    int ready = ::poll(&wait, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      return error(ErrorCode::kDeadlineExceeded,
                   options.kilnd_path + " did not become ready in time; see " + options.runtime_dir + "/kilnd.stderr");
    }
    char chunk[512];
    ssize_t count = ::read(fd, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return error(ErrorCode::kUnavailable, "kilnd ended while starting; see " + options.runtime_dir + "/kilnd.stderr");
    }
    line.append(chunk, static_cast<size_t>(count));
  }
  line.pop_back();
  if (line.starts_with("error ")) return error(ErrorCode::kUnavailable, "kilnd cannot start: " + line.substr(6));
  return {};
}

// One that hangs while it starts, before it detached from its starter or after: its session is its process group.
void kill_starting(pid_t starter) { ::kill(-starter, SIGKILL); }

Result<void> start_daemon(const ConnectOptions& options, wire::Deadline deadline) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return wire::errno_error(ErrorCode::kResourceExhausted, "pipe", errno);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  if (auto trusted = wire::check_trusted(options.kilnd_path); !trusted) return trusted;
  wire::Program program{
      .command = common_arguments(options), .environment = daemon_environment(), .group = wire::ProcessGroup::kSession};
  program.command.insert(program.command.end(), {"--runtime-dir", options.runtime_dir, "--detach", "--ready-fd", "3"});
  // Where something else lies in its place, nothing is kept.
  const std::string path = options.runtime_dir + "/kilnd.stderr";
  const UniqueFd log(wire::open_own_file(AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_APPEND));
  program.descriptors = {{.number = 0, .path = "/dev/null", .flags = O_RDONLY},
                         {.number = 1, .fd = log.get(), .path = "/dev/null", .flags = O_WRONLY},
                         {.number = 2, .fd = log.get(), .path = "/dev/null", .flags = O_WRONLY},
                         {.number = kReadyFd, .fd = theirs.get()}};
  auto pid = wire::spawn(program);
  if (!pid) return pid.error();
  theirs.reset();
  auto ready = await_ready(ours.get(), options, deadline);
  if (!ready && ready.error().code == ErrorCode::kDeadlineExceeded) kill_starting(*pid);
  // The daemon itself is a child of that process, which ended at once.
  if (!wire::wait_for_exit(*pid, kChildPatience)) {
    kill_starting(*pid);
    (void)wire::wait_for_exit(*pid, kChildPatience);
  }
  return ready;
}

Result<UniqueFd> lock_spawn(const ConnectOptions& options, wire::Deadline deadline) {
  auto dir = wire::open_private_dir(options.runtime_dir);
  if (!dir) return dir;
  const int opened = wire::open_own_file(dir->get(), wire::kSpawnLockName, O_RDWR | O_CREAT);
  if (opened < 0) {
    const std::string path = options.runtime_dir + "/" + wire::kSpawnLockName;
    return error(ErrorCode::kUnavailable, "cannot open " + path + ": " + wire::own_file_reason(-opened));
  }
  UniqueFd lock(opened);
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (Clock::now() > deadline) {
      return error(ErrorCode::kDeadlineExceeded, "another process has been starting kilnd for too long: it holds " +
                                                     options.runtime_dir + "/" + wire::kSpawnLockName);
    }
    std::this_thread::sleep_for(kLockPoll);
  }
  return lock;
}

}  // namespace

Result<UniqueFd> connect_or_start(const ConnectOptions& options, wire::Deadline deadline) {
  auto lock = lock_spawn(options, deadline);
  if (!lock) return lock;
  auto socket = wire::connect_socket(options.runtime_dir, deadline);
  if (socket || socket.error().code != ErrorCode::kNotFound) return socket;
  if (auto started = start_daemon(options, deadline); !started) return started.error();
  return wire::connect_socket(options.runtime_dir, deadline);
}

void end_pipe_child(pid_t pid, std::chrono::steady_clock::duration patience) {
  if (wire::wait_for_exit(pid, patience)) return;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

Result<PipeChild> start_pipe_child(const ConnectOptions& options) {
  auto pair = wire::make_channel_pair();
  if (!pair) return pair.error();
  if (auto trusted = wire::check_trusted(options.kilnd_path); !trusted) return trusted.error();
  wire::Program program{.command = common_arguments(options), .environment = daemon_environment()};
  program.command.insert(program.command.end(), {"--pipe", "--log-level", "warn"});
  program.descriptors = {{.number = 0, .fd = pair->theirs.get()},
                         {.number = 1, .path = "/dev/null", .flags = O_WRONLY}};
  auto pid = wire::spawn(program);
  if (!pid) return pid.error();
  return PipeChild{std::move(pair->ours), *pid};
}

}  // namespace kiln::client
