#include "processes/fresh_start.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "kiln/wire/fd.h"

namespace kiln::server {
namespace {

constexpr size_t kMostProcessors = 8192;
constexpr rlim_t kStack = 8 << 20;             // of the first thread and, by default, of others
constexpr unsigned long kTimerSlack = 50'000;  // ns

// What others than the kernel allow is the kernel's to cut: a mask of all becomes that of the control group.
void take_all_processors() {
  std::array<unsigned long, kMostProcessors / (8 * sizeof(unsigned long))> all{};
  all.fill(~0ul);
  ::syscall(SYS_sched_setaffinity, 0, sizeof all, all.data());
  constexpr int kDefaultPolicy = 0;  // set_mempolicy(2); its header is of a library of its own
  ::syscall(SYS_set_mempolicy, kDefaultPolicy, nullptr, 0);
}

// Later kernels have more of these; an older one refuses those that it does not know.
void take_memory_as_usual() {
  constexpr int kMemoryMerge = 67, kMemoryError = 33, kUsual = 0;  // PR_SET_MEMORY_MERGE, PR_MCE_KILL
  ::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  ::prctl(kMemoryMerge, 0, 0, 0, 0);
  ::prctl(kMemoryError, kUsual, 0, 0, 0);
}

// What the processor may guess, where that is a process's choice.
void speculate_as_usual() {
  for (const unsigned long what : {PR_SPEC_STORE_BYPASS, PR_SPEC_INDIRECT_BRANCH}) {
    ::prctl(PR_SET_SPECULATION_CTRL, what, PR_SPEC_ENABLE, 0, 0);
  }
}

bool write_oom_score(const wire::UniqueFd& file, int score) {
  const std::string text = std::to_string(score);
  return ::pwrite(file.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

// 0, or as little more as it may be: what a privileged process has set for a session cannot be gone below.
void die_as_usual(std::vector<std::string>& kept) {
  const wire::UniqueFd file(::open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC));
  char text[16] = {};
  if (!file || ::pread(file.get(), text, sizeof text - 1, 0) <= 0) return;
  int least = 0, now = std::atoi(text);
  if (now == 0 || write_oom_score(file, 0)) return;
  for (least = 1; least < now;) {
    const int middle = (least + now) / 2;
    if (write_oom_score(file, middle))
      now = middle;
    else
      least = middle + 1;
  }
  kept.push_back("oom_score_adj " + std::to_string(now));
}

// The usual class with the usual slice, which sched_setscheduler(2) leaves as it is. Who may not take back that
// children are to have the usual class (SCHED_FLAG_RESET_ON_FORK) keeps it: that is what they are to have.
bool take_usual_class() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t niceness;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } usual{};
  constexpr uint64_t kResetOnFork = 1;
  usual.size = sizeof usual;
  usual.policy = SCHED_OTHER;
  usual.niceness = ::getpriority(PRIO_PROCESS, 0);
  if (::syscall(SYS_sched_setattr, 0, &usual, 0) == 0) return true;
  usual.flags = kResetOnFork;
  return ::syscall(SYS_sched_setattr, 0, &usual, 0) == 0;
}

void schedule_as_usual(std::vector<std::string>& kept) {
  if (!take_usual_class() && (::sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != SCHED_OTHER) {
    kept.emplace_back("scheduling class");
  }
  if (const int niceness = ::getpriority(PRIO_PROCESS, 0); ::setpriority(PRIO_PROCESS, 0, 0) != 0) {
    kept.push_back("niceness " + std::to_string(niceness));
  }
  constexpr int kOfProcess = 1, kByNiceness = 0;  // ioprio_set(2), which has no header
  if (::syscall(SYS_ioprio_set, kOfProcess, 0, kByNiceness) != 0) kept.emplace_back("I/O priority");
  // 0 would be what this process was given; what it has is what those that it forks are given.
  ::prctl(PR_SET_TIMERSLACK, kTimerSlack);
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
  for (const __rlimit_resource resource : {RLIMIT_NPROC, RLIMIT_MEMLOCK, RLIMIT_SIGPENDING}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) continue;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(resource, &limit);
  }
  // No more than usual: without a limit programs lay out their memory in another way.
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) != 0) return;
  stack.rlim_cur = std::min(stack.rlim_max, kStack);
  ::setrlimit(RLIMIT_STACK, &stack);
  if (stack.rlim_cur < kStack) kept.push_back("limit of " + std::to_string(stack.rlim_cur) + " bytes of stack");
}

// Where libraries, stack and heap lie is decided when a program is executed: by its personality (ASLR, the layout of
// old) and by whether its stack is limited. The kernel itself takes a 64-bit program's READ_IMPLIES_EXEC away.
bool has_odd_layout(std::vector<std::string>& kept) {
  constexpr unsigned long kAsk = 0xffffffff;
  rlimit stack{};
  const bool unlimited = ::getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur == RLIM_INFINITY;
  auto persona = [] { return static_cast<int>(::personality(kAsk) & ~static_cast<unsigned>(READ_IMPLIES_EXEC)); };
  if (::personality(kAsk) == -1 || persona() == PER_LINUX) return unlimited;
  ::personality(PER_LINUX);
  if (persona() == PER_LINUX) return true;
  kept.emplace_back("personality");
  return unlimited;
}

// Those that a service manager has handed to the client (AmbientCapabilities=) are not the user's: the daemon serves
// programs that have none. What this execution has of them ends with it.
bool had_capabilities() {
  bool ambient = false;
  for (unsigned long one = 0; one <= CAP_LAST_CAP; ++one) {
    ambient = ambient || ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, one, 0, 0) == 1;
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) == 0) {
    for (auto& set : sets) set.inheritable = 0;
    ::syscall(SYS_capset, &header, sets.data());
  }
  return ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 && ambient;
}

}  // namespace

Beginning start_afresh() {
  Beginning out;
  take_all_processors();
  take_memory_as_usual();
  speculate_as_usual();
  schedule_as_usual(out.kept);
  die_as_usual(out.kept);
  const bool odd_layout = has_odd_layout(out.kept);
  raise_limits(out.kept);
  out.execute_again = had_capabilities() || odd_layout;
  return out;
}

}  // namespace kiln::server
