// Filters of system calls. Names, because processors number them differently and some lack the old ones.
#include <asm/ioctls.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "kiln/confine/confine.h"
#include "open_again.h"

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
constexpr uint64_t kNoProgram = CLONE_PTRACE | CLONE_UNTRACED | CLONE_PIDFD | CLONE_PARENT;
constexpr uint64_t kWrites = (O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE) & ~O_DIRECTORY;
constexpr uint64_t kSocketType = 0xf;                            // without its flags
constexpr uint64_t kRequestPermission = 0x1023, kTileData = 18;  // of arch_prctl, asm/prctl.h of later kernels
constexpr int kNumbers = 1024;                                   // of system calls; there are half as many

constexpr const char* kAllowed[] = {
    // what is open
    "read", "write", "readv", "writev", "pread64", "pwrite64", "lseek", "close", "dup", "dup2", "dup3", "fstat",
    "recvmsg", "sendmsg", "recvfrom", "sendto", "poll", "ppoll",
    // memory
    "brk", "mmap", "munmap", "mprotect", "mremap", "madvise",
    // threads that are there
    "futex", "set_robust_list", "rseq", "sched_yield", "sched_getaffinity", "getcpu", "membarrier", "exit",
    "exit_group",
    // its own signals
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "pause", "restart_syscall",
    // clocks
    "nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "times",
    // what it is and where
    "getpid", "gettid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getrusage", "getrandom", "uname",
    "sysinfo", "getcwd"};

// How a program begins, looks at files, waits for those that it has started, and speaks with them.
constexpr const char* kPrograms[] = {
    "execve",     "fork",          "vfork",           "wait4",       "waitid",         "arch_prctl",
    "open",       "openat",        "set_tid_address", "access",      "faccessat",      "faccessat2",
    "stat",       "lstat",         "statx",           "statfs",      "fstatfs",        "readlink",
    "readlinkat", "getdents64",    "fadvise64",       "ftruncate",   "fsync",          "fdatasync",
    "pipe",       "pipe2",         "select",          "pselect6",    "eventfd2",       "close_range",
    "umask",      "chdir",         "fchdir",          "getpgrp",     "getpgid",        "getsid",
    "getgroups",  "getresuid",     "getresgid",       "getpriority", "sched_getparam", "sched_getscheduler",
    "getrlimit",  "rt_sigsuspend", "newfstatat"};

// What a driver must not call, whatever its arguments.
constexpr const char* kDenied[] = {
    // other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_open",
    "pidfd_getfd", "pidfd_send_signal", "kill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "kcmp",
    "migrate_pages", "move_pages", "execve", "execveat", "fork", "vfork",
    // what would part it from those who end it
    "setsid", "setpgid",
    // whoever listens or looks
    "bind", "connect", "listen", "accept", "accept4", "sendmmsg", "inotify_init", "inotify_init1", "inotify_add_watch",
    "fanotify_init", "fanotify_mark",
    // what outlives it
    "shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop", "semtimedop", "semctl",
    "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
    // files that it need not open for it
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "setxattr", "lsetxattr",
    "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat", "utime", "utimes",
    "utimensat", "futimesat", "file_setattr",
    // ways into the kernel, and out of where this process is
    "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "bpf", "perf_event_open", "keyctl",
    "add_key", "request_key", "unshare", "setns", "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount",
    "open_tree", "open_tree_attr", "mount_setattr", "fsopen", "fsconfig", "fsmount", "fspick", "open_by_handle_at",
    "name_to_handle_at", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "swapon",
    "swapoff", "reboot", "acct", "personality", "quotactl", "quotactl_fd", "syslog", "vhangup", "modify_ldt"};

// What it may call for itself alone, as allow_on_itself() says.
constexpr const char* kOnItself[] = {"clone",
                                     "clone3",
                                     "tgkill",
                                     "prlimit64",
                                     "setpriority",
                                     "ioprio_set",
                                     "sched_setaffinity",
                                     "sched_setscheduler",
                                     "sched_setattr",
                                     "sched_setparam",
                                     "fcntl",
                                     "prctl",
                                     "socket",
                                     "socketpair",
                                     "sendto",
                                     "flock"};

