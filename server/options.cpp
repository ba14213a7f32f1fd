// One table: names, targets, help.
#include "options.h"

#include <cstdlib>

#include "kiln/wire/frame.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/trusted.h"

namespace kiln::server {
namespace {

// Seconds on the command line, with fractions, to milliseconds.
void add_seconds(CLI::App& app, const std::string& name, Config::Milliseconds& target, const std::string& help) {
  app.add_option_function<double>(
         name, [&target](double seconds) { target = Config::Milliseconds(static_cast<int64_t>(seconds * 1000)); }, help)
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("S");
}

void add_sizes(CLI::App& app, Config& config) {
  app.add_option("--cache-size", config.cache_bytes, "Limit of the disk tier")->transform(CLI::AsSizeValue(false));
  app.add_option("--memory-size", config.memory_bytes, "Limit of the memory tier")->transform(CLI::AsSizeValue(false));
  app.add_option("--worker-memory", config.worker_memory, "Address space of a worker")
      ->transform(CLI::AsSizeValue(false));
}

void add_remote(CLI::App& app, RemoteOptions& remote) {
  app.add_option("--remote", remote.url, "Entries shared by hosts: redis://[USER@]HOST[:PORT][/DB], redis+unix:///PATH")
      ->type_name("URL");
  app.add_option("--remote-mode", remote.mode, "read, or readwrite to give others what is compiled here")
      ->check(CLI::IsMember({"read", "readwrite"}))
      ->capture_default_str();
  app.add_option("--remote-key", remote.key_file, "Only take entries authenticated by this secret of 32 bytes or more")
      ->type_name("FILE");
  app.add_flag("--remote-trust", remote.trust, "Without a key: execute what anybody wrote there");
  app.add_option("--remote-password-file", remote.password_file,
                 "Redis' password; " + std::string(redis::kPasswordVariable) + " is another way")
      ->type_name("FILE");
  add_seconds(app, "--remote-connect-timeout", remote.connect_timeout, "For connecting to Redis");
  add_seconds(app, "--remote-timeout", remote.timeout, "For an answer of Redis");
  app.add_option("--remote-failures", remote.breaker_failures, "After so many within the window Redis is left alone")
      ->check(CLI::Range(1, 1000));
  add_seconds(app, "--remote-window", remote.breaker_window, "In which failures of Redis are counted");
  add_seconds(app, "--remote-rest", remote.breaker_rest, "Until Redis is tried again");
}

void add_fleet(CLI::App& app, Config& config) {
  app.add_option("--tune-worker", config.tune_worker,
                 "Tune what `kiln tune --fleet` asks for there; trusted as --remote is (--remote-key, --remote-trust)")
      ->type_name("URL");
  app.add_option("--tune-targets", config.tune_targets, "Kinds of targets it takes jobs of: cpu, cuda, amd")
      ->type_name("T,...")
      ->capture_default_str();
  add_seconds(app, "--tune-lease", config.tune_lease, "A worker that was not heard of for so long loses its job");
}

std::string default_config_file() {
  if (const std::string base = wire::environment("XDG_CONFIG_HOME"); !base.empty()) return base + "/kiln/kilnd.toml";
  const std::string home = wire::environment("HOME");
  return home.empty() ? home : home + "/.config/kiln/kilnd.toml";
}

}  // namespace

void add_options(CLI::App& app, Config& config) {
  app.add_option("--runtime-dir", config.runtime_dir, "Directory of socket, lock and log (0700)");
  app.add_option_function<std::string>(
         "--socket", [&config](const std::string& path) { config.runtime_dir = path.substr(0, path.rfind('/')); },
         "Path of the socket; its name must be " + std::string(wire::kSocketName))
      ->check([](const std::string& path) {
        std::string end = std::string("/") + wire::kSocketName;
        return path.ends_with(end) ? std::string() : "the path must end in " + end;
      });
  app.add_option("--cache-dir", config.cache_dir, "Directory of the disk tier; '' for none");
  app.add_option("--worker", config.worker_path, "The kiln-worker to start");
  app.add_option("--tuner", config.tuner_path, "The kiln-tune to start for TUNE requests; '' for none");
  app.add_option("--golden", config.golden_path, "The tuner's records that win over all others (JSON lines)")
      ->envname("KILN_TUNE_GOLDEN");
  app.add_flag("--frozen", config.frozen, "The tuner never measures")->envname("KILN_TUNE_FROZEN");
  app.add_flag("--tune-from-containers", config.tune_from_containers,
               "TUNE, which runs kernels here, also for clients of other process namespaces");
  app.add_option("--workers", config.workers, "Worker processes; 0: one a core")->check(CLI::Range(0, 1024));
  app.add_flag("--foreground", config.foreground, "Log to standard error");
  app.add_flag("--pipe", config.pipe, "Serve one client on standard input, a socket");
  app.add_option("--log-level", config.log_level, "debug, info, warn or err")
      ->check(CLI::IsMember({"debug", "info", "warn", "err"}));
  app.add_flag("--detach", config.detach, "Continue in a child process");
  app.add_option("--ready-fd", config.ready_fd, "Descriptor that is told when the socket listens");
  add_sizes(app, config);
  add_remote(app, config.remote);
  add_fleet(app, config);
  add_seconds(app, "--idle-timeout", config.idle_timeout, "Exit after so long without connections; 0: never");
  add_seconds(app, "--deadline", config.default_deadline, "For requests that name none");
  add_seconds(app, "--drain-timeout", config.drain_timeout, "For running compiles at shutdown");
  app.add_option("--verify", config.verify_percent, "Percent of hits to compile once more and compare")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  add_seconds(app, "--poison-ttl", config.poison_ttl, "How long a kernel that kills workers is refused");
  add_seconds(app, "--negative-ttl", config.negative_ttl, "How long a failed compile is remembered");
  add_seconds(app, "--kill-after", config.kill_after, "Between SIGTERM and SIGKILL of a worker");
  add_seconds(app, "--worker-idle", config.worker_idle, "Idle time after which a worker leaves");
  add_seconds(app, "--hello-timeout", config.hello_timeout, "For a client's hello");
  add_seconds(app, "--self-check", config.self_check, "Between checks that the socket is still reachable");
  app.add_option("--worker-cpu", config.worker_cpu_seconds, "Processor time of one compile")
      ->check(CLI::Range(1, 1'000'000))
      ->type_name("S");
  app.add_option("--worker-jobs", config.worker_jobs, "Jobs after which a worker is replaced");
  app.add_option("--queue-limit", config.queue_jobs,
                 "Compiles that may wait of one process; of all together twice as many");
  app.add_option("--user-limit", config.user_limit,
                 "Interactive requests that may wait of one process; of all together twice as many");
  app.add_flag("--finish-late", config.finish_late,
               "Finish a compile that nobody waits for any more when it has run 80 % of the average time");
  app.add_option("--crash-storm", config.crash_storm, "Worker deaths a minute before spawning backs off");
  app.add_option("--metrics-port", config.metrics_port,
                 "Figures for Prometheus over HTTP, on the loopback device; 0: none");
  app.add_option("--max-connections", config.max_connections,
                 "Connections of one process; of all together twice as many");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.set_config("--config", default_config_file(), "File of options, read again on SIGHUP: lines NAME = VALUE");
  app.set_version_flag("--version", "kilnd, protocol " + wire::version_string(wire::kVersion));
}

std::map<std::string, std::string> option_sources(const CLI::App& app, int argc, char** argv) {
  std::map<std::string, std::string> out;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = "--" + option->get_single_name();
    const bool here = std::any_of(
        argv + 1, argv + argc, [&](const std::string& word) { return word == name || word.starts_with(name + "="); });
    const bool environment = !option->get_envname().empty() && ::secure_getenv(option->get_envname().c_str());
    out[option->get_single_name()] = here ? "command line" : environment ? "environment" : "file";
  }
  return out;
}

}  // namespace kiln::server
