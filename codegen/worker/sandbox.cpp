// What a worker gives up before it takes its first job: it handles untrusted input with a large code base.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "kiln/confine/confine.h"
#include "kiln/wire/frame.h"
#include "zygote.h"

namespace kiln::worker {
namespace {

// The sanitizers reserve terabytes of address space.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitMemory = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
constexpr bool kLimitMemory = false;
#else
constexpr bool kLimitMemory = true;
#endif
#else
constexpr bool kLimitMemory = true;
#endif

// To empty the files that code is linked and assembled in, which are there already.
constexpr const char* kCompiling[] = {"ftruncate"};

void limit(__rlimit_resource_t resource, uint64_t bytes) {
  const rlimit value{static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
  ::setrlimit(resource, &value);
}

// Soft limits move from job to job below these. The number of processes is not among them: it counts all of the user's.
void set_limits(const Limits& limits) {
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, 64);
  limit(RLIMIT_MSGQUEUE, 0);
  // Of the anonymous files that code is linked in and assembled from: larger code cannot be sent.
  limit(RLIMIT_FSIZE, 2 * wire::kMaxBodySize);
  if (kLimitMemory && limits.memory_bytes != 0) limit(RLIMIT_AS, limits.memory_bytes);
  // A job's is set when it begins; a helper's program has that of a job.
  const uint64_t of_all = (limits.max_jobs + 1) * (limits.cpu_seconds + 2);
  const rlimit time{static_cast<rlim_t>(limits.cpu_seconds + 1), static_cast<rlim_t>(of_all)};
  ::setrlimit(RLIMIT_CPU, &time);
}

void prefer_for_oom_killer() {
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // else the file is root's
  int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    (void)!::write(fd, "500", 3);
    ::close(fd);
  }
  confine::hide_from_others();
}

// What an assembler may read and execute: programs, libraries, and itself where it is none of the system's. The home is
// not among it.
std::vector<std::string> program_files() {
  std::vector<std::string> out = {"/usr",
                                  "/lib",
                                  "/lib64",
                                  "/bin",
                                  "/sbin",
                                  "/opt",
                                  "/nix",
                                  "/gnu",
                                  "/etc/ld.so.cache",
                                  "/etc/alternatives",
                                  "/dev/null",
                                  "/proc/cpuinfo",
                                  "/sys/devices/system/cpu"};
  if (const char* named = ::getenv("KILN_PTXAS"); named && *named) out.push_back(named);
  const char* path = ::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty()) out.push_back(folder + "/ptxas");
  }
  return out;
}

Result<void> confine_helper() {
  if (auto done = confine::open_only({.read = program_files()}); !done) return done;
  return confine::run_programs();
}

}  // namespace

bool memory_can_be_limited() { return kLimitMemory; }

void limit_memory(uint64_t bytes) {
  rlimit value{};
  if (!kLimitMemory || ::getrlimit(RLIMIT_AS, &value) != 0) return;
  value.rlim_cur = bytes == 0 ? value.rlim_max : std::min(static_cast<rlim_t>(bytes), value.rlim_max);
  ::setrlimit(RLIMIT_AS, &value);
}

Result<void> enter_sandbox(const Limits& limits, int parent_pid,
                           const std::function<void(const HelperRights&)>& start_helpers) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent_pid) ::_exit(kExitOrphan);  // the parent died before the line above
  for (int number : {SIGTERM, SIGINT, SIGHUP, SIGXCPU}) std::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::setlocale(LC_ALL, "C");
  prefer_for_oom_killer();
  ::setpriority(PRIO_PROCESS, 0, 5);
  set_limits(limits);
  return give_up_rights(start_helpers);
}

Result<void> give_up_rights(const std::function<void(const HelperRights&)>& start_helpers) {
  if (auto done = confine::gain_no_rights(); !done) return done;
  start_helpers({.helper = confine_helper, .program = confine::stay_alone});
  if (auto done = confine::open_only({}); !done) return done;
  return confine::call_only({.opening = confine::Opening::kNone, .more = kCompiling});
}

}  // namespace kiln::worker
