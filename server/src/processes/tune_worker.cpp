#include "processes/tune_worker.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "kiln/wire/process.h"
#include "kiln/wire/trusted.h"

namespace kiln::server {
namespace {

constexpr std::chrono::seconds kLook{1};
// For giving the job back: a round trip to Redis, and the measurement of the moment.
constexpr std::chrono::seconds kPatience{2};

// With the daemon's own environment, and the password that was taken out of it.
wire::Program worker(const Config& config) {
  wire::Program out{.command = {config.tuner_path, "--worker", config.tune_worker, "--targets", config.tune_targets,
                                "--runtime-dir", config.runtime_dir, "--lease",
                                std::to_string(config.tune_lease.count()) + "ms"}};
  auto add = [&out](const char* option, const std::string& value) {
    if (!value.empty()) out.command.insert(out.command.end(), {option, value});
  };
  add("--remote-key", config.remote.key_file);
  add("--remote-password-file", config.remote.password_file);
  if (config.remote.trust) out.command.push_back("--remote-trust");
  if (config.remote.password_file.empty() && !config.remote.password.empty()) {
    out.environment.emplace();
    for (char** each = environ; *each; ++each) out.environment->push_back(*each);
    out.environment->push_back(std::string(redis::kPasswordVariable) + "=" + config.remote.password);
  }
  out.descriptors = {{.number = 0, .path = "/dev/null", .flags = O_RDONLY}, {.number = 1, .fd = STDERR_FILENO}};
  out.group = wire::ProcessGroup::kOwn;
  return out;
}

}  // namespace

TuneWorker::TuneWorker(boost::asio::io_context& io, const Config& config, Log& log)
    : config_(config), log_(log), timer_(io) {}

TuneWorker::~TuneWorker() { stop(); }

void TuneWorker::start() {
  if (config_.tune_worker.empty() || draining_) return;
  spawn();
  watch();
}

void TuneWorker::spawn() {
  if (auto fine = wire::check_trusted(config_.tuner_path); !fine) {
    return log_.warn("tune_worker_failed", {{"reason", fine.error().message}});
  }
  auto pid = wire::spawn(worker(config_));
  if (!pid) return log_.warn("tune_worker_failed", {{"reason", pid.error().message}});
  pid_ = *pid;
  ++starts_;
  started_ = std::chrono::steady_clock::now();
  log_.info("tune_worker_started", {{"worker_pid", pid_}, {"redis", config_.tune_worker}});
}

void TuneWorker::watch() {
  int status = 0;
  const bool gone = pid_ < 0 || ::waitpid(pid_, &status, WNOHANG) == pid_;
  if (gone && pid_ > 0) {
    if (std::chrono::steady_clock::now() - started_ >= kMaxRest) rest_ = kLeastRest;
    log_.warn("tune_worker_died", {{"cause", wire::exit_text(status)}, {"rest_s", rest_.count()}});
    ::kill(-pid_, SIGKILL);  // its runners
    pid_ = -1;
  }
  timer_.expires_after(gone ? rest_ : kLook);
  if (gone) rest_ = std::min(2 * rest_, kMaxRest);
  timer_.async_wait([this, gone](const boost::system::error_code& cancelled) {
    if (cancelled || draining_) return;
    if (gone) spawn();
    watch();
  });
}

void TuneWorker::drain() {
  draining_ = true;
  timer_.cancel();
  if (pid_ > 0) ::kill(pid_, SIGTERM);
}

void TuneWorker::stop() {
  if (!draining_) drain();
  if (pid_ <= 0) return;
  if (!wire::wait_for_exit(pid_, kPatience)) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::kill(-pid_, SIGKILL);
  pid_ = -1;
}

nlohmann::json TuneWorker::stats() const {
  return {{"tune_worker_running", pid_ > 0 ? 1 : 0}, {"tune_worker_starts_total", starts_}};
}

}  // namespace kiln::server
