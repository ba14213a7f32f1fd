// How workers end: aborted, crashed, idle for long, or together with the zygote.
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "processes/worker_pool.h"

namespace kiln::server {
namespace {

// Exit code 77 of kiln-worker: an allocation failed.
constexpr const char* kOutOfMemory = "exit code 77";
const std::string kOutOfTime = "signal " + std::to_string(SIGXCPU);
// Between two attempts to start a zygote: a program that was away is found again soon.
constexpr std::chrono::seconds kMaxRestart{2};
constexpr int kZygotesPatience = 3;  // times a client's
constexpr std::chrono::seconds kRestless{1};

void send_signal(int pidfd, int number) { ::syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0); }

}  // namespace

std::chrono::nanoseconds processor_time(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  if (pid <= 0 || ::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

void WorkerPool::on_spawned(WorkerId id, pid_t pid, wire::UniqueFd pidfd) {
  Worker* worker = find(id);
  if (!worker) return;
  worker->pid = pid;
  worker->pidfd = std::move(pidfd);
  if (worker->doomed) doom(*worker, SIGKILL);  // aborted before there was anything to signal
}

void WorkerPool::on_channel_closed(WorkerId id, const CloseReason& reason) {
  Worker* worker = find(id);
  if (!worker) return;
  worker->ended = true;
  // Without its channel it is of no use, whatever it does now. First, for its words may find no memory.
  if (!worker->exited && !worker->retiring) doom(*worker, SIGKILL);
  if (reason.kind == CloseReason::kProtocol) worker->complaint = "wrote garbage: " + reason.message;
  if (reason.kind == CloseReason::kMidFrame) worker->complaint = reason.message;
  finish_if_gone(*worker);
}

void WorkerPool::on_exited(WorkerId id, std::string cause) {
  Worker* worker = find(id);
  if (!worker) return;
  worker->exited = true;
  worker->exit_cause = std::move(cause);
  // A worker that never was has an open channel still.
  if (worker->pid == 0 && !worker->ended) {
    worker->ended = true;
    worker->socket->close();
  }
  finish_if_gone(*worker);
}

void WorkerPool::abort(WorkerId id) {
  Worker* worker = find(id);
  if (!worker || !worker->done) return;
  worker->done = nullptr;
  doom(*worker, SIGTERM);
}

void WorkerPool::doom(Worker& worker, int signal) {
  worker.doomed = true;
  if (!worker.pidfd) return;
  send_signal(worker.pidfd.get(), signal);
  if (signal != SIGKILL) expect_end(worker);
}

// It was told to end, or has said that it does.
void WorkerPool::expect_end(Worker& worker) {
  worker.kill_timer = std::make_unique<asio::steady_timer>(io_, config_.kill_after);
  worker.kill_timer->async_wait([this, id = worker.id](const boost::system::error_code& failed) {
    if (failed) return;
    if (Worker* late = find(id); late && late->pidfd) send_signal(late->pidfd.get(), SIGKILL);
  });
}

// It reads end-of-file and exits.
void WorkerPool::dismiss(Worker& worker) {
  worker.retiring = true;
  worker.ended = true;
  worker.socket->close();
  expect_end(worker);
  ++metrics_.workers_recycled;
}

void WorkerPool::finish_if_gone(Worker& worker) {
  if (!worker.ended || !worker.exited) return;
  JobOutcome outcome;
  outcome.kind = JobOutcome::kWorkerDied;
  outcome.out_of_memory = worker.exit_cause == kOutOfMemory;
  outcome.out_of_time = worker.exit_cause == kOutOfTime;
  outcome.cause = worker.complaint.empty() ? worker.exit_cause : worker.complaint + " (" + worker.exit_cause + ")";
  outcome.never_ran = worker.pid == 0;
  outcome.phases = std::move(worker.phases);
  bool had_job = worker.done != nullptr;
  words_.hear();
  if (had_job) record_death(worker);
  Done done = std::move(worker.done);
  workers_.erase(worker.id);
  if (done) done(std::move(outcome));
  handlers_.slot_free();
}

void WorkerPool::record_death(const Worker& worker) {
  std::string cause = !worker.complaint.empty()           ? "protocol"
                      : worker.exit_cause == kOutOfMemory ? "out of memory"
                      : worker.exit_cause == kOutOfTime   ? "out of processor time"
                                                          : worker.exit_cause;
  ++metrics_.worker_deaths[cause];
  log_.warn("worker_died", {{"worker", worker.id},
                            {"worker_pid", worker.pid},
                            {"cause", worker.exit_cause},
                            {"complaint", worker.complaint},
                            {"phase", worker.phase}});
  const auto now = std::chrono::steady_clock::now();
  const auto rest = storm_.died(now, config_.crash_storm);
  if (rest.count() == 0) return;
  // Something is wrong beyond single requests. Hits go on.
  log_.warn("crash_storm", {{"deaths", storm_.deaths()}, {"backoff_s", rest.count()}});
  backoff_timer_.expires_at(now + rest);
  backoff_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) handlers_.slot_free();
  });
}

