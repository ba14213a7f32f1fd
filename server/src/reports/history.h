// The requests of late: when each was where, for `kiln trace`, and the slow ones for `kiln stats`.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
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

  const char* type = "COMPILE";  // or "GET", "TUNE": the frame's
  RequestKey key{};
  std::string trace_id;
  uint64_t client = 0;
  size_t waiters = 0;
  std::vector<std::string> joined = {};  // trace ids of those who waited with it, 64 at most
  std::string outcome;                   // "compile", "memory", "disk", "remote", "tuned", or an error's code
  uint64_t worker = 0;                   // 0: none was needed
  // Those that were not reached are the epoch.
  TimePoint asked, queued, started, ended;
  Phases phases;
};

// A key that was asked for by GET or GET_MANY. Of these a hundred thousand may come in a second.
struct Lookup {
  RequestKey key{};
  uint64_t connection = 0, request = 0;  // its trace id
  uint64_t client = 0;
  const char* outcome = "";  // "memory", "disk" or "NOT_FOUND"
  Passage::TimePoint asked, ended;
};

// The phases' durations in milliseconds, by name.
nlohmann::json phase_times(const Phases& phases, Passage::TimePoint ended);

// What was remembered at one moment; any thread may look at it.
struct Moment {
  std::string start;  // of the daemon
  std::vector<std::shared_ptr<const Passage>> passages;
  std::vector<Lookup> lookups;  // the oldest first
};

// The last ones to end, of both kinds, in the trace event format that Perfetto and chrome://tracing read: JSON.
std::string trace_text(const Moment& moment, size_t last);

class History {
 public:
  // So many of either kind are remembered: those who are served from memory do not push the compiles out.
  static constexpr size_t kPassages = 4096, kLookups = 4096;

  // `start`: of the trace ids of requests that come without one, START-CLIENT-REQUEST.
  explicit History(std::string start = "0") : start_(std::move(start)), lookups_(kLookups) {}

  std::string trace_id(uint64_t connection, uint64_t request) const;
  void add(Passage passage);
  void add(const Lookup& lookup);
  // One that was answered where it came in: from memory, or refused.
  void add_at_once(const char* type, const RequestKey& key, const std::string& trace_id, uint64_t client,
                   std::string outcome);

  // Those that take memory of their own.
  void forget_passages() { passages_.clear(); }

  // The last 128 that took more than a second, lookups too, newest last.
  nlohmann::json slow() const;
  Moment moment() const;
  std::string trace(size_t last) const { return trace_text(moment(), last); }

 private:
  void note_slow(const Passage& passage);

  std::string start_;
  std::deque<std::shared_ptr<const Passage>> passages_;
  std::vector<Lookup> lookups_;  // a ring
  size_t lookup_count_ = 0;
  std::deque<nlohmann::json> slow_;
};

}  // namespace kiln::server
