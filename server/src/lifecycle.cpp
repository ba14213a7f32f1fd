// Signals, idleness, draining.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <utility>

#include "daemon.h"

namespace kiln::server {
namespace {

constexpr auto kDrainPoll = std::chrono::milliseconds(5);
// After the last job, clients get this long to take what is queued for them.
constexpr auto kFlushTime = std::chrono::milliseconds(1000);

}  // namespace

void Daemon::watch_signals() {
  boost::system::error_code ignored;
  signals_.clear(ignored);
  for (int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) signals_.add(number, ignored);
  signals_.async_wait([this](const boost::system::error_code& failed, int number) {
    if (failed) return;
    watch_signals();
    on_signal(number);
  });
}

void Daemon::on_signal(int number) {
  if (number == SIGHUP) {
    reload();
  } else if (number == SIGUSR1) {
    if (services_) log_.info("state", {{"figures", stats()}});
  } else if (draining_) {
    // At once: the names were given up when the drain began, workers end with their parent, entries are whole or
    // absent.
    log_.warn("killed", {{"signal", number}});
    std::_Exit(1);
  } else {
    drain("signal " + std::to_string(number));
  }
}

// A configuration that cannot be read changes nothing.
void Daemon::reload() {
  auto next = reread_();
  if (!next) return log_.warn("reload_failed", {{"reason", next.error().message}});
  server::reload(config_, *next);
  log_.set_level(config_.log_level);
  if (store_) store_->set_limits(config_.memory_bytes, config_.cache_bytes);
  if (scheduler_) scheduler_->reload();
  if (connections_.empty() && listener_.listening() && !draining_) arm_idle();
  log_.info("reloaded", {{"config", to_json(config_)}});
}

void Daemon::feed_watchdog() {
  if (manager_.watchdog_period().count() == 0) return;
  manager_.notify("WATCHDOG=1");
  watchdog_timer_.expires_after(manager_.watchdog_period() / 2);
  watchdog_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) feed_watchdog();
  });
}

// A daemon that nobody can reach any more must not hold the lock and the memory for ever. Where the runtime directory
// cannot be watched, the timer finds out.
void Daemon::watch_socket() {
  check_timer_.expires_after(config_.self_check);
  check_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (failed) return;
    check_socket();
    if (!draining_) watch_socket();
  });
}

void Daemon::check_socket() {
  if (!draining_ && !listener_.reachable()) drain("the socket no longer leads here");
}

void Daemon::arm_idle() {
  idle_timer_.cancel();
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
  manager_.notify("STOPPING=1");
  drain_started_ = std::chrono::steady_clock::now();
  listener_.leave();
  metrics_port_.close();
  idle_timer_.cancel();
  check_timer_.cancel();
  names_.stop();
  tune_worker_.drain();  // before compiles are refused, which it would take for its job's failure
  tuner_.stop();
  if (scheduler_) scheduler_->drain();
  poll_drained();
}

void Daemon::poll_drained() {
  auto waited = std::chrono::steady_clock::now() - drain_started_;
  if (scheduler_ && waited >= config_.drain_timeout) scheduler_->abort_all();
  bool jobs = scheduler_ && !scheduler_->idle();
  bool output = reports_.busy() || (scheduler_ && scheduler_->storing());
  for (const auto& [id, connection] : connections_) output = output || connection->has_output();
  const bool remote = store_ && store_->writes_remote() && waited < config_.drain_timeout;
  if (!jobs && !remote && (!output || waited >= config_.drain_timeout + kFlushTime)) return stop(exit_code_);
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
