// What can be set on the daemon, with its defaults.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cache/remote_options.h"

namespace kiln::server {

struct Config {
  using Milliseconds = std::chrono::milliseconds;

  std::string runtime_dir;       // socket, lock, log; empty in pipe mode
  std::string crash_dir;         // reports of crashes of this process and its workers; empty: none
  std::string cache_dir;         // empty: no disk tier
  std::string cache_instead_of;  // the directory that it stands in for, which is on another machine's file system
  std::string worker_path;
  std::string tuner_path;              // empty: TUNE requests are refused
  std::string no_tuner;                // why there is none, where one was looked for
  std::string golden_path;             // the tuner's records that win over all others; empty: none
  bool frozen = false;                 // the tuner never measures
  bool tune_from_containers = false;   // TUNE also for clients of other process namespaces
  bool pipe = false;                   // serve one client on standard input
  bool foreground = false;             // log to standard error
  bool detach = false;                 // continue in a child process
  std::vector<std::string> inherited;  // of the client that started it, and could not be changed
  int ready_fd = -1;                   // told "ready\n" once the socket listens
  std::string log_level = "info";
  uint16_t metrics_port = 0;  // on the loopback device; 0: none

  unsigned workers = 0;  // 0: one a core
  uint64_t worker_memory = 4ull << 30;
  uint64_t worker_cpu_seconds = 300;
  uint64_t worker_jobs = 100;
  uint64_t worker_rss = 512ull << 20;
  Milliseconds worker_idle{600'000};

  uint64_t cache_bytes = 5ull << 30;
  uint64_t memory_bytes = 256ull << 20;

  RemoteOptions remote;
  std::string tune_worker;           // URL of the fleet's Redis; empty: no worker. Trusted as `remote` is
  std::string tune_targets = "cpu";  // kinds of targets that the worker takes jobs of
  Milliseconds tune_lease{60'000};   // a worker that was not heard of for so long loses its job

  size_t queue_jobs = 4096;
  uint64_t queue_bytes = 256ull << 20;
  Milliseconds default_deadline{120'000};
  Milliseconds ageing{60'000};     // a background job that waited this long takes turns with interactive ones
  Milliseconds kill_after{2'000};  // between SIGTERM and SIGKILL of a worker
  Milliseconds poison_ttl{600'000};
  unsigned poison_kills = 2;
  Milliseconds negative_ttl{60'000};
  double verify_percent = 0;  // of hits, compiled once more and compared
  bool finish_late = false;   // a compile that nobody waits for any more goes on when it is nearly done
  size_t crash_storm = 64;    // worker deaths a minute before spawning backs off

  size_t max_connections = 1024;           // of one process
  uint64_t incoming_bytes = 256ull << 20;  // of requests that are not complete yet, of one process
  uint64_t outgoing_bytes = 256ull << 20;  // of replies that it has not read yet, likewise
  size_t max_in_flight = 256;              // per connection
  size_t user_limit = 1024;                // interactive compiles that may wait, over all connections
  Milliseconds hello_timeout{2'000};
  Milliseconds idle_timeout{600'000};
  Milliseconds drain_timeout{10'000};
  Milliseconds self_check{60'000};

  // Where each option that was given comes from: "command line", "environment" or "file".
  std::map<std::string, std::string> sources;
};

// Takes over what may change while the daemon runs; the rest stays until it is started again.
void reload(Config& config, const Config& next);

nlohmann::json to_json(const Config& config);

}  // namespace kiln::server
