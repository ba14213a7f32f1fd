// The fleet's worker of this daemon: `kiln-tune --worker` beside it, for as long as it serves (docs/use/tuning.md, "A
// fleet"). The worker is a client like others; this keeps it alive.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include "config.h"
#include "reports/log.h"

namespace kiln::server {

class TuneWorker {
 public:
  TuneWorker(boost::asio::io_context& io, const Config& config, Log& log);
  ~TuneWorker();

  // Where the daemon is to have one. Started again when it dies, after 1 s, then 2 s, … 60 s; after 1 s again where it
  // had run for a minute.
  void start();
  // It gives its job back and ends; stop() waits for that.
  void drain();
  void stop();

  nlohmann::json stats() const;

 private:
  static constexpr std::chrono::seconds kLeastRest{1}, kMaxRest{60};

  void spawn();
  void watch();

  const Config& config_;
  Log& log_;
  boost::asio::steady_timer timer_;
  pid_t pid_ = -1;
  uint64_t starts_ = 0;
  std::chrono::seconds rest_ = kLeastRest;
  std::chrono::steady_clock::time_point started_{};
  bool draining_ = false;
};

}  // namespace kiln::server
