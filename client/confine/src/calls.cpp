// Filters of system calls. Names, because processors number them differently and some lack the old ones.
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string_view>

#include "kiln/confine/confine.h"

namespace kiln::confine {
namespace {

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

constexpr uint64_t kLow = 0xffffffff;  // of an argument that is an int
constexpr uint64_t kNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
constexpr uint64_t kThread = CLONE_THREAD | CLONE_VM | CLONE_SIGHAND;
constexpr uint64_t kNoThread = CLONE_VFORK | CLONE_PTRACE | CLONE_UNTRACED | CLONE_PIDFD;
constexpr uint64_t kWrites = (O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE) & ~O_DIRECTORY;

constexpr const char* kAllowed[] = {
    // what is open
    "read", "write", "readv", "writev", "pread64", "pwrite64", "lseek", "close", "dup", "dup2", "dup3", "fstat",
    "newfstatat", "memfd_create", "recvmsg", "sendmsg", "recvfrom", "sendto", "poll", "ppoll",
    // memory
    "brk", "mmap", "munmap", "mprotect", "mremap", "madvise",
    // threads
    "futex", "set_robust_list", "rseq", "sched_yield", "sched_getaffinity", "getcpu", "membarrier", "exit",
    "exit_group",
    // its own signals
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "pause", "restart_syscall",
    // clocks
    "nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "times",
    // what it is and where
    "getpid", "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getrusage", "getrandom", "uname",
    "sysinfo", "getcwd"};

constexpr const char* kDenied[] = {
    // other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd",
    "pidfd_send_signal", "kill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "kcmp", "migrate_pages", "move_pages",
    // whoever listens
    "connect", "listen", "accept", "accept4",
    // ways into the kernel, and out of where this process is
    "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "bpf", "perf_event_open", "keyctl",
    "add_key", "request_key", "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree",
    "mount_setattr", "fsopen", "fsconfig", "fsmount", "fspick", "open_by_handle_at", "name_to_handle_at", "kexec_load",
    "kexec_file_load", "init_module", "finit_module", "delete_module", "swapon", "swapoff", "reboot", "acct",
    "personality", "quotactl", "fanotify_init", "syslog"};

class Filter {
 public:
  explicit Filter(uint32_t otherwise) : context_(seccomp_init(otherwise), &seccomp_release), ok_(context_ != nullptr) {}

  // A name that this processor does not have is none that can be called.
  template <class... Arguments>
  void add(uint32_t action, std::string_view name, Arguments... arguments) {
    const int call = seccomp_syscall_resolve_name(std::string(name).c_str());
    if (call < 0 || !ok_) return;
    ok_ = seccomp_rule_add(context_.get(), action, call, sizeof...(arguments), arguments...) == 0;
  }
  template <class... Arguments>
  void allow(std::string_view name, Arguments... arguments) {
    add(SCMP_ACT_ALLOW, name, arguments...);
  }
  template <class... Arguments>
  void deny(std::string_view name, Arguments... arguments) {
    add(SCMP_ACT_ERRNO(EPERM), name, arguments...);
  }
  Result<void> load() {
    // Its flags are in memory, out of a filter's sight; the C library falls back to clone.
    add(SCMP_ACT_ERRNO(ENOSYS), "clone3");
    // A driver has threads by now.
    ok_ = ok_ && seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_TSYNC, 1) == 0;
    if (ok_ && seccomp_load(context_.get()) == 0) return {};
    return internal_error("the filter of system calls cannot be installed");
  }

 private:
  std::unique_ptr<void, decltype(&seccomp_release)> context_;
  bool ok_;
};

// By value, whatever the upper half of a register has.
scmp_arg_cmp is(unsigned argument, uint64_t value) { return SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, kLow, value); }

}  // namespace

Result<void> call_only(Opening opening, std::span<const char* const> more) {
  Filter filter(SCMP_ACT_ERRNO(EPERM));
  for (const char* name : kAllowed) filter.allow(name);
  for (const std::string_view name : more) {
    name == "socket" ? filter.allow(name, is(0, AF_UNIX)) : filter.allow(name);
  }
  if (opening == Opening::kWrite) {
    filter.allow("openat");
  } else {
    filter.allow("openat", SCMP_CMP(2, SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY));
  }
  filter.allow("clone", SCMP_CMP(0, SCMP_CMP_MASKED_EQ, kThread | kNoThread | kNamespaces, kThread));
  filter.allow("tgkill", is(0, static_cast<uint64_t>(::getpid())));
  filter.allow("prlimit64", is(0, 0));
  for (int command : {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL}) {
    filter.allow("fcntl", is(1, static_cast<uint64_t>(command)));
  }
  for (int what : {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA}) filter.allow("prctl", is(0, static_cast<uint64_t>(what)));
  return filter.load();
}

Result<void> reach_nobody(Programs programs) {
  Filter filter(SCMP_ACT_ALLOW);
  for (const char* name : kDenied) filter.deny(name);
  filter.deny("socket", SCMP_CMP(0, SCMP_CMP_NE, AF_UNIX));
  // One rule for each: a namespace is refused whatever else is asked for.
  for (uint64_t bit = 1; bit <= kNamespaces; bit <<= 1) {
    if (kNamespaces & bit) filter.deny("clone", SCMP_CMP(0, SCMP_CMP_MASKED_EQ, bit, bit));
  }
  if (programs == Programs::kNone) {
    for (const char* name : {"execve", "execveat", "fork", "vfork"}) filter.deny(name);
    filter.deny("clone", SCMP_CMP(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
  }
  return filter.load();
}

}  // namespace kiln::confine
