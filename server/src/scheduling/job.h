// A compile in the making and those who wait for it.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <compare>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/memory_cache.h"
#include "kiln/wire/messages.h"
#include "reports/history.h"

namespace kiln::server {

struct Served {
  SharedBlob blob;
  Tier tier = Tier::kMemory;
  std::optional<bool> durable = {};  // of requests that ask for it: it is on disk for good
};
using Reply = std::function<void(Result<Served>)>;

// Which request of which connection.
struct WaiterId {
  uint64_t client = 0, request = 0;
  auto operator<=>(const WaiterId&) const = default;
};

struct CompileJob {
  WaiterId waiter;
  uint64_t owner = 0;  // the process that asks
  RequestKey key{};
  SharedBytes body;       // as it came: u32 canonical length ‖ canonical ‖ debug
  size_t debug_hash = 0;  // of its debug section
  wire::Priority priority = wire::Priority::kInteractive;
  std::chrono::milliseconds deadline{0};
  std::string trace_id;
  std::string client_name;  // as it called itself in its hello
  bool durable = false;
  uint64_t memory_bytes = 0;  // of its worker; 0: the default, which the scheduler puts in its place
};

struct Waiter {
  WaiterId id;
  uint64_t serial = 0;
  uint64_t owner = 0;  // the process that asks
  std::string trace_id;
  bool interactive = false;
  Reply reply;
  std::unique_ptr<boost::asio::steady_timer> deadline;
};

struct Job {
  enum class State { kLookup, kQueued, kRunning, kGone };

  uint64_t id = 0;
  RequestKey key{};
  SharedBytes body;
  size_t debug_hash = 0;
  wire::Priority priority = wire::Priority::kInteractive;
  uint64_t client = 0;  // the process that asked first; the queue is fair between them
  std::string trace_id, client_name;
  State state = State::kLookup;
  unsigned attempts = 0;
  uint64_t worker = 0;
  std::chrono::steady_clock::time_point asked_at, queued_at, started_at;
  Phases phases;              // of its last worker
  uint64_t memory_bytes = 0;  // of its worker; all who wait asked for no more
  uint64_t cpu_seconds = 0;   // likewise
  std::vector<Waiter> waiters;
  std::unique_ptr<boost::asio::steady_timer> late_timer;  // set while it runs on without waiters
};
using JobPtr = std::shared_ptr<Job>;

// Trace ids of those who wait for a job that another's request began; 64 at most.
std::vector<std::string> joined_by(const Job& job);

}  // namespace kiln::server
