// kilnd as one object: its parts, and its life from election to exit.
//
// Start: take the runtime directory's lock → start the zygote → at its hello open the cache, listen, say "ready".
// End (signal, request, idle, replaced, unreachable): give up the socket's name and the lock, so that a successor can
// start at once; let running compiles finish for a while; flush; exit.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "cache/store.h"
#include "connections/client_connection.h"
#include "connections/idle_longest.h"
#include "connections/listener.h"
#include "directory_watch.h"
#include "processes/service_manager.h"
#include "processes/tune_worker.h"
#include "processes/tuner_process.h"
#include "processes/worker_pool.h"
#include "reports/metrics_port.h"
#include "reports/reports.h"
#include "scheduling/scheduler.h"

namespace kiln::server {

class Daemon {
 public:
  // Reads the configuration again, for SIGHUP.
  using Reread = std::function<Result<Config>()>;

  Daemon(Config config, Reread reread, MemoryReserve& reserve);
  ~Daemon();

  // The exit code of the process.
  int run();

 private:
  Result<void> start();
  void serve();
  void relieve_memory();
  void on_builder(std::string builder_id, std::string native_target);
  Result<void> open_for_clients(const std::string& native_target);
  Result<void> on_connection(wire::UniqueFd fd);
  void take_in(const std::shared_ptr<ClientConnection>& connection, uint64_t id);
  bool find_place(uint64_t owner, uint64_t wanted);
  void give_back_place(uint64_t owner);
  bool on_moved(uint64_t id, uint64_t before);
  void on_connection_closed(uint64_t id);
  void watch_signals();
  void on_signal(int number);
  void reload();
  void watch_socket();
  void check_socket();
  void feed_watchdog();
  void arm_idle();
  void on_idle();
  void drain(const std::string& reason);
  void poll_drained();
  void stop(int exit_code);
  void tell_starter(const std::string& line);
  std::chrono::milliseconds time_to_write() const;
  void fail(const Error& failure);
  nlohmann::json stats() const;

  Config config_;
  Reread reread_;
  MemoryReserve& reserve_;
  std::chrono::steady_clock::time_point said_short_;  // of memory
  ServiceManager manager_;
  ClientShares shares_{io_};  // before what its users may live in
  asio::io_context io_{1};
  Log log_;
  Metrics metrics_;
  History history_;
  PosixFs fs_;
  std::shared_ptr<Bytes> scratch_;
  WorkerPool pool_;
  TunerProcess tuner_;
  TuneWorker tune_worker_;
  std::optional<Store> store_;
  std::optional<Scheduler> scheduler_;
  std::optional<Services> services_;
  Listener listener_;
  DirectoryWatch names_;
  Reports reports_;
  MetricsPort metrics_port_;
  std::map<uint64_t, std::shared_ptr<ClientConnection>> connections_;
  std::unordered_map<uint64_t, IdleLongest<ClientConnection>> idle_;  // by owner; 0: of whoever has most
  uint64_t next_connection_ = 1;
  size_t most_connections_ = SIZE_MAX;  // of one process, as far as there are descriptors
  asio::signal_set signals_;
  asio::steady_timer idle_timer_, check_timer_, drain_timer_, watchdog_timer_;
  std::chrono::steady_clock::time_point started_, drain_started_;
  wire::UniqueFd starter_;
  bool draining_ = false;
  int exit_code_ = 0;
};

}  // namespace kiln::server
