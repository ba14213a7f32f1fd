// The effective configuration, as `stats` shows it.
#include "config.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

namespace kiln::server {
namespace {

// The options that reload() takes over.
constexpr std::array<std::string_view, 21> kReloaded = {
    "log-level",   "worker-memory", "worker-cpu",    "worker-jobs",  "worker-idle",   "cache-size",  "memory-size",
    "queue-limit", "deadline",      "kill-after",    "poison-ttl",   "negative-ttl",  "crash-storm", "verify",
    "user-limit",  "finish-late",   "hello-timeout", "idle-timeout", "drain-timeout", "self-check",  "max-connections"};

// Where what is in force comes from: of an option that stays as it was, what was said at the start.
std::map<std::string, std::string> sources_in_force(const Config& old, const Config& next) {
  const auto is_reloaded = [](const auto& source) {
    return std::ranges::find(kReloaded, source.first) != kReloaded.end();
  };
  std::map<std::string, std::string> out;
  std::ranges::copy_if(next.sources, std::inserter(out, out.end()), is_reloaded);
  std::ranges::remove_copy_if(old.sources, std::inserter(out, out.end()), is_reloaded);
  return out;
}

}  // namespace

void reload(Config& config, const Config& next) {
  config.log_level = next.log_level;
  config.worker_memory = next.worker_memory;
  config.worker_cpu_seconds = next.worker_cpu_seconds;
  config.worker_jobs = next.worker_jobs;
  config.worker_idle = next.worker_idle;
  config.cache_bytes = next.cache_bytes;
  config.memory_bytes = next.memory_bytes;
  config.queue_jobs = next.queue_jobs;
  config.default_deadline = next.default_deadline;
  config.kill_after = next.kill_after;
  config.poison_ttl = next.poison_ttl;
  config.negative_ttl = next.negative_ttl;
  config.crash_storm = next.crash_storm;
  config.verify_percent = next.verify_percent;
  config.max_connections = next.max_connections;
  config.user_limit = next.user_limit;
  config.finish_late = next.finish_late;
  config.hello_timeout = next.hello_timeout;
  config.idle_timeout = next.idle_timeout;
  config.drain_timeout = next.drain_timeout;
  config.self_check = next.self_check;
  config.sources = sources_in_force(config, next);
}

nlohmann::json to_json(const Config& config) {
  return {{"runtime_dir", config.runtime_dir},
          {"cache_dir", config.cache_dir},
          {"worker_path", config.worker_path},
          {"tuner_path", config.tuner_path},
          {"tune_from_containers", config.tune_from_containers},
          {"golden_path", config.golden_path},
          {"frozen", config.frozen},
          {"pipe", config.pipe},
          {"log_level", config.log_level},
          {"metrics_port", config.metrics_port},
          {"workers", config.workers},
          {"worker_memory", config.worker_memory},
          {"worker_cpu_seconds", config.worker_cpu_seconds},
          {"worker_jobs", config.worker_jobs},
          {"worker_rss", config.worker_rss},
          {"worker_idle_ms", config.worker_idle.count()},
          {"cache_bytes", config.cache_bytes},
          {"memory_bytes", config.memory_bytes},
          {"remote", config.remote.url},
          {"remote_mode", config.remote.mode},
          {"remote_trust", config.remote.trust},
          {"remote_key_file", config.remote.key_file},
          {"remote_password_file", config.remote.password_file},
          {"remote_connect_timeout_ms", config.remote.connect_timeout.count()},
          {"remote_timeout_ms", config.remote.timeout.count()},
          {"remote_failures", config.remote.breaker_failures},
          {"remote_window_ms", config.remote.breaker_window.count()},
          {"remote_rest_ms", config.remote.breaker_rest.count()},
          {"tune_worker", config.tune_worker},
          {"tune_targets", config.tune_targets},
          {"tune_lease_ms", config.tune_lease.count()},
          {"queue_jobs", config.queue_jobs},
          {"queue_bytes", config.queue_bytes},
          {"default_deadline_ms", config.default_deadline.count()},
          {"ageing_ms", config.ageing.count()},
          {"kill_after_ms", config.kill_after.count()},
          {"poison_kills", config.poison_kills},
          {"poison_ttl_ms", config.poison_ttl.count()},
          {"negative_ttl_ms", config.negative_ttl.count()},
          {"crash_storm", config.crash_storm},
          {"verify_percent", config.verify_percent},
          {"max_connections", config.max_connections},
          {"max_in_flight", config.max_in_flight},
          {"user_limit", config.user_limit},
          {"finish_late", config.finish_late},
          {"hello_timeout_ms", config.hello_timeout.count()},
          {"self_check_ms", config.self_check.count()},
          {"idle_timeout_ms", config.idle_timeout.count()},
          {"drain_timeout_ms", config.drain_timeout.count()},
          {"sources", config.sources}};
}

}  // namespace kiln::server
