// kilnd: parses the command line, prepares the process, runs the daemon.
#include <fcntl.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "daemon.h"
#include "kiln/cmdline/reference.h"
#include "kiln/wire/crash_report.h"
#include "kiln/wire/fd.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/trusted.h"
#include "memory_reserve.h"
#include "options.h"
#include "processes/fresh_start.h"

namespace {

using kiln::Result;
using kiln::server::Config;

// Where the fleet's jobs are is another Redis than the remote tier's, or the same; it is trusted as that one is.
Result<void> complete_tune_worker(Config& config) {
  if (config.tune_worker.empty()) return {};
  if (config.pipe) return kiln::invalid_argument("--tune-worker: a daemon behind a pipe serves one client only");
  if (config.tuner_path.empty()) return kiln::invalid_argument("--tune-worker: there is no kiln-tune (--tuner)");
  kiln::redis::Access access = config.remote;
  access.url = config.tune_worker;
  if (auto checked = kiln::redis::complete(access, "--tune-worker"); !checked) return checked;
  // The worker reads them itself, and may be started again after this process has left its directory.
  for (std::string* path : {&config.remote.key_file, &config.remote.password_file}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path).string();
  }
  return {};
}

// Those that were named are held to the same as those that are looked for.
Result<void> find_programs(Config& config, bool tuner_given) {
  if (config.worker_path.empty()) {
    auto worker = kiln::wire::find_worker(kiln::wire::self_path());
    if (!worker) return worker.error();
    config.worker_path = *worker;
  }
  // The tuner is a client of this daemon, which a pipe has no room for.
  if (!tuner_given && !config.pipe) {
    auto tuner = kiln::wire::find_tuner(kiln::wire::self_path());
    (tuner ? config.tuner_path : config.no_tuner) = tuner ? *tuner : tuner.error().message;
  }
  if (auto worker = kiln::wire::check_trusted(config.worker_path); !worker) return worker;
  return config.tuner_path.empty() ? Result<void>() : kiln::wire::check_trusted(config.tuner_path);
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
  if (!cache_given) {
    auto cache = kiln::wire::find_cache_dir();
    config.cache_dir = std::move(cache.path);
    config.cache_instead_of = std::move(cache.instead_of);
  }
  if (auto found = find_programs(config, tuner_given); !found) return found;
  if (!config.golden_path.empty() && ::access(config.golden_path.c_str(), R_OK) != 0) {
    return kiln::invalid_argument("--golden " + config.golden_path + ": " + std::strerror(errno));
  }
  kiln::redis::take_password(config.remote);
  if (auto remote = kiln::redis::complete(config.remote, "--remote"); !remote) return remote.error();
  if (auto worker = complete_tune_worker(config); !worker) return worker;
  // A child of one client has no directory of its own.
  config.crash_dir = config.pipe ? kiln::wire::present_runtime_dir() : config.runtime_dir;
  // The process leaves its directory below.
  for (std::string* path : {&config.runtime_dir, &config.crash_dir, &config.cache_dir, &config.worker_path,
                            &config.tuner_path, &config.golden_path}) {
    if (!path->empty()) *path = std::filesystem::absolute(*path).string();
  }
  return {};
}

// The file's name as it is from any directory; empty where there is none.
std::string absolute_config_file(CLI::App& app) {
  const auto name = app.get_config_ptr()->as<std::string>();
  return name.empty() ? name : std::filesystem::absolute(name).string();
}

// Where there is none, whose directory it would be in does not matter: another's home under sudo.
Result<void> check_options(const std::string& config_file) {
  const bool there = !config_file.empty() && ::access(config_file.c_str(), F_OK) == 0;
  return there ? kiln::wire::check_trusted(config_file) : Result<void>();
}

// The file as it is now, opened without waiting: for whoever writes to a pipe, or has a lease on the file, all clients
// would wait too. While it is open nobody gets such a lease. Without a descriptor: there is none, or a device.
Result<kiln::wire::UniqueFd> open_options(const std::string& config_file) {
  using kiln::wire::UniqueFd;
  if (config_file.empty() || ::access(config_file.c_str(), F_OK) != 0) return UniqueFd();
  UniqueFd file(::open(config_file.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file && errno == EWOULDBLOCK) return kiln::invalid_argument(config_file + " is held by somebody's lease");
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0)
    return kiln::invalid_argument(config_file + ": " + std::strerror(errno));
  if (S_ISREG(info.st_mode)) return file;
  if (S_ISCHR(info.st_mode)) return UniqueFd();  // /dev/null
  return kiln::invalid_argument(config_file + " is no file, and is read at the start only");
}

// The command line and the file as they are now; paths are those of the start, and not looked at.
Result<Config> read_again(int argc, char** argv, const std::string& config_file) {
  if (auto trusted = check_options(config_file); !trusted) return trusted.error();
  auto file = open_options(config_file);
  if (!file) return file.error();
  CLI::App app;
  Config config;
  kiln::server::add_options(app, config);
  app.get_config_ptr()->default_val(*file ? "/proc/self/fd/" + std::to_string(file->get()) : "");
  std::vector<std::string> words;
  for (int i = argc - 1; i > 0; --i) {  // the parser takes them from the back
    const std::string word = argv[i];
    if (word.starts_with("--config=")) continue;
    if (i > 1 && argv[i - 1] == std::string("--config")) {
      --i;
      continue;
    }
    words.push_back(word);
  }
  try {
    app.parse(words);
  } catch (const CLI::ParseError& failure) {
    return kiln::invalid_argument(failure.what());
  }
  config.sources = kiln::server::option_sources(app, argc, argv);
  return config;
}

