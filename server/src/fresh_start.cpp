#include "fresh_start.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace kiln::server {
namespace {

constexpr size_t kMostProcessors = 8192;
constexpr rlim_t kStack = 8 << 20;  // of the first thread and, by default, of others

// What others than the kernel allow is the kernel's to cut: a mask of all becomes that of the control group.
void take_all_processors() {
  std::array<unsigned long, kMostProcessors / (8 * sizeof(unsigned long))> all{};
  all.fill(~0ul);
  ::syscall(SYS_sched_setaffinity, 0, sizeof all, all.data());
  constexpr int kDefaultPolicy = 0;  // set_mempolicy(2); its header is of a library of its own
  ::syscall(SYS_set_mempolicy, kDefaultPolicy, nullptr, 0);
}

void schedule_as_usual(std::vector<std::string>& kept) {
  const sched_param none{};
  if (::sched_getscheduler(0) != SCHED_OTHER && ::sched_setscheduler(0, SCHED_OTHER, &none) != 0) {
    kept.emplace_back("scheduling class");
  }
  if (const int niceness = ::getpriority(PRIO_PROCESS, 0); ::setpriority(PRIO_PROCESS, 0, 0) != 0) {
    kept.push_back("niceness " + std::to_string(niceness));
  }
  constexpr int kOfProcess = 1, kByNiceness = 0;  // ioprio_set(2), which has no header
  if (::syscall(SYS_ioprio_set, kOfProcess, 0, kByNiceness) != 0) kept.emplace_back("I/O priority");
  ::prctl(PR_SET_TIMERSLACK, 0);
}

// As high as it may be: root raises what is the most, too.
rlim_t raise_limit(__rlimit_resource resource) {
  const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
  if (::setrlimit(resource, &none) == 0) return RLIM_INFINITY;
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return RLIM_INFINITY;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(resource, &limit);
  return limit.rlim_cur;
}

void raise_limits(std::vector<std::string>& kept) {
  constexpr std::pair<__rlimit_resource, const char*> kEndOfADaemon[] = {{RLIMIT_CPU, "seconds of processor time"},
                                                                         {RLIMIT_FSIZE, "bytes a file"},
                                                                         {RLIMIT_AS, "bytes of address space"},
                                                                         {RLIMIT_DATA, "bytes of data"}};
  for (const auto& [resource, what] : kEndOfADaemon) {
    const rlim_t most = raise_limit(resource);
    if (most != RLIM_INFINITY) kept.push_back("limit of " + std::to_string(most) + " " + what);
  }
  rlimit processes{};
  if (::getrlimit(RLIMIT_NPROC, &processes) == 0) {
    processes.rlim_cur = processes.rlim_max;
    ::setrlimit(RLIMIT_NPROC, &processes);
  }
  // No more than usual: without a limit programs lay out their memory in another way.
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) != 0) return;
  stack.rlim_cur = std::min(stack.rlim_max, kStack);
  ::setrlimit(RLIMIT_STACK, &stack);
  if (stack.rlim_cur < kStack) kept.push_back("limit of " + std::to_string(stack.rlim_cur) + " bytes of stack");
}

}  // namespace

std::vector<std::string> start_afresh() {
  std::vector<std::string> kept;
  take_all_processors();
  schedule_as_usual(kept);
  raise_limits(kept);
  return kept;
}

}  // namespace kiln::server
