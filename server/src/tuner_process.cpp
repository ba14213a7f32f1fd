// Starts kiln-tune where it is wanted, and passes frames on.
#include "tuner_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "kiln/wire/json.h"
#include "kiln/wire/messages.h"

namespace kiln::server {
namespace {

constexpr int kChannelFd = 3;
// A tuner that died so often without an answer is left alone for a while.
constexpr unsigned kManyDeaths = 3;
constexpr std::chrono::seconds kRest{60};

// With the daemon's own environment: drivers, home and data directories are found there.
Result<pid_t> spawn(const Config& config, int channel) {
  std::string program = config.tuner_path, serve = "--serve", flag = "--runtime-dir", directory = config.runtime_dir;
  char* arguments[] = {program.data(), serve.data(), flag.data(), directory.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, 2, 1);  // standard output may be a client's channel
  posix_spawn_file_actions_adddup2(&actions, channel, kChannelFd);
  posix_spawn_file_actions_addclosefrom_np(&actions, kChannelFd + 1);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (int number : {SIGPIPE, SIGTERM, SIGINT, SIGHUP}) sigaddset(&defaults, number);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, program.c_str(), &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return wire::errno_error(ErrorCode::kUnavailable, "cannot start " + program, failed);
  return pid;
}

}  // namespace

TunerProcess::TunerProcess(asio::io_context& io, const Config& config, std::shared_ptr<Bytes> scratch, Log& log,
                           Metrics& metrics)
    : io_(io), config_(config), scratch_(std::move(scratch)), log_(log), metrics_(metrics) {}

TunerProcess::~TunerProcess() { stop(); }

Result<void> TunerProcess::start() {
  if (stopped_) return error(ErrorCode::kDraining, "the daemon is about to exit");
  if (config_.tuner_path.empty()) return error(ErrorCode::kUnavailable, "this daemon has no tuner (kiln-tune)");
  if (deaths_ >= kManyDeaths && std::chrono::steady_clock::now() - died_ < kRest) {
    return error(ErrorCode::kUnavailable, "the tuner died " + std::to_string(deaths_) + " times in a row and rests");
  }
  auto pair = wire::make_channel_pair();
  if (!pair) return pair.error();
  // The child's end must not be number 3 itself: a dup2 onto itself would leave close-on-exec set.
  const wire::UniqueFd theirs(::fcntl(pair->theirs.get(), F_DUPFD_CLOEXEC, 10));
  auto pid = spawn(config_, theirs.get());
  if (!pid) return pid.error();
  pid_ = *pid;
  ++metrics_.tuner_starts;
  log_.info("tuner_started", {{"pid", pid_}});
  socket_ = std::make_shared<FrameSocket>(io_, std::move(pair->ours), scratch_, FrameSocket::Options{});
  socket_->start({.frame = [this](const wire::Frame& frame) { on_frame(frame); },
                  .closed = [this](const CloseReason& reason) { on_closed(reason); }});
  return {};
}

void TunerProcess::submit(const Requester& requester, std::string json, SharedBytes body, Reply reply) {
  ++metrics_.tune_requests;
  if (!socket_) {
    if (auto started = start(); !started) return reply(started.error());
  }
  const uint64_t id = next_++;
  waiting_.emplace(id, Waiting{requester, std::move(reply)});
  socket_->send({.type = wire::Type::kTune, .request_id = id, .json = std::move(json), .body = std::move(body)});
}

void TunerProcess::on_frame(const wire::Frame& frame) {
  deaths_ = 0;
  auto found = waiting_.find(frame.id());
  if (found == waiting_.end()) return;  // the client left
  const Reply reply = std::move(found->second.reply);
  waiting_.erase(found);
  if (frame.type() == wire::Type::kTuned) return reply(frame.json);
  reply(wire::parse_error(frame.json));
}

void TunerProcess::forget(uint64_t id) {
  waiting_.erase(id);
  if (socket_) socket_->send({.type = wire::Type::kCancel, .request_id = id});
}

void TunerProcess::cancel(const Requester& requester) {
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (it->second.requester != requester) continue;
    const Reply reply = std::move(it->second.reply);
    forget(it->first);
    return reply(error(ErrorCode::kCancelled, "cancelled"));
  }
}

void TunerProcess::forget_client(uint64_t client) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const uint64_t id = it->first;
    const bool theirs = it->second.requester.client == client;
    ++it;
    if (theirs) forget(id);
  }
}

void TunerProcess::on_closed(const CloseReason& reason) {
  auto keep = std::move(socket_);  // its code is still on the stack
  std::string cause = reason.message.empty() ? "it closed its channel" : reason.message;
  ::kill(-pid_, SIGKILL);  // with its runners; of no use even if it still runs
  int status = 0;
  if (::waitpid(pid_, &status, 0) == pid_) {
    if (WIFSIGNALED(status)) cause = "signal " + std::to_string(WTERMSIG(status));
    if (WIFEXITED(status)) cause = "exit code " + std::to_string(WEXITSTATUS(status));
  }
  pid_ = -1;
  ++deaths_;
  died_ = std::chrono::steady_clock::now();
  ++metrics_.tuner_deaths;
  log_.warn("tuner_died", {{"cause", cause}, {"waiting", waiting_.size()}});
  fail_all(error(ErrorCode::kUnavailable, "the tuner died: " + cause));
}

void TunerProcess::fail_all(const Error& failure) {
  auto waiting = std::exchange(waiting_, {});
  for (auto& [id, each] : waiting) each.reply(failure);
}

void TunerProcess::stop() {
  stopped_ = true;
  if (!socket_) return;
  socket_->close();
  socket_ = nullptr;
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
  fail_all(error(ErrorCode::kDraining, "the daemon is about to exit"));
}

nlohmann::json TunerProcess::stats() const {
  return {{"tuner_running", socket_ ? 1 : 0}, {"tune_waiters", waiting_.size()}};
}

}  // namespace kiln::server