class Filter {
 public:
  explicit Filter(uint32_t otherwise)
      : otherwise_(otherwise), context_(seccomp_init(otherwise), &seccomp_release), ok_(context_ != nullptr) {}

  // A name that this processor does not have is none that can be called.
  template <class... Arguments>
  void add(uint32_t action, std::string_view name, Arguments... arguments) {
    const int call = seccomp_syscall_resolve_name(std::string(name).c_str());
    if (call < 0 || !ok_ || action == otherwise_) return;
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
    // A driver has threads by now. A tree instead of a list, where the library can make one.
    ok_ = ok_ && seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_TSYNC, 1) == 0;
    (void)seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (ok_ && seccomp_load(context_.get()) == 0) return {};
    return internal_error("the filter of system calls cannot be installed");
  }

 private:
  const uint32_t otherwise_;
  std::unique_ptr<void, decltype(&seccomp_release)> context_;
  bool ok_;
};

// By value, whatever the upper half of a register has.
scmp_arg_cmp is(unsigned argument, uint64_t value) { return SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, kLow, value); }
scmp_arg_cmp has_none(unsigned argument, uint64_t bits) { return SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, bits, 0); }
scmp_arg_cmp has_all(unsigned argument, uint64_t bits) { return SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, bits, bits); }
scmp_arg_cmp is_null(unsigned argument) { return SCMP_CMP(argument, SCMP_CMP_EQ, 0); }

void allow_commands(Filter& filter, std::initializer_list<int> commands) {
  for (int command : commands) filter.allow("fcntl", is(1, static_cast<uint64_t>(command)));
}

void allow_names(Filter& filter, std::initializer_list<int> whats = {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA}) {
  for (int what : whats) filter.allow("prctl", is(0, static_cast<uint64_t>(what)));
}

// Such that have a peer, since what is not connected could be sent to any name.
void allow_sockets(Filter& filter) {
  const auto with_type = [&](const char* call, int type) {
    filter.allow(call, is(0, AF_UNIX), SCMP_CMP(1, SCMP_CMP_MASKED_EQ, kSocketType, static_cast<uint64_t>(type)));
  };
  for (int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    with_type("socket", type);
    with_type("socketpair", type);
  }
}

// That one may be locked and no other. A filter of its own: its number stays that file's.
Result<void> keep(int descriptor) {
  if (descriptor < 0) return {};
  Filter filter(SCMP_ACT_ALLOW);
  const auto number = static_cast<uint64_t>(descriptor);
  filter.deny("close", is(0, number));
  for (const char* name : {"dup2", "dup3"}) filter.deny(name, is(1, number));
  filter.deny("close_range");
  return filter.load();
}

// Of what a driver may do to itself: to its threads, its limits, its descriptors.
void allow_on_itself(Filter& filter) {
  const auto self = static_cast<uint64_t>(::getpid());
  filter.allow("clone", SCMP_CMP(0, SCMP_CMP_MASKED_EQ, kThread | kNamespaces, kThread));
  filter.allow("tgkill", is(0, self));
  for (uint64_t pid : {uint64_t{0}, self}) {
    for (const char* name : {"prlimit64", "sched_setscheduler", "sched_setattr", "sched_setparam"}) {
      filter.allow(name, is(0, pid));
    }
    filter.allow("setpriority", is(0, PRIO_PROCESS), is(1, pid));
  }
  filter.allow("sched_setaffinity", is(0, 0));
  // Of a thread by its number, which cannot be told from a process of others. Nothing is done, and no error made of it:
  // the C library would not start a thread that was to have one.
  for (unsigned bit = 0; bit < 32; ++bit) {
    filter.add(SCMP_ACT_ERRNO(0), "sched_setaffinity", has_all(0, uint64_t{1} << bit));
  }
  allow_commands(filter, {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_ADD_SEALS, F_GET_SEALS,
                          F_SETPIPE_SZ, F_GETPIPE_SZ});
  allow_names(filter, {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_GET_DUMPABLE, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK,
                       PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_CAPBSET_READ});
  allow_sockets(filter);
  filter.allow("sendto", is_null(4));
}

