#include "attempts.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kiln::service_test {
namespace {

constexpr int kChannel = 3;                                  // of a worker
constexpr int kOfProcess = 1, kOfUser = 3, kIdle = 3 << 13;  // of ioprio_set, which has no header for C++

int outcome(long result) { return result >= 0 ? 0 : errno; }

int open_proc(const Prey& prey, const char* what, int flags) {
  return outcome(::open(("/proc/" + std::to_string(prey.daemon) + "/" + what).c_str(), flags));
}

int move_memory(const Prey& prey, bool write) {
  char byte = 0;
  iovec here{&byte, 1}, there{reinterpret_cast<void*>(0x400000), 1};
  const ssize_t count = write ? ::process_vm_writev(prey.daemon, &here, 1, &there, 1, 0)
                              : ::process_vm_readv(prey.daemon, &here, 1, &there, 1, 0);
  return count < 0 && errno == EFAULT ? 0 : outcome(count);  // it was let in
}

int take_descriptor(const Prey& prey) {
  const long process = ::syscall(SYS_pidfd_open, prey.daemon, 0);
  return process < 0 ? errno : outcome(::syscall(SYS_pidfd_getfd, process, 0, 0));
}

int signal_by_pidfd(const Prey& prey) {
  const long process = ::syscall(SYS_pidfd_open, prey.daemon, 0);
  return process < 0 ? errno : outcome(::syscall(SYS_pidfd_send_signal, process, 0, nullptr, 0));
}

int queue_signal(const Prey& prey) {
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  return outcome(::syscall(SYS_rt_sigqueueinfo, prey.daemon, SIGUSR1, &info));
}

// The kernel would send it when there is something to read.
int signal_by_channel(const Prey& prey) {
  const int owned = outcome(::fcntl(kChannel, F_SETOWN, prey.daemon));
  return owned != 0 ? owned : outcome(::fcntl(kChannel, F_SETFL, O_ASYNC));
}

int write_file(const std::string& path) { return outcome(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600)); }

int process_by(long child) {
  if (child == 0) ::_exit(0);
  return outcome(child);
}

int new_user_by_clone() {
  return process_by(::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

// As a thread has all but one of these flags.
int process_with_shared_memory() {
  alignas(16) static char stack[16 << 10];
  return outcome(::clone([](void*) { return 0; }, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr));
}

int process_by_clone3() {
  struct {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
  } arguments{};
  arguments.exit_signal = SIGCHLD;
  return process_by(::syscall(SYS_clone3, &arguments, sizeof arguments));
}

int start_thread() {
  pthread_t thread{};
  const int error = ::pthread_create(&thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
  return error == 0 ? ::pthread_join(thread, nullptr) : error;
}

int run_from_memory() {
  const int file = ::memfd_create("program", MFD_CLOEXEC);
  char name[] = "program";
  char* arguments[] = {name, nullptr};
  return outcome(::syscall(SYS_execveat, file, "", arguments, nullptr, AT_EMPTY_PATH));
}

int run_program() {
  char name[] = "/bin/true";
  char* arguments[] = {name, nullptr};
  return outcome(::execve(name, arguments, nullptr));
}

int bind_name(const Prey& prey) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (prey.directory + "/bound").copy(address.sun_path, sizeof address.sun_path - 1);
  return outcome(::bind(kChannel, reinterpret_cast<sockaddr*>(&address), sizeof address));
}

// Which others may want, as a lock of the machine's is such a name.
int take_name() {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path + 1, "kiln-attempt");
  return outcome(::bind(socket < 0 ? kChannel : socket, reinterpret_cast<sockaddr*>(&address), sizeof address));
}

int connect_anew(const Prey& prey) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (prey.directory + "/kilnd.v1.sock").copy(address.sun_path, sizeof address.sun_path - 1);
  return outcome(::connect(kChannel, reinterpret_cast<sockaddr*>(&address), sizeof address));
}

int count_events(const Prey& prey) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.exclude_kernel = 1;
  return outcome(::syscall(SYS_perf_event_open, &attributes, prey.daemon, -1, -1, 0));
}

