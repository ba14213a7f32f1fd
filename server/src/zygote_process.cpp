// Starts kiln-worker with a scrubbed environment and speaks with it.
#include "zygote_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "kiln/wire/json.h"

namespace kiln::server {
namespace {

constexpr int kWorkerChannelFd = 3;

// Builds must not depend on the environment of whoever started the daemon. What is left serves the loader, temporary
// files, the sanitizers, and where to find NVIDIA's assembler.
std::vector<std::string> scrubbed_environment() {
  std::vector<std::string> out = {"LC_ALL=C", "TZ=UTC"};
  for (const char* name : {"LD_LIBRARY_PATH", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS",
                           "PATH", "KILN_NVJITLINK", "KILN_PTXAS"}) {
    if (const char* value = ::getenv(name)) out.push_back(std::string(name) + "=" + value);
  }
  return out;
}

Result<pid_t> spawn(const std::string& path, int channel) {
  std::vector<std::string> environment = scrubbed_environment();
  std::vector<char*> variables;
  for (auto& variable : environment) variables.push_back(variable.data());
  variables.push_back(nullptr);
  std::string program = path, flag = "--zygote";
  char* arguments[] = {program.data(), flag.data(), nullptr};

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, 2, 1);  // standard output may be a client's channel
  posix_spawn_file_actions_adddup2(&actions, channel, kWorkerChannelFd);
  posix_spawn_file_actions_addclosefrom_np(&actions, kWorkerChannelFd + 1);
  // A group of its own, so that a terminal's interrupt goes to the daemon alone, which then drains.
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (int number : {SIGPIPE, SIGTERM, SIGINT, SIGHUP}) sigaddset(&defaults, number);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  int failed = ::posix_spawn(&pid, program.c_str(), &actions, &attributes, arguments, variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return wire::errno_error(ErrorCode::kUnavailable, "cannot start " + path, failed);
  return pid;
}

std::string describe_exit(const nlohmann::json& object) {
  wire::Fields fields(object);
  if (object.contains("signal")) return "signal " + std::to_string(fields.number("signal"));
  if (object.contains("code")) return "exit code " + std::to_string(fields.number("code"));
  return fields.text("message", "unknown");
}

}  // namespace

ZygoteProcess::ZygoteProcess(asio::io_context& io, const Config& config, std::shared_ptr<Bytes> scratch,
                             Handlers handlers)
    : io_(io), config_(config), scratch_(std::move(scratch)), handlers_(std::move(handlers)) {}

ZygoteProcess::~ZygoteProcess() { stop(); }

Result<void> ZygoteProcess::start() {
  auto pair = wire::make_channel_pair();
  if (!pair) return pair.error();
  // The child's end must not be number 3 itself: a dup2 onto itself would leave close-on-exec set.
  wire::UniqueFd theirs(::fcntl(pair->theirs.get(), F_DUPFD_CLOEXEC, 10));
  auto pid = spawn(config_.worker_path, theirs.get());
  if (!pid) return pid.error();
  pid_ = *pid;
  socket_ =
      std::make_shared<FrameSocket>(io_, std::move(pair->ours), scratch_, FrameSocket::Options{.accept_fds = true});
  socket_->start({.frame = [this](wire::Frame frame) { on_frame(std::move(frame)); },
                  .closed = [this](const CloseReason& reason) { on_closed(reason); }});
  return {};
}

void ZygoteProcess::spawn_worker(uint64_t worker, wire::UniqueFd worker_end) {
  if (!socket_) return;
  nlohmann::json limits = {{"memory_bytes", config_.worker_memory},
                           {"cpu_seconds", config_.worker_cpu_seconds},
                           {"max_jobs", config_.worker_jobs},
                           {"max_rss_bytes", config_.worker_rss}};
  socket_->send({.type = wire::Type::kSpawn,
                 .request_id = worker,
                 .json = wire::dump(limits),
                 .fd = std::make_shared<const wire::UniqueFd>(std::move(worker_end))});
}

void ZygoteProcess::on_frame(wire::Frame frame) {
  auto object = wire::parse_object(frame.json);
  if (!object) return;
  wire::Fields fields(*object);
  switch (frame.type()) {
    case wire::Type::kZygoteHello:
      return handlers_.hello(fields.text("builder_id"), fields.text("native_target"));
    case wire::Type::kSpawned:
      return handlers_.spawned(frame.id(), static_cast<pid_t>(fields.number("pid")), std::move(frame.fd));
    case wire::Type::kExited:
      return handlers_.exited(frame.id(), describe_exit(*object));
    default:
      return;
  }
}

void ZygoteProcess::on_closed(const CloseReason& reason) {
  auto keep = std::move(socket_);  // its code is still on the stack
  int status = 0;
  std::string cause = reason.message;
  ::kill(pid_, SIGKILL);  // it closed its channel, so it is of no use even if it still runs
  if (::waitpid(pid_, &status, 0) == pid_) {
    if (WIFSIGNALED(status)) cause = "signal " + std::to_string(WTERMSIG(status));
    if (WIFEXITED(status)) cause = "exit code " + std::to_string(WEXITSTATUS(status));
  }
  pid_ = -1;
  handlers_.died(cause);
}

void ZygoteProcess::stop() {
  if (!socket_) return;
  socket_->close();
  socket_ = nullptr;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace kiln::server
