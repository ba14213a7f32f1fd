// Starts kiln-worker with a scrubbed environment and speaks with it.
#include "processes/zygote_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <vector>

#include "kiln/wire/json.h"
#include "kiln/wire/process.h"
#include "kiln/wire/trusted.h"

namespace kiln::server {
namespace {

constexpr int kWorkerChannelFd = 3;

// Builds must not depend on the environment of whoever started the daemon. What is left serves the loader, temporary
// files, the sanitizers, where to find NVIDIA's assembler, and where to keep what is measured of this machine.
std::vector<std::string> scrubbed_environment(const Config& config) {
  std::vector<std::string> out = {"LC_ALL=C", "TZ=UTC"};
  if (config.log_level == "debug" || config.log_level == "info") out.push_back("KILN_WORKER_LOG=-");
  if (!config.crash_dir.empty()) out.push_back("KILN_WORKER_CRASH=" + config.crash_dir + "/kiln-worker.crash");
  if (!config.cache_dir.empty()) out.push_back("KILN_WORKER_CACHE=" + config.cache_dir);
  for (const char* name : {"LD_LIBRARY_PATH", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS",
                           "PATH", "KILN_NVJITLINK", "KILN_PTXAS"}) {
    if (const char* value = ::secure_getenv(name)) out.push_back(std::string(name) + "=" + value);
  }
  return out;
}

wire::Program zygote(const Config& config, int channel, int words) {
  return {.command = {config.worker_path, "--zygote"},
          .environment = scrubbed_environment(config),
          .descriptors = {{.number = 0, .path = "/dev/null", .flags = O_RDONLY},
                          {.number = 1, .fd = words},
                          {.number = 2, .fd = words},
                          {.number = kWorkerChannelFd, .fd = channel}},
          .group = wire::ProcessGroup::kOwn};  // a terminal's interrupt goes to the daemon alone, which then drains
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

Result<void> ZygoteProcess::start(int words) try {
  // Each time: the place may have been opened to others since the last.
  if (auto fine = wire::check_trusted(config_.worker_path); !fine) return fine;
  auto pair = wire::make_channel_pair();
  if (!pair) return pair.error();
  auto ours = watched(io_, std::move(pair->ours));
  if (!ours) return ours.error();
  auto socket = std::make_shared<FrameSocket>(io_, std::move(*ours), scratch_,
                                              FrameSocket::Options{.limits = {.max_body = 0}, .accept_fds = true});
  auto pid = wire::spawn(zygote(config_, pair->theirs.get(), words));
  if (!pid) return pid.error();
  pid_ = *pid;
  socket_ = std::move(socket);
  socket_->start({.frame = [this](wire::Frame frame) { on_frame(std::move(frame)); },
                  .closed = [this](const CloseReason& reason) { on_closed(reason); }});
  return {};
} catch (const std::bad_alloc&) {
  stop();
  return error(ErrorCode::kResourceExhausted, "out of memory");
}

void ZygoteProcess::spawn_worker(uint64_t worker, wire::UniqueFd worker_end, uint64_t memory_bytes, uint64_t jobs) {
  if (!socket_) return;
  // As text at once: nlohmann's destructor allocates, and ends the process where there is no memory.
  const std::string limits = "{\"memory_bytes\":" + std::to_string(memory_bytes) +
                             ",\"cpu_seconds\":" + std::to_string(config_.worker_cpu_seconds) +
                             ",\"max_jobs\":" + std::to_string(jobs) +
                             ",\"max_rss_bytes\":" + std::to_string(config_.worker_rss) + "}";
  socket_->send({.type = wire::Type::kSpawn,
                 .request_id = worker,
                 .json = limits,
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
  if (::waitpid(pid_, &status, 0) == pid_) cause = wire::exit_text(status);
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
