// The compile requests of late: when each was where, for `kiln trace`, and the slow ones for `kiln stats`.
#pragma once

#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kiln/dsl/request.h"

namespace kiln::server {

// What a worker said that it began, and when.
using Phases = std::vector<std::pair<std::string, std::chrono::steady_clock::time_point>>;

struct Passage {
  using TimePoint = std::chrono::steady_clock::time_point;

  RequestKey key{};
  std::string trace_id;
  uint64_t client = 0;
  size_t waiters = 0;
  std::vector<std::string> joined = {};  // trace ids of those who waited with it, 64 at most
  std::string outcome;                   // "compile", "memory", "disk", "remote", or an error's code
  uint64_t worker = 0;                   // 0: none was needed
  // Those that were not reached are the epoch.
  TimePoint asked, queued, started, ended;
  Phases phases;
};

// The phases' durations in milliseconds, by name.
nlohmann::json phase_times(const Phases& phases, Passage::TimePoint ended);

class History {
 public:
  static constexpr size_t kPassages = 4096;  // so many are remembered

  void add(Passage passage);

  // The last 128 that took more than a second, newest last.
  nlohmann::json slow() const;
  // The last ones, in the trace event format that Perfetto and chrome://tracing read.
  nlohmann::json trace(size_t last) const;

 private:
  static nlohmann::json summary(const Passage& passage);

  std::deque<Passage> passages_;
  std::deque<nlohmann::json> slow_;
};

}  // namespace kiln::server
