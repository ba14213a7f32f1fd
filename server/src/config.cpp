// The effective configuration, as `stats` shows it.
#include "config.h"

namespace kiln::server {

nlohmann::json to_json(const Config& config) {
  return {{"runtime_dir", config.runtime_dir},
          {"cache_dir", config.cache_dir},
          {"worker_path", config.worker_path},
          {"tuner_path", config.tuner_path},
          {"pipe", config.pipe},
          {"log_level", config.log_level},
          {"workers", config.workers},
          {"worker_memory", config.worker_memory},
          {"worker_cpu_seconds", config.worker_cpu_seconds},
          {"worker_jobs", config.worker_jobs},
          {"worker_rss", config.worker_rss},
          {"worker_idle_ms", config.worker_idle.count()},
          {"cache_bytes", config.cache_bytes},
          {"memory_bytes", config.memory_bytes},
          {"queue_jobs", config.queue_jobs},
          {"queue_bytes", config.queue_bytes},
          {"default_deadline_ms", config.default_deadline.count()},
          {"poison_ttl_ms", config.poison_ttl.count()},
          {"negative_ttl_ms", config.negative_ttl.count()},
          {"crash_storm", config.crash_storm},
          {"max_connections", config.max_connections},
          {"max_in_flight", config.max_in_flight},
          {"idle_timeout_ms", config.idle_timeout.count()},
          {"drain_timeout_ms", config.drain_timeout.count()}};
}

}  // namespace kiln::server
