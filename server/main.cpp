// kilnd: parses the command line, prepares the process, runs the daemon.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "daemon.h"
#include "kiln/wire/frame.h"
#include "kiln/wire/paths.h"

namespace {

using kiln::Result;
using kiln::server::Config;

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

void add_options(CLI::App& app, Config& config) {
  app.add_option("--runtime-dir", config.runtime_dir, "Directory of socket, lock and log (0700)");
  app.add_option_function<std::string>(
         "--socket", [&config](const std::string& path) { config.runtime_dir = path.substr(0, path.rfind('/')); },
         "Path of the socket; its name must be " + std::string(kiln::wire::kSocketName))
      ->check([](const std::string& path) {
        std::string end = std::string("/") + kiln::wire::kSocketName;
        return path.ends_with(end) ? std::string() : "the path must end in " + end;
      });
  app.add_option("--cache-dir", config.cache_dir, "Directory of the disk tier; '' for none");
  app.add_option("--worker", config.worker_path, "The kiln-worker to start");
  app.add_option("--tuner", config.tuner_path, "The kiln-tune to start for TUNE requests; '' for none");
  app.add_option("--workers", config.workers, "Worker processes; 0: one a core")->check(CLI::Range(0, 1024));
  app.add_flag("--foreground", config.foreground, "Log to standard error");
  app.add_flag("--pipe", config.pipe, "Serve one client on standard input, a socket");
  app.add_option("--log-level", config.log_level, "debug, info, warn or err")
      ->check(CLI::IsMember({"debug", "info", "warn", "err"}));
  app.add_flag("--detach", config.detach, "Continue in a child process");
  app.add_option("--ready-fd", config.ready_fd, "Descriptor that is told when the socket listens");
  add_sizes(app, config);
  add_seconds(app, "--idle-timeout", config.idle_timeout, "Exit after so long without connections; 0: never");
  add_seconds(app, "--deadline", config.default_deadline, "For requests that name none");
  add_seconds(app, "--drain-timeout", config.drain_timeout, "For running compiles at shutdown");
  add_seconds(app, "--poison-ttl", config.poison_ttl, "How long a kernel that kills workers is refused");
  add_seconds(app, "--negative-ttl", config.negative_ttl, "How long a failed compile is remembered");
  add_seconds(app, "--kill-after", config.kill_after, "Between SIGTERM and SIGKILL of a worker");
  add_seconds(app, "--worker-idle", config.worker_idle, "Idle time after which a worker leaves");
  add_seconds(app, "--hello-timeout", config.hello_timeout, "For a client's hello");
  add_seconds(app, "--self-check", config.self_check, "Between checks that the socket is still reachable");
  app.add_option("--worker-jobs", config.worker_jobs, "Jobs after which a worker is replaced");
  app.add_option("--queue-limit", config.queue_jobs, "Compiles that may wait");
  app.add_option("--crash-storm", config.crash_storm, "Worker deaths a minute before spawning backs off");
  app.add_option("--max-connections", config.max_connections, "Clients at once");
  app.set_version_flag("--version", "kilnd, protocol " + kiln::wire::version_string(kiln::wire::kVersion));
}

Result<void> complete(Config& config, bool cache_given, bool tuner_given) {
  if (config.pipe) {
    int type = 0;
    socklen_t size = sizeof type;
    if (::getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) {
      return kiln::invalid_argument("--pipe: standard input is not a stream socket");
    }
  } else if (config.runtime_dir.empty()) {
    auto dir = kiln::wire::find_runtime_dir();
    if (!dir) return dir.error();
    config.runtime_dir = *dir;
  } else if (auto dir = kiln::wire::open_private_dir(config.runtime_dir); !dir) {
    return dir.error();
  }
  if (!cache_given) config.cache_dir = kiln::wire::default_cache_dir();
  if (config.worker_path.empty()) {
    auto worker = kiln::wire::find_worker(kiln::wire::self_path());
    if (!worker) return worker.error();
    config.worker_path = *worker;
  }
  // The tuner is a client of this daemon, which a pipe has no room for.
  if (!tuner_given && !config.pipe) config.tuner_path = kiln::wire::find_tuner(kiln::wire::self_path());
  // The process leaves its directory below.
  for (std::string* path : {&config.runtime_dir, &config.cache_dir, &config.worker_path, &config.tuner_path}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path).string();
  }
  return {};
}

void prepare_process(const Config& config) {
  std::signal(SIGPIPE, SIG_IGN);
  ::umask(077);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 65536);
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  if (config.ready_fd >= 0) ::fcntl(config.ready_fd, F_SETFD, FD_CLOEXEC);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("kilnd: compiles kernels in worker processes and keeps the results");
  Config config;
  add_options(app, config);
  CLI11_PARSE(app, argc, argv);
  if (auto status = complete(config, app.count("--cache-dir") > 0, app.count("--tuner") > 0); !status) {
    std::fprintf(stderr, "kilnd: %s\n", status.error().message.c_str());
    if (config.ready_fd >= 0) ::dprintf(config.ready_fd, "error %s\n", status.error().message.c_str());
    return 1;
  }
  prepare_process(config);
  // Whoever starts a daemon waits for this process, not for the daemon: nobody is left with a zombie.
  if (config.detach && ::fork() != 0) ::_exit(0);
  // A daemon holds no directory that somebody may want to unmount.
  if (!config.foreground && ::chdir("/") != 0) return 1;
  return kiln::server::Daemon(std::move(config)).run();
}
