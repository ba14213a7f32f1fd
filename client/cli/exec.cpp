// kiln exec: instances of a program side by side, each on cores and memory of its own.
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "commands.h"
#include "instances.h"

namespace kiln::cli {
namespace {

using Clock = std::chrono::steady_clock;

// A library that replaces malloc, where it is installed.
struct Allocator {
  std::string_view name;
  std::vector<std::string_view> files;
  std::string_view package;
};
const std::vector<Allocator>& allocators() {
  static const auto& all = *new std::vector<Allocator>{
      {"tcmalloc", {"libtcmalloc.so.4", "libtcmalloc_minimal.so.4"}, "libtcmalloc-minimal4"},
      {"jemalloc", {"libjemalloc.so.2"}, "libjemalloc2"}};
  return all;
}

std::vector<std::string> library_folders() {
  std::vector<std::string> out = {"/usr/local/lib", "/usr/lib64", "/usr/lib"};
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/lib", failed)) {
    const std::string path = entry.path().string();
    if (path.ends_with("-linux-gnu")) out.push_back(path);
  }
  return out;
}

std::string file_of(const Allocator& allocator) {
  for (const std::string& folder : library_folders()) {
    for (const std::string_view file : allocator.files) {
      const std::string path = folder + "/" + std::string(file);
      if (::access(path.c_str(), R_OK) == 0) return path;
    }
  }
  return "";
}

// The library's file; "": the system's malloc.
Result<std::string> find_allocator(const std::string& wish) {
  for (const Allocator& allocator : allocators()) {
    if (wish != "auto" && wish != allocator.name) continue;
    if (std::string file = file_of(allocator); !file.empty()) return file;
    if (wish != "auto") {
      return error(ErrorCode::kNotFound,
                   "exec: " + wish + " is not installed; Debian has it as " + std::string(allocator.package));
    }
  }
  return std::string();
}

// Who has set these knows better.
void set_unless_set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), /*overwrite=*/0); }

void set_environment(const Instance& instance, size_t number, const std::string& allocator) {
  std::string places;
  for (const int processor : instance.processors) {
    places += (places.empty() ? "{" : ",{") + std::to_string(processor) + "}";
  }
  set_unless_set("OMP_NUM_THREADS", std::to_string(instance.processors.size()));
  set_unless_set("OMP_PLACES", places);
  set_unless_set("OMP_PROC_BIND", "close");
  set_unless_set("KMP_BLOCKTIME", "1");  // of Intel's and LLVM's OpenMP: threads that wait sleep after a millisecond
  ::setenv("KILN_INSTANCE", std::to_string(number).c_str(), 1);
  if (allocator.empty()) return;
  const char* others = std::getenv("LD_PRELOAD");
  ::setenv("LD_PRELOAD", (others != nullptr && *others ? allocator + ":" + others : allocator).c_str(), 1);
}

// Memory comes from the node where the cores are, as long as it has some. set_mempolicy(2), which glibc does not wrap.
bool prefer_memory_of(int node) {
  constexpr int kPreferred = 1;
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask(static_cast<size_t>(node) / kBits + 1);
  mask.back() = 1ul << static_cast<size_t>(node) % kBits;
  return ::syscall(SYS_set_mempolicy, kPreferred, mask.data(), mask.size() * kBits + 1) == 0;
}

void run_on(const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(static_cast<size_t>(processor), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) std::fprintf(stderr, "kiln exec: the cores cannot be set: %m\n");
}