// A daemon ends by SIGTERM and SIGINT. Of the others that end a process those that say something about a call or a
// limit are seen in that call's result (EPIPE, EFBIG), and the rest mean nothing here. The limit of processor time has
// a second, hard value. SIGTRAP and SIGSYS end it all the same where its own code is at fault.
void ignore_signals() {
  for (int number : {SIGPIPE, SIGXFSZ, SIGXCPU, SIGQUIT, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGPOLL, SIGPWR,
                     SIGSTKFLT, SIGTRAP, SIGSYS})
    std::signal(number, SIG_IGN);
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) std::signal(number, SIG_IGN);
}

// Where a block of this size or more is freed, its memory is the system's again. glibc raises its own limit of 128 KiB
// to the size of each such block that is freed, up to 32 MiB: requests and artifacts of so many MiB then lie in its
// heaps, and what lives between them keeps the rest. A fixed limit is never raised; smaller blocks are used again soon.
void give_back_large_blocks() {
  constexpr int kLarge = 1 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLarge);
}

// A heap of its own for each thread takes 64 MiB of address space (glibc). Where that is limited (ulimit -v) they share
// one, so that what one of them frees is there for the others; else they do not wait for each other.
void share_a_heap_where_few_fit() {
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) ::mallopt(M_ARENA_MAX, 1);
}

// The stack grows into address space too, and where there is none left that is a crash: it has grown already. What it
// is grown by must not be a part of the caller's.
[[gnu::noinline]] void grow_stack() {
  constexpr size_t kEnough = 256 << 10, kPage = 4096;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur < 4 * kEnough) return;
  [[maybe_unused]] volatile char room[kEnough];
  for (size_t at = 0; at < kEnough; at += kPage) room[at] = 0;
}

void prepare_process(const Config& config) {
  give_back_large_blocks();
  share_a_heap_where_few_fit();
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // nobody reads its memory or takes its descriptors; no core file
  ::umask(077);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 65536);
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  if (config.ready_fd >= 0) ::fcntl(config.ready_fd, F_SETFD, FD_CLOEXEC);
}

int say_failed(const Config& config, const kiln::Error& failure) {
  std::fprintf(stderr, "kilnd: %s\n", failure.message.c_str());
  if (config.ready_fd >= 0) ::dprintf(config.ready_fd, "error %s\n", failure.message.c_str());
  return 1;
}

// What the client that starts this daemon cannot hand on to it. Where that takes another execution this one ends here:
// the next one finds nothing odd any more.
std::vector<std::string> begin_afresh(char** argv) {
  kiln::server::Beginning beginning = kiln::server::start_afresh();
  if (!beginning.execute_again) return beginning.kept;
  ::execv("/proc/self/exe", argv);
  beginning.kept.push_back(std::string("the layout of memory, or capabilities: /proc/self/exe: ") +
                           std::strerror(errno));
  return beginning.kept;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("kilnd: compiles kernels in worker processes and keeps the results");
  Config config;
  kiln::server::add_options(app, config);
  if (auto printed = kiln::cmdline::print_reference(app, "kilnd", argc, argv)) return *printed;
  CLI11_PARSE(app, argc, argv);
  ignore_signals();
  config.sources = kiln::server::option_sources(app, argc, argv);
  for (const auto& [option, variable] :
       {std::pair("runtime-dir", "KILN_RUNTIME_DIR"), {"cache-dir", "KILN_CACHE_DIR"}}) {
    const bool socket_given = option == std::string("runtime-dir") && config.sources.contains("socket");
    if (::secure_getenv(variable) && !socket_given) config.sources.emplace(option, "environment");
  }
  const std::string config_file = absolute_config_file(app);
  auto status = check_options(config_file);
  if (status) status = complete(config, app.count("--cache-dir") > 0, app.count("--tuner") > 0);
  if (!status) return say_failed(config, status.error());
  if (config.detach) config.inherited = begin_afresh(argv);
  prepare_process(config);
  // Whoever starts a daemon waits for this process, not for the daemon: nobody is left with a zombie.
  if (config.detach && ::fork() != 0) ::_exit(0);
  if (!config.crash_dir.empty()) {
    kiln::wire::install_crash_report(
        config.crash_dir + "/kilnd.crash",
        "kilnd " KILN_VERSION ", build-id " + kiln::wire::read_build_id(kiln::wire::self_path()) +
            "\nkiln-worker, build-id " + kiln::wire::read_build_id(config.worker_path) + "\n");
  }
  // A daemon holds no directory that somebody may want to unmount.
  if (!config.foreground && ::chdir("/") != 0) return 1;
  using kiln::server::memory_reserve;
  if (auto opened = memory_reserve.open(); !opened) return say_failed(config, opened.error());
  grow_stack();
  auto reread = [=] { return read_again(argc, argv, config_file); };
  return kiln::server::Daemon(std::move(config), reread, memory_reserve).run();
}
