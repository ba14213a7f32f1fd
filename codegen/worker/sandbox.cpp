// What a worker gives up before it takes its first job: it handles untrusted input with a large code base.
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <memory>

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
  int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)!::write(fd, "500", 3);
  ::close(fd);
}

bool deny(scmp_filter_ctx filter, int call, int number = EPERM) {
  return seccomp_rule_add(filter, SCMP_ACT_ERRNO(static_cast<uint32_t>(number)), call, 0) == 0;
}

// A deny-list: no network, no other programs, no other processes. Threads stay possible.
Result<void> filter_system_calls() {
  std::unique_ptr<void, decltype(&seccomp_release)> filter(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release);
  if (!filter) return internal_error("seccomp_init failed");
  bool ok = true;
  for (int call : {SCMP_SYS(socket), SCMP_SYS(connect), SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(ptrace),
                   SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(fork), SCMP_SYS(vfork)}) {
    ok = ok && deny(filter.get(), call);
  }
  // clone3 has its flags in memory, out of a filter's sight; the C library falls back to clone.
  ok = ok && deny(filter.get(), SCMP_SYS(clone3), ENOSYS);
  ok = ok && seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                              SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)) == 0;
  if (!ok || seccomp_load(filter.get()) != 0) return internal_error("the seccomp filter cannot be installed");
  return {};
}

}  // namespace

void limit_memory(uint64_t bytes) {
  // The hard limit stays: the next job may be given more.
  if (kLimitMemory) limit(RLIMIT_AS, bytes == 0 ? RLIM_INFINITY : bytes, RLIM_INFINITY);
}

Result<void> enter_sandbox(const Limits& limits, int parent_pid) {
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
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_NOFILE, 64, 64);
  limit_memory(limits.memory_bytes);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return internal_error("PR_SET_NO_NEW_PRIVS failed");
  return filter_system_calls();
}

}  // namespace kiln::worker
