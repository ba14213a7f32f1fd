// The daemon's table of options against what `stats` shows of them.
#include "options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <map>
#include <set>

#include "config.h"

namespace kiln::server {
namespace {

using nlohmann::json;

struct Shown {
  const char *option, *value;  // as given
  const char* field;           // of `config`
  json shown;
  bool reloaded = true;  // by SIGHUP
};

const std::vector<Shown>& all_shown() {
  static const std::vector<Shown> kAll = {
      {"runtime-dir", "/r", "runtime_dir", "/r", false},
      {"cache-dir", "/c", "cache_dir", "/c", false},
      {"worker", "/w", "worker_path", "/w", false},
      {"tuner", "/t", "tuner_path", "/t", false},
      {"golden", "/g", "golden_path", "/g", false},
      {"frozen", "true", "frozen", true, false},
      {"tune-from-containers", "true", "tune_from_containers", true, false},
      {"workers", "3", "workers", 3, false},
      {"pipe", "true", "pipe", true, false},
      {"log-level", "warn", "log_level", "warn"},
      {"cache-size", "7KiB", "cache_bytes", 7 << 10},
      {"memory-size", "8KiB", "memory_bytes", 8 << 10},
      {"worker-memory", "9KiB", "worker_memory", 9 << 10},
      {"worker-cpu", "11", "worker_cpu_seconds", 11},
      {"remote", "redis://h", "remote", "redis://h", false},
      {"remote-mode", "readwrite", "remote_mode", "readwrite", false},
      {"remote-key", "/k", "remote_key_file", "/k", false},
      {"remote-trust", "true", "remote_trust", true, false},
      {"remote-password-file", "/p", "remote_password_file", "/p", false},
      {"remote-connect-timeout", "1.5", "remote_connect_timeout_ms", 1500, false},
      {"remote-timeout", "2.5", "remote_timeout_ms", 2500, false},
      {"remote-failures", "12", "remote_failures", 12, false},
      {"remote-window", "3.5", "remote_window_ms", 3500, false},
      {"remote-rest", "4.5", "remote_rest_ms", 4500, false},
      {"tune-worker", "redis://t", "tune_worker", "redis://t", false},
      {"tune-targets", "cuda", "tune_targets", "cuda", false},
      {"tune-lease", "5.5", "tune_lease_ms", 5500, false},
      {"idle-timeout", "6.5", "idle_timeout_ms", 6500},
      {"deadline", "7.5", "default_deadline_ms", 7500},
      {"drain-timeout", "8.5", "drain_timeout_ms", 8500},
      {"verify", "13", "verify_percent", 13.0},
      {"poison-ttl", "9.5", "poison_ttl_ms", 9500},
      {"negative-ttl", "10.5", "negative_ttl_ms", 10500},
      {"kill-after", "11.5", "kill_after_ms", 11500},
      {"worker-idle", "12.5", "worker_idle_ms", 12500},
      {"hello-timeout", "13.5", "hello_timeout_ms", 13500},
      {"self-check", "14.5", "self_check_ms", 14500},
      {"worker-jobs", "14", "worker_jobs", 14},
      {"queue-limit", "15", "queue_jobs", 15},
      {"user-limit", "16", "user_limit", 16},
      {"finish-late", "true", "finish_late", true},
      {"crash-storm", "17", "crash_storm", 17},
      {"metrics-port", "18", "metrics_port", 18, false},
      {"max-connections", "19", "max_connections", 19},
  };
  return kAll;
}

// How the process is started, and nothing of how it serves; --socket is another way to say --runtime-dir.
const std::set<std::string> kOfTheStart = {"help", "version", "config", "foreground", "detach", "ready-fd", "socket"};

Config parsed(const Shown& shown) {
  Config out;
  CLI::App app;
  add_options(app, out);
  app.parse(std::vector<std::string>{std::string("--") + shown.option + "=" + shown.value});
  return out;
}

TEST(Options, EachIsShownByStats) {
  CLI::App app;
  Config config;
  add_options(app, config);
  std::set<std::string> listed = kOfTheStart;
  for (const Shown& shown : all_shown()) {
    listed.insert(shown.option);
    EXPECT_NE(to_json(Config{})[shown.field], shown.shown) << shown.option << ": the default tells nothing";
    EXPECT_EQ(to_json(parsed(shown))[shown.field], shown.shown) << shown.option;
  }
  for (const CLI::Option* option : app.get_options()) {
    EXPECT_TRUE(listed.contains(option->get_single_name()))
        << option->get_single_name() << " is not in the table above";
  }
}

TEST(Options, ReloadTakesOverWhatMayChange) {
  for (const Shown& shown : all_shown()) {
    Config running;
    reload(running, parsed(shown));
    EXPECT_EQ(to_json(running)[shown.field], shown.reloaded ? shown.shown : to_json(Config{})[shown.field])
        << shown.option;
  }
}

}  // namespace
}  // namespace kiln::server
