// What a worker gives up before it takes its first job: it handles untrusted input with a large code base.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "kiln/confine/confine.h"
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

void limit(int resource, uint64_t soft, uint64_t hard) {
  rlimit value{static_cast<rlim_t>(soft), static_cast<rlim_t>(hard)};
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &value);
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

// On the way in, so that helpers keep a part of the rights: they may run programs.
Result<void> give_up_all_but_helpers(const std::function<void()>& start_helpers) {
  if (auto done = confine::gain_no_rights(); !done) return done;
  if (auto done = confine::open_only({.read = program_files()}); !done) return done;
  if (auto done = confine::reach_nobody(confine::Programs::kAny); !done) return done;
  start_helpers();
  return {};
}

}  // namespace

bool memory_can_be_limited() { return kLimitMemory; }

void limit_memory(uint64_t bytes) {
  // The hard limit stays: the next job may be given more.
  if (kLimitMemory) limit(RLIMIT_AS, bytes == 0 ? RLIM_INFINITY : bytes, RLIM_INFINITY);
}

Result<void> enter_sandbox(const Limits& limits, int parent_pid, const std::function<void()>& start_helpers) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent_pid) ::_exit(kExitOrphan);  // the parent died before the line above
  for (int number : {SIGTERM, SIGINT, SIGHUP, SIGXCPU}) std::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::setlocale(LC_ALL, "C");
  prefer_for_oom_killer();
  if (auto done = give_up_all_but_helpers(start_helpers); !done) return done;
  ::setpriority(PRIO_PROCESS, 0, 5);
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_NOFILE, 64, 64);
  limit_memory(limits.memory_bytes);
  if (auto done = confine::open_only({}); !done) return done;
  return confine::call_only(confine::Opening::kRead);
}

}  // namespace kiln::worker
