// Signals, idleness, draining.
#include <unistd.h>

#include <csignal>

#include "daemon.h"

namespace kiln::server {
namespace {

constexpr auto kDrainPoll = std::chrono::milliseconds(5);
// After the last job, clients get this long to take what is queued for them.
constexpr auto kFlushTime = std::chrono::milliseconds(1000);

}  // namespace

void Daemon::watch_signals() {
  boost::system::error_code ignored;
  for (int number : {SIGTERM, SIGINT}) signals_.add(number, ignored);
  signals_.async_wait([this](const boost::system::error_code& failed, int number) {
    if (failed) return;
    if (draining_) {
      log_.warn("killed", {{"signal", number}});
      return stop(1);
    }
    drain("signal " + std::to_string(number));
    watch_signals();
  });
}

// A daemon that nobody can reach any more must not hold the lock and the memory for ever.
void Daemon::watch_socket() {
  check_timer_.expires_after(config_.self_check);
  check_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (failed || draining_) return;
    if (!listener_.reachable()) return drain("the socket no longer leads here");
    watch_socket();
  });
}

void Daemon::arm_idle() {
  if (config_.idle_timeout.count() == 0) return;
  idle_timer_.expires_after(config_.idle_timeout);
  idle_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) on_idle();
  });
}

void Daemon::on_idle() {
  if (!connections_.empty() || draining_) return;
  if (!listener_.leave_if_unused()) return;  // somebody came in the last moment
  drain("idle");
}

void Daemon::drain(const std::string& reason) {
  if (std::exchange(draining_, true)) return;
  log_.info("drain", {{"reason", reason}});
  drain_started_ = std::chrono::steady_clock::now();
  listener_.leave();
  idle_timer_.cancel();
  check_timer_.cancel();
  tuner_.stop();
  if (scheduler_) scheduler_->drain();
  poll_drained();
}

void Daemon::poll_drained() {
  auto waited = std::chrono::steady_clock::now() - drain_started_;
  if (scheduler_ && waited >= config_.drain_timeout) scheduler_->abort_all();
  bool jobs = scheduler_ && !scheduler_->idle();
  bool output = false;
  for (const auto& [id, connection] : connections_) output = output || connection->has_output();
  if (!jobs && (!output || waited >= config_.drain_timeout + kFlushTime)) return stop(exit_code_);
  drain_timer_.expires_after(kDrainPoll);
  drain_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) poll_drained();
  });
}

void Daemon::stop(int exit_code) {
  exit_code_ = exit_code;
  listener_.leave();
  io_.stop();
}

}  // namespace kiln::server