int make_map() {
  bpf_attr attributes{};
  attributes.map_type = BPF_MAP_TYPE_ARRAY;
  attributes.key_size = attributes.value_size = 4;
  attributes.max_entries = 1;
  return outcome(::syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
}

int open_by_handle(const Prey&) {
  alignas(file_handle) char space[sizeof(file_handle) + 128] = {};
  auto* handle = reinterpret_cast<file_handle*>(space);
  handle->handle_bytes = 8;
  return outcome(::open_by_handle_at(AT_FDCWD, handle, O_RDONLY));
}

int set_up_ring() {
  char parameters[120] = {};
  return outcome(::syscall(SYS_io_uring_setup, 4, parameters));
}

int raise_limit(const Prey& prey) {
  rlimit none{0, 0};
  return outcome(::prlimit(prey.daemon, RLIMIT_NOFILE, nullptr, &none));
}

// Who has the highest one already would be refused nothing.
int raise_own_priority(const Prey&) {
  (void)::setpriority(PRIO_PROCESS, 0, 19);
  return outcome(::setpriority(PRIO_PROCESS, 0, -20));
}

int raise_own(__rlimit_resource_t resource) {
  rlimit all{RLIM_INFINITY, RLIM_INFINITY};
  return outcome(::setrlimit(resource, &all));
}

// Some are told that it was done, so it is looked at.
int pin(const Prey& prey) {
  cpu_set_t before, one, after;
  for (cpu_set_t* set : {&before, &one, &after}) CPU_ZERO(set);
  if (::sched_getaffinity(prey.daemon, sizeof before, &before) != 0) return errno;
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  if (::sched_setaffinity(prey.daemon, sizeof one, &one) != 0) return errno;
  ::sched_getaffinity(prey.daemon, sizeof after, &after);
  return CPU_EQUAL(&before, &after) && CPU_COUNT(&before) > 1 ? EPERM : 0;
}

int idle_class(const Prey& prey) {
  sched_param none{};
  return outcome(::sched_setscheduler(prey.daemon, SCHED_IDLE, &none));
}

int same_parameters(const Prey& prey) {
  sched_param none{};
  return outcome(::sched_setparam(prey.daemon, &none));
}

int attributes_of_scheduling(const Prey& prey) {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes{48, SCHED_BATCH, 0, 19, 0, 0, 0, 0};
  return outcome(::syscall(SYS_sched_setattr, prey.daemon, &attributes, 0));
}

int slow_files(int who, int number) { return outcome(::syscall(SYS_ioprio_set, who, number, kIdle)); }

int with_key(const Prey& prey, int (*act)(int file)) {
  const int file = ::open((prey.directory + "/key").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno;
  const int error = act(file);
  ::close(file);
  return error;
}

int lock_record(int file) {
  struct flock whole{};
  whole.l_type = F_RDLCK;
  return outcome(::fcntl(file, F_SETLK, &whole));
}

int lock_description(int file) {
  struct flock whole{};
  whole.l_type = F_RDLCK;
  return outcome(::fcntl(file, F_OFD_SETLK, &whole));
}

int hear_of_changes(const Prey& prey) {
  const int directory = ::open(prey.directory.c_str(), O_RDONLY | O_DIRECTORY);
  return directory < 0 ? errno : outcome(::fcntl(directory, F_NOTIFY, DN_MODIFY));
}

int watch_directory(const Prey& prey) {
  const int queue = ::inotify_init1(IN_CLOEXEC);
  return queue < 0 ? errno : outcome(::inotify_add_watch(queue, prey.directory.c_str(), IN_MODIFY));
}

int open_queue() {
  const mqd_t queue = ::mq_open("/kiln-attempt", O_CREAT | O_RDWR, 0600, nullptr);
  if (queue != static_cast<mqd_t>(-1)) ::mq_unlink("/kiln-attempt");
  return outcome(queue);
}

// To whoever has that name, or to nobody: the kernel has looked for it then.
int send_to(int socket, const Prey& prey, bool by_message) {
  if (socket < 0) return errno;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (prey.directory + "/listener").copy(address.sun_path, sizeof address.sun_path - 1);
  char word = 'x';
  iovec part{&word, 1};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = sizeof address;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const ssize_t sent = by_message ? ::sendmsg(socket, &message, MSG_NOSIGNAL)
                                  : ::sendto(socket, &word, 1, MSG_NOSIGNAL,
                                             reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return sent < 0 && (errno == ENOENT || errno == ECONNREFUSED) ? 0 : outcome(sent);
}

int send_from_pair(const Prey& prey) {
  int ends[2];
  return ::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0 ? errno : send_to(ends[0], prey, true);
}

// Such files as are open to be appended to, by their names in /proc.
int empty_open_files() {
  int error = EPERM;
  for (int number = 0; number < 64; ++number) {
    struct stat about{};
    if (::fstat(number, &about) != 0 || !S_ISREG(about.st_mode)) continue;
    error = outcome(::open(("/proc/self/fd/" + std::to_string(number)).c_str(), O_WRONLY | O_TRUNC));
    if (error == 0) return 0;
  }
  return error;
}

// That a file is there, how large it is, whose and how old; or that there is none. Not by a C library's choice of
// calls.
int look_at(const std::string& path) {
  struct stat about{};
  const int error = outcome(::syscall(SYS_newfstatat, AT_FDCWD, path.c_str(), &about, 0));
  return error == ENOENT ? 0 : error;
}

int look_more_closely(const Prey& prey) {
  struct statx about{};
  return outcome(::syscall(SYS_statx, AT_FDCWD, (prey.directory + "/key").c_str(), 0, STATX_BASIC_STATS, &about));
}

int read_link(const char* path) {
  char to[256];
  return outcome(::readlinkat(AT_FDCWD, path, to, sizeof to));
}

struct Attempt {
  const char* name;
  int (*run)(const Prey& prey);
};

using P = const Prey&;
constexpr Attempt kAttempts[] = {
    {"io_uring", [](P) { return set_up_ring(); }},
    {"daemon_memory_read", [](P prey) { return open_proc(prey, "mem", O_RDONLY); }},
    {"daemon_memory_write", [](P prey) { return open_proc(prey, "mem", O_RDWR); }},
    {"daemon_environment", [](P prey) { return open_proc(prey, "environ", O_RDONLY); }},
    {"daemon_descriptors", [](P prey) { return open_proc(prey, "fd", O_RDONLY | O_DIRECTORY); }},
    {"process_vm_readv", [](P prey) { return move_memory(prey, false); }},
    {"process_vm_writev", [](P prey) { return move_memory(prey, true); }},
    {"pidfd_getfd", take_descriptor},
    {"pidfd_send_signal", signal_by_pidfd},
    {"kill_daemon", [](P prey) { return outcome(::kill(prey.daemon, 0)); }},
    {"kill_daemons_group", [](P prey) { return outcome(::kill(-prey.group, 0)); }},
    {"kill_zygote", [](P) { return outcome(::kill(::getppid(), 0)); }},
    {"tgkill_daemon", [](P prey) { return outcome(::syscall(SYS_tgkill, prey.daemon, prey.daemon, 0)); }},
    {"tkill_daemon", [](P prey) { return outcome(::syscall(SYS_tkill, prey.daemon, 0)); }},
    {"sigqueue_daemon", queue_signal},
    {"signal_by_the_channel", signal_by_channel},
    {"start_up_file", [](P prey) { return write_file(prey.directory + "/.profile"); }},
    {"overwrite_key", [](P prey) { return outcome(::open((prey.directory + "/key").c_str(), O_WRONLY | O_TRUNC)); }},
    {"read_key", [](P prey) { return outcome(::open((prey.directory + "/key").c_str(), O_RDONLY)); }},
    {"look_at_file", [](P prey) { return look_at(prey.directory + "/key"); }},
    {"look_for_file", [](P prey) { return look_at(prey.directory + "/none"); }},
    {"look_more_closely", look_more_closely},
    {"ask_for_access",
     [](P prey) { return outcome(::syscall(SYS_faccessat, AT_FDCWD, (prey.directory + "/key").c_str(), R_OK)); }},
    {"read_link", [](P) { return read_link("/proc/self/exe"); }},
    {"list_directory", [](P prey) { return outcome(::open(prey.directory.c_str(), O_RDONLY | O_DIRECTORY)); }},
    {"cache_entry", [](P prey) { return write_file(prey.directory + "/cache/planted"); }},
    {"nameless_file", [](P prey) { return outcome(::open(prey.directory.c_str(), O_TMPFILE | O_RDWR, 0600)); }},
    {"make_directory", [](P prey) { return outcome(::mkdir((prey.directory + "/made").c_str(), 0700)); }},
    {"make_link", [](P prey) { return outcome(::symlink("/", (prey.directory + "/made").c_str())); }},
    {"make_fifo", [](P prey) { return outcome(::mkfifo((prey.directory + "/made").c_str(), 0600)); }},
    {"remove_file", [](P prey) { return outcome(::unlink((prey.directory + "/key").c_str())); }},
    {"rename_file",
     [](P prey) { return outcome(::rename((prey.directory + "/key").c_str(), (prey.directory + "/made").c_str())); }},
    {"change_mode", [](P prey) { return outcome(::chmod((prey.directory + "/key").c_str(), 0666)); }},
    {"truncate_file", [](P prey) { return outcome(::truncate((prey.directory + "/key").c_str(), 0)); }},
    {"change_root", [](P prey) { return outcome(::chroot(prey.directory.c_str())); }},
    {"change_directory", [](P prey) { return outcome(::chdir(prey.directory.c_str())); }},
    {"unshare_user", [](P) { return outcome(::unshare(CLONE_NEWUSER)); }},
    {"clone_user", [](P) { return new_user_by_clone(); }},
    {"userfaultfd", [](P) { return outcome(::syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY)); }},
    {"socket_inet", [](P) { return outcome(::socket(AF_INET, SOCK_STREAM, 0)); }},
    {"socket_unix", [](P) { return outcome(::socket(AF_UNIX, SOCK_STREAM, 0)); }},
    {"socket_netlink", [](P) { return outcome(::socket(AF_NETLINK, SOCK_RAW, 0)); }},
    {"socket_pair",
     [](P) {
       int ends[2];
       return outcome(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
     }},
    {"connect", connect_anew},
    {"bind", bind_name},
    {"ptrace_attach", [](P prey) { return outcome(::ptrace(PTRACE_SEIZE, prey.daemon, nullptr, nullptr)); }},
    {"ptrace_me", [](P) { return outcome(::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)); }},
    {"execve", [](P) { return run_program(); }},
    {"execveat_of_memory", [](P) { return run_from_memory(); }},
    {"fork", [](P) { return process_by(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)); }},
    {"process_with_shared_memory", [](P) { return process_with_shared_memory(); }},
    {"clone3", [](P) { return process_by_clone3(); }},
    {"open_by_handle", open_by_handle},
    {"perf_event", count_events},
    {"bpf", [](P) { return make_map(); }},
    {"keyctl", [](P) { return outcome(::syscall(SYS_keyctl, 0, -3, 0, 0, 0)); }},
    {"add_key", [](P) { return outcome(::syscall(SYS_add_key, "user", "kiln", "x", 1, -3)); }},
    {"mount", [](P prey) { return outcome(::mount("none", prey.directory.c_str(), "tmpfs", 0, nullptr)); }},
    {"set_namespace", [](P) { return outcome(::setns(kChannel, 0)); }},
    {"dumpable", [](P) { return outcome(::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)); }},
    {"outlive_the_daemon", [](P) { return outcome(::prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)); }},
    {"own_session", [](P) { return outcome(::setsid()); }},
    {"daemons_limits", raise_limit},
    {"daemons_processors", pin},
    {"daemons_priority",
     [](P prey) { return outcome(::setpriority(PRIO_PROCESS, static_cast<id_t>(prey.daemon), 19)); }},
    {"type_into_terminal",
     [](P) {
       char letter = 'x';
       return outcome(::ioctl(STDERR_FILENO, TIOCSTI, &letter));
     }},
    {"shared_memory", [](P) { return outcome(::syscall(SYS_shmget, 0x6b696c6e, 4096, 0600 | 01000)); }},
    {"message_queue", [](P) { return outcome(::syscall(SYS_msgget, 0x6b696c6e, 0600 | 01000)); }},
    {"semaphores", [](P) { return outcome(::syscall(SYS_semget, 0x6b696c6e, 1, 0600 | 01000)); }},
    {"named_queue", [](P) { return open_queue(); }},
    {"shared_file", [](P) { return write_file("/dev/shm/kiln-attempt"); }},
    {"change_mode_at",
     [](P prey) { return outcome(::fchmodat(AT_FDCWD, (prey.directory + "/key").c_str(), 0666, 0)); }},
    {"change_mode_of_open",
     [](P prey) { return with_key(prey, [](int file) { return outcome(::fchmod(file, 0666)); }); }},
    {"change_owner",
     [](P prey) { return outcome(::chown((prey.directory + "/key").c_str(), ::getuid(), ::getgid())); }},
    {"set_attribute",
     [](P prey) { return outcome(::setxattr((prey.directory + "/key").c_str(), "user.kiln", "x", 1, 0)); }},
    {"remove_attribute",
     [](P prey) {
       const int error = outcome(::removexattr((prey.directory + "/key").c_str(), "user.kiln"));
       return error == ENODATA ? 0 : error;  // it looked for it
     }},
    {"change_times",
     [](P prey) { return outcome(::utimensat(AT_FDCWD, (prey.directory + "/key").c_str(), nullptr, 0)); }},
    {"lock_file", [](P prey) { return with_key(prey, [](int f) { return outcome(::flock(f, LOCK_EX | LOCK_NB)); }); }},
    {"lock_record", [](P prey) { return with_key(prey, lock_record); }},
    {"lock_description", [](P prey) { return with_key(prey, lock_description); }},
    {"lease", [](P prey) { return with_key(prey, [](int f) { return outcome(::fcntl(f, F_SETLEASE, F_RDLCK)); }); }},
    {"hear_of_changes", hear_of_changes},
    {"watch_directory", watch_directory},
    {"watch_all", [](P) { return outcome(::fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY)); }},
    {"daemons_class", idle_class},
    {"daemons_parameters", same_parameters},
    {"daemons_scheduling", attributes_of_scheduling},
    {"daemons_files", [](P prey) { return slow_files(kOfProcess, prey.daemon); }},
    {"users_priority", [](P) { return outcome(::setpriority(PRIO_USER, ::getuid(), 19)); }},
    {"users_files", [](P) { return slow_files(kOfUser, static_cast<int>(::getuid())); }},
    {"own_priority", raise_own_priority},
    {"kill_all", [](P) { return outcome(::kill(-1, 0)); }},
    {"signal_by_its_number", [](P) { return outcome(::fcntl(kChannel, F_SETSIG, SIGKILL)); }},
    {"datagram", [](P prey) { return send_to(::socket(AF_UNIX, SOCK_DGRAM, 0), prey, false); }},
    {"datagram_message", [](P prey) { return send_to(::socket(AF_UNIX, SOCK_DGRAM, 0), prey, true); }},
    {"datagram_raw", [](P prey) { return send_to(::socket(AF_UNIX, SOCK_RAW, 0), prey, true); }},
    {"datagram_from_a_pair", send_from_pair},
    {"socket_of_the_kernels_ciphers", [](P) { return outcome(::socket(AF_ALG, SOCK_SEQPACKET, 0)); }},
    {"socket_of_the_host", [](P) { return outcome(::socket(AF_VSOCK, SOCK_STREAM, 0)); }},
    {"own_memory", [](P) { return raise_own(RLIMIT_AS); }},
    {"own_files", [](P) { return raise_own(RLIMIT_FSIZE); }},
    {"own_time", [](P) { return raise_own(RLIMIT_CPU); }},
    {"own_descriptors", [](P) { return raise_own(RLIMIT_NOFILE); }},
    {"own_core", [](P) { return raise_own(RLIMIT_CORE); }},
    {"own_queues", [](P) { return raise_own(RLIMIT_MSGQUEUE); }},
    {"killed_later", [](P) { return outcome(::open("/proc/self/oom_score_adj", O_WRONLY)); }},
    {"write_over_the_log", [](P) { return outcome(::fcntl(STDERR_FILENO, F_SETFL, 0)); }},
    {"empty_the_report", [](P) { return empty_open_files(); }},
    {"own_group", [](P) { return outcome(::setpgid(0, 0)); }},
    {"children_of_others", [](P) { return outcome(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)); }},
    {"traced_by_all", [](P) { return outcome(::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)); }},
    {"sibling",
     [](P) { return process_by(::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr)); }},
    {"users_terminal", [](P) { return outcome(::open("/dev/tty", O_RDWR | O_NOCTTY)); }},
    {"new_terminal", [](P) { return outcome(::open("/dev/ptmx", O_RDWR | O_NOCTTY)); }},
    {"name_for_others", [](P) { return take_name(); }},
    {"thread", [](P) { return start_thread(); }},
    {"anonymous_file", [](P) { return outcome(::memfd_create("attempt", MFD_CLOEXEC)); }},
    {"segments_of_code", [](P) { return outcome(::syscall(SYS_modify_ldt, 1, nullptr, 0)); }},
};

const Attempt* find(const std::string& name) {
  const auto* found = std::ranges::find_if(kAttempts, [&](const Attempt& each) { return name == each.name; });
  return found == std::end(kAttempts) ? nullptr : found;
}

}  // namespace

std::vector<std::string> attempt_names() {
  std::vector<std::string> out;
  for (const Attempt& each : kAttempts) out.emplace_back(each.name);
  return out;
}

int attempt(const std::string& name, const Prey& prey) {
  const Attempt* found = find(name);
  return found ? found->run(prey) : 0;
}

}  // namespace kiln::service_test