bool WorkerPool::backing_off() const { return storm_.rests(std::chrono::steady_clock::now()); }

void WorkerPool::on_zygote_died(const std::string& reason) {
  restart_timer_.expires_after(restart_delay_);
  restart_delay_ = std::min<std::chrono::milliseconds>(restart_delay_ * 2, kMaxRestart);
  restart_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed && !stopped_) restart_zygote();
  });
  log_.warn("zygote_died", {{"cause", reason}});
  if (!std::exchange(greeted_, false)) unavailable_ = config_.worker_path + " does not start: " + reason;
  ++metrics_.zygote_restarts;
  // The kernel killed the workers together with their parent.
  std::vector<Done> orphans;
  for (auto& [id, worker] : workers_) {
    worker.socket->close();
    if (worker.done) orphans.push_back(std::move(worker.done));
  }
  workers_.clear();
  for (auto& done : orphans) {
    JobOutcome outcome;
    outcome.cause = "the zygote died: " + reason;
    outcome.never_ran = true;
    done(std::move(outcome));
  }
  handlers_.start_failed(reason);
}

void WorkerPool::restart_zygote() {
  if (auto started = zygote_.start(words_.end()); !started) {
    log_.warn("zygote_start_failed", {{"reason", started.error().message}});
    on_zygote_died(started.error().message);
    return;
  }
  await_hello();
  handlers_.slot_free();
}

// One that hangs is of no more use than none. Where this process comes late itself, as on a machine that stood still,
// the zygote may not have had the time.
void WorkerPool::await_hello() {
  const auto patience = kZygotesPatience * config_.hello_timeout;
  const auto due = std::chrono::steady_clock::now() + patience;
  restart_timer_.expires_at(due);
  restart_timer_.async_wait([this, due, patience](const boost::system::error_code& failed) {
    if (failed || stopped_ || greeted_) return;
    if (std::chrono::steady_clock::now() - due > patience / 4) return await_hello();
    zygote_.stop();
    on_zygote_died("no hello in time");
  });
}

// Idle workers hold memory; one that had nothing to do for long goes, and so does one that found itself something.
void WorkerPool::watch_idle() {
  auto period = std::clamp<std::chrono::milliseconds>(config_.worker_idle / 4, std::chrono::milliseconds(20),
                                                      std::chrono::seconds(1));
  idle_timer_.expires_after(period);
  idle_timer_.async_wait([this, period](const boost::system::error_code& failed) {
    if (failed || stopped_) return;
    watch_idle();  // first, for what follows may find no memory
    restart_stopped_zygote(period);
    auto before = std::chrono::steady_clock::now() - config_.worker_idle;
    for (auto& [id, worker] : workers_) {
      if (!worker.idle()) continue;
      if (worker.since <= before) {
        dismiss(worker);
      } else if (processor_time(worker.pid) - worker.idle_cpu > kRestless) {
        log_.warn("worker_restless", {{"worker", worker.id}, {"worker_pid", worker.pid}});
        doom(worker, SIGKILL);
      }
    }
  });
}

// It was asked for, or has died.
bool WorkerPool::Worker::is_unheard() const {
  if (exited) return false;
  pollfd end{pidfd.get(), POLLIN, 0};
  return !pidfd || ::poll(&end, 1, 0) > 0;
}

// Forking takes a millisecond and a death is seen at once: a zygote that says nothing for long is stopped or hangs. Its
// time is counted in looks, so that it has it also where the machine stands still.
void WorkerPool::restart_stopped_zygote(std::chrono::milliseconds passed) {
  bool is_stopped = false;
  for (auto& [id, worker] : workers_) {
    worker.unheard = worker.is_unheard() ? worker.unheard + passed : std::chrono::milliseconds(0);
    is_stopped |= worker.unheard > kZygotesPatience * config_.hello_timeout;
  }
  if (!is_stopped) return;
  zygote_.stop();
  on_zygote_died("it neither started a worker nor reported the end of one in time");
}

}  // namespace kiln::server
