// Counters of the io thread; only it touches them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "kiln/dsl/result.h"

namespace kiln::server {

struct Metrics {
  uint64_t hits_memory = 0, hits_disk = 0, hits_remote = 0;
  uint64_t misses = 0;      // COMPILE requests found in no tier, those that joined a running compile among them
  uint64_t get_misses = 0;  // GET requests found in no tier
  uint64_t compiles = 0;    // compiles that a worker finished, with code or with an error
  uint64_t joins = 0;
  uint64_t retries = 0;
  uint64_t negative_hits = 0, poison_hits = 0;
  uint64_t verified = 0, verify_mismatches = 0;  // hits that were compiled once more
  uint64_t verify_skipped = 0;                   // hits that were to be compiled again, but too many waited
  uint64_t queue_rejected = 0;
  uint64_t jobs_cancelled = 0;
  uint64_t finished_late = 0;  // compiles that went on without anybody who waited
  uint64_t tune_requests = 0, tuner_starts = 0, tuner_deaths = 0;
  uint64_t workers_spawned = 0, workers_recycled = 0, zygote_restarts = 0;
  std::map<std::string, uint64_t> worker_deaths;  // by cause
  uint64_t memory_shortages = 0;                  // times that the reserve was drawn on
  uint64_t connections = 0;
  std::map<std::string, uint64_t> rejected;  // connections and frames refused, by reason
  std::array<uint64_t, static_cast<size_t>(ErrorCode::kInternal) + 1> errors{};
  struct Histogram {
    std::array<uint64_t, 8> buckets{};  // ≤1, ≤4, ≤16, ≤64, ≤256, ≤1024, ≤4096, more
    double sum = 0;
  };
  std::map<std::string, Histogram> compile_ms;  // by kind of target; "failed" for those without an artifact
  // Jobs that were started, and how long they had waited in the queue.
  uint64_t queued_interactive = 0, queued_background = 0;
  double wait_ms_interactive = 0, wait_ms_background = 0;

  void record_compile(const std::string& kind, std::chrono::steady_clock::duration took);
  nlohmann::json to_json() const;
};

uint64_t resident_bytes();

}  // namespace kiln::server
