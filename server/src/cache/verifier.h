// `--verify N`: of a hundred hits N are compiled once more behind the answer, when a worker has nothing else to do. A
// compiler that does not give the same code for the same request is found here, and not by those whose machines differ.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <random>

#include "cache/memory_cache.h"
#include "processes/worker_pool.h"
#include "reports/metrics.h"

namespace kiln::server {

// Of the io thread.
class Verifier {
 public:
  Verifier(asio::io_context& io, const Config& config, Log& log, Metrics& metrics, WorkerPool& pool)
      : config_(config), log_(log), metrics_(metrics), pool_(pool), deadline_(io) {}

  // Somebody was served this entry.
  void on_hit(const SharedBlob& blob);
  // Begins with the next entry if no other work is there for a worker.
  void pump();

 private:
  void on_outcome(const SharedBlob& blob, const JobOutcome& outcome);

  const Config& config_;
  Log& log_;
  Metrics& metrics_;
  WorkerPool& pool_;
  asio::steady_timer deadline_;
  std::minstd_rand random_{std::random_device()()};
  std::deque<SharedBlob> waiting_;  // few: hits come faster than compiles
  bool running_ = false;
  uint64_t serial_ = 0;
};

}  // namespace kiln::server