// The runs, one after the other in each instance. Signals that end programs go to all of them. None is left behind:
// they end with this process, however that ends.
class Runs {
 public:
  Runs(const std::vector<Instance>& instances, const std::vector<std::string>& program, std::string allocator,
       int repeat)
      : instances_(instances), allocator_(std::move(allocator)), left_(instances.size(), repeat) {
    for (const std::string& word : program) words_.push_back(const_cast<char*>(word.c_str()));
    words_.push_back(nullptr);
    ::sigemptyset(&signals_);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals_, signal);
    ::sigprocmask(SIG_BLOCK, &signals_, &before_);
  }
  ~Runs() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  Result<void> run() {
    for (size_t i = 0; i < instances_.size(); ++i) {
      if (auto started = start(i); !started) {
        send(SIGTERM);
        while (!running_.empty()) wait();
        return started;
      }
    }
    while (!running_.empty()) wait();
    return {};
  }

  const std::vector<double>& seconds() const { return seconds_; }
  int status() const { return status_; }  // of the first run that failed

 private:
  struct Running {
    pid_t process;
    size_t instance;
    Clock::time_point begun;
  };

  // What exec() says comes back by a pipe that it closes where it succeeds.
  Result<void> start(size_t instance) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return failed("no pipe");
    const auto begun = Clock::now();
    const pid_t parent = ::getpid(), process = ::fork();
    if (process == 0) become(instance, parent, ends[1]);
    ::close(ends[1]);
    int number = 0;
    const bool is_there = process > 0;
    const ssize_t told = is_there ? ::read(ends[0], &number, sizeof number) : 0;
    ::close(ends[0]);
    if (!is_there) return failed("no process");
    --left_[instance];
    if (told <= 0) {
      running_.push_back({process, instance, begun});
      return {};
    }
    (void)::waitpid(process, nullptr, 0);
    errno = number;
    return failed(std::string(words_[0]) + " cannot be started");
  }

  [[noreturn]] void become(size_t number, pid_t parent, int tell) {
    const Instance& instance = instances_[number];
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);  // it was gone before it could be watched
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    run_on(instance.processors);
    if (instance.node && !prefer_memory_of(*instance.node) && number == 0) {
      std::fprintf(stderr, "kiln exec: memory is not kept on its node: %m\n");
    }
    set_environment(instance, number, allocator_);
    ::execvp(words_[0], words_.data());
    const int failure = errno;
    (void)!::write(tell, &failure, sizeof failure);
    ::_exit(127);
  }

  void wait() {
    siginfo_t info;
    if (::sigwaitinfo(&signals_, &info) < 0) return;  // interrupted by another signal
    if (info.si_signo != SIGCHLD) return send(info.si_signo);
    int status = 0;
    for (pid_t ended; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) note_end(ended, status);
  }

  void send(int signal) {
    is_stopping_ = true;
    for (const Running& run : running_) ::kill(run.process, signal);
  }

  void note_end(pid_t process, int status) {
    const auto run = std::ranges::find(running_, process, &Running::process);
    if (run == running_.end()) return;
    const Running ended = *run;
    running_.erase(run);
    seconds_.push_back(std::chrono::duration<double>(Clock::now() - ended.begun).count());
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code != 0) {
      std::fprintf(stderr, "kiln exec: instance %zu ended %s %d\n", ended.instance,
                   WIFEXITED(status) ? "with status" : "by signal", WIFEXITED(status) ? code : WTERMSIG(status));
      if (status_ == 0) status_ = code;
      return;
    }
    if (is_stopping_ || left_[ended.instance] == 0) return;
    if (auto again = start(ended.instance); !again) {
      std::fprintf(stderr, "kiln: %s\n", again.error().message.c_str());
      status_ = 1;
    }
  }

  static Error failed(const std::string& what) {
    return invalid_argument("exec: " + what + ": " + std::strerror(errno));
  }

  const std::vector<Instance>& instances_;
  const std::string allocator_;
  std::vector<int> left_;
  std::vector<char*> words_;
  sigset_t signals_, before_;
  std::vector<Running> running_;
  std::vector<double> seconds_;
  int status_ = 0;
  bool is_stopping_ = false;
};

void say_what_is_set(const std::vector<Instance>& instances, const std::string& allocator) {
  std::string cores, nodes;
  for (const Instance& instance : instances) {
    cores += (cores.empty() ? "" : " | ") + ranges_text(instance.processors);
    nodes += (nodes.empty() ? "" : " | ") + (instance.node ? std::to_string(*instance.node) : std::string("any"));
  }
  std::fprintf(stderr,
               "kiln exec: %zu instance%s on processors %s, memory of nodes %s, OpenMP threads as processors, %s\n",
               instances.size(), instances.size() == 1 ? "" : "s", cores.c_str(), nodes.c_str(),
               allocator.empty() ? "the system's malloc" : allocator.c_str());
}

// The least that so much of the runs do not pass.
double percentile(const std::vector<double>& sorted, double part) {
  const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

void say_times(std::vector<double> seconds, double whole) {
  if (seconds.empty()) return;
  std::ranges::sort(seconds);
  std::fprintf(stderr, "kiln exec: %zu run%s in %.3f s: p50 %.3f s, p99 %.3f s, %.2f runs/s\n", seconds.size(),
               seconds.size() == 1 ? "" : "s", whole, percentile(seconds, 0.5), percentile(seconds, 0.99),
               static_cast<double>(seconds.size()) / whole);
}

}  // namespace

Result<int> exec(const ExecFlags& flags, const std::vector<std::string>& program) {
  InstanceWish wish;
  wish.aim = flags.latency ? Aim::kLatency : flags.throughput ? Aim::kThroughput : Aim::kNone;
  wish.instances = flags.instances;
  wish.cores_per_instance = flags.cores_per_instance;
  wish.nodes = flags.nodes;
  wish.all_hardware_threads = flags.hardware_threads;
  auto instances = plan_instances(client::usable_processors(), wish);
  if (!instances) return instances.error();
  auto allocator = find_allocator(flags.allocator);
  if (!allocator) return allocator.error();
  say_what_is_set(*instances, *allocator);
  Runs runs(*instances, program, *allocator, flags.repeat);
  const auto begun = Clock::now();
  if (auto done = runs.run(); !done) return done.error();
  say_times(runs.seconds(), std::chrono::duration<double>(Clock::now() - begun).count());
  return runs.status();
}

}  // namespace kiln::cli