// What a terminal would take for its user's typing.
Result<void> type_nothing() {
  Filter filter(SCMP_ACT_ALLOW);
  for (uint64_t request : {TIOCSTI, TIOCLINUX, TIOCSCTTY}) filter.deny("ioctl", is(1, request));
  return filter.load();
}

bool contains(std::span<const char* const> names, std::string_view name) {
  return std::ranges::any_of(names, [&](const char* each) { return name == each; });
}

}  // namespace

Result<void> call_only(const Calls& calls) {
  Filter filter(SCMP_ACT_ERRNO(EPERM));
  for (const char* name : kAllowed) filter.allow(name);
  for (const std::string_view name : calls.more) {
    if (name == "sched_setaffinity") {
      filter.allow(name, is(0, 0));
    } else if (name == "arch_prctl") {
      filter.allow(name, is(0, kRequestPermission), is(1, kTileData));
    } else if (name == "clone") {
      filter.allow(name, SCMP_CMP(0, SCMP_CMP_MASKED_EQ, kThread | kNoThread | kNamespaces, kThread));
    } else {
      filter.allow(name);
    }
  }
  const auto to_read = SCMP_CMP(2, SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY);
  switch (calls.opening) {
    case Opening::kNone:
      answer_openings();
      filter.add(SCMP_ACT_TRAP, "openat", to_read);
      filter.add(SCMP_ACT_TRAP, "newfstatat");  // Landlock lets everybody look
      break;
    case Opening::kRead:
      filter.allow("openat", to_read);
      filter.allow("newfstatat");
      break;
    case Opening::kWrite:
      filter.allow("openat");
      filter.allow("newfstatat");
      break;
  }
  filter.allow("tgkill", is(0, static_cast<uint64_t>(::getpid())));
  filter.allow("prlimit64", is(0, 0));
  if (calls.lock >= 0) filter.allow("flock", is(0, static_cast<uint64_t>(calls.lock)));
  allow_commands(filter, {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL});
  allow_names(filter);
  if (auto kept = keep(calls.lock); !kept) return kept;
  return filter.load();
}

Result<void> run_programs() {
  Filter filter(SCMP_ACT_ERRNO(EPERM));
  for (const char* name : kAllowed) filter.allow(name);
  for (const char* name : kPrograms) filter.allow(name);
  filter.allow("clone", has_none(0, kNamespaces | kNoProgram));
  filter.allow("prlimit64", is(0, 0), is_null(2));
  filter.allow("ioctl", is(1, TCGETS));
  allow_commands(filter, {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL});
  allow_names(filter);
  filter.allow("prctl", is(0, PR_SET_PDEATHSIG), is(1, SIGKILL));
  // The two below, and a limit of its own to what is left: none gives anything back.
  filter.allow("prctl", is(0, PR_SET_SECCOMP));
  filter.allow("prctl", is(0, PR_SET_NO_NEW_PRIVS));
  filter.allow("seccomp");
  return filter.load();
}

Result<void> stay_alone() {
  Filter filter(SCMP_ACT_ALLOW);
  for (const char* name : {"fork", "vfork", "clone"}) filter.deny(name);
  return filter.load();
}

Result<void> reach_nobody(int lock) {
  // Calls that are newer than the library's list are refused as if the kernel did not have them.
  Filter filter(SCMP_ACT_ERRNO(ENOSYS));
  for (int number = 0; number < kNumbers; ++number) {
    const std::unique_ptr<char, decltype(&std::free)> name(seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number),
                                                           &std::free);
    if (!name || contains(kOnItself, name.get())) continue;
    contains(kDenied, name.get()) ? filter.deny(name.get()) : filter.allow(name.get());
  }
  allow_on_itself(filter);
  if (lock >= 0) filter.allow("flock", is(0, static_cast<uint64_t>(lock)));
  if (auto typed = type_nothing(); !typed) return typed;
  if (auto kept = keep(lock); !kept) return kept;
  return filter.load();
}

}  // namespace kiln::confine
