// A candidate that is no kernel: it tries what a measured one must not be able to do, and what it must. 0: as it should
// be. OF_A_GPU: in a process whose driver may have sockets to itself, and is told that threads are tied.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

// What a product by tile registers must be able to ask for: a processor that has none answers otherwise.
static int tiles_are_refused(void) { return syscall(SYS_arch_prctl, 0x1023, 18) != 0 && errno == EPERM; }

static int begins_process(void) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  return child > 0;
}

static int reads_parent(void) {
  char byte;
  struct iovec here = {&byte, 1}, there = {(void*)0x400000, 1};
  return process_vm_readv(getppid(), &here, 1, &there, 1, 0) >= 0;
}

static int opens_of_parent(const char* what, int flags) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)getppid(), what);
  return open(path, flags) >= 0;
}

static int sets_up_ring(void) {
  char parameters[120] = {0};
  return syscall(SYS_io_uring_setup, 4, parameters) >= 0;
}

// Files that others lock, such as that of the daemon's election, may be opened to read.
static int locks_file(void) {
  const int file = open("/proc/self/exe", O_RDONLY);
  struct flock whole = {.l_type = F_RDLCK};
  return flock(file, LOCK_EX | LOCK_NB) == 0 || fcntl(file, F_SETLK, &whole) == 0 ||
         fcntl(file, F_OFD_SETLK, &whole) == 0 || fcntl(file, F_SETLEASE, F_RDLCK) == 0;
}

// Nor does another file get the number of the one that it may lock.
static int locks_file_by_number(void) {
  const int file = open("/proc/self/exe", O_RDONLY);
  for (int number = 3; number < 64; ++number) {
    if (number == file || flock(number, LOCK_EX | LOCK_NB) != 0) continue;
    if (close(number) == 0 || dup2(file, number) >= 0 || dup3(file, number, O_CLOEXEC) >= 0) return 1;
    return syscall(SYS_close_range, number, number, 0) == 0;
  }
  return 1;  // there is none, which would be no test
}

static int sends_datagram(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, "/run/nobody");
  struct iovec part = {&address, 1};
  struct msghdr message = {.msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &part, .msg_iovlen = 1};
  int ends[2] = {-1, -1};
  if (socket(AF_UNIX, SOCK_DGRAM, 0) >= 0 || socket(AF_UNIX, SOCK_RAW, 0) >= 0) return 1;
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0) return 1;
  const int stream = socket(AF_UNIX, SOCK_STREAM, 0);
  return sendmsg(stream, &message, 0) >= 0 || connect(stream, (struct sockaddr*)&address, sizeof address) == 0 ||
         listen(stream, 1) == 0;
}

// Such as others' locks are.
static int takes_name(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path + 1, "kiln-escaped");
  if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 && !OF_A_GPU) return 1;
  for (int number = 0; number < 64; ++number) {
    if (bind(number, (struct sockaddr*)&address, sizeof address) == 0) return 1;
  }
  return 0;
}

static int ties_parent(void) {
  cpu_set_t before, one, after;
  sched_getaffinity(getppid(), sizeof before, &before);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  const int done = sched_setaffinity(getppid(), sizeof one, &one) == 0;
  sched_getaffinity(getppid(), sizeof after, &after);
  return (done && !OF_A_GPU) || !CPU_EQUAL(&before, &after);
}

static int schedules_parent(void) {
  const struct sched_param none = {0};
  struct rlimit limit;
  return sched_setscheduler(getppid(), SCHED_IDLE, &none) == 0 || setpriority(PRIO_PROCESS, getppid(), 19) == 0 ||
         prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit) == 0;
}

static int changes_file(void) {
  return chmod(ESCAPED_FILE "-mode", 0666) == 0 || fchmod(STDERR_FILENO, 0666) == 0 ||
         open("/dev/shm/kiln-escaped", O_CREAT | O_RDWR, 0600) >= 0;
}

// What is there to be written to is the report of its crash, which people read.
static void fill_report(void) {
  const char word[] = "\x1b]0;owned\x07";
  for (int number = 3; number < 64; ++number) {
    struct stat about;
    if (fstat(number, &about) != 0 || !S_ISREG(about.st_mode)) continue;
    for (int i = 0; i < 100000 && write(number, word, sizeof word - 1) > 0; ++i) {
    }
  }
}

static int runs_program(void) {
  char* arguments[] = {"true", NULL};
  execve("/bin/true", arguments, NULL);
  return 0;  // where it works the runner is gone, which its tuner sees
}

int32_t kiln_entry(const void* params, const uint32_t grid[3], uint64_t first, uint64_t last, void* ctx);

int32_t kiln_entry(const void* params, const uint32_t grid[3], uint64_t first, uint64_t last, void* ctx) {
  (void)params, (void)grid, (void)first, (void)last, (void)ctx;
  if (open(ESCAPED_FILE, O_WRONLY | O_CREAT, 0600) >= 0) return 100;
  if (open("/tmp", O_TMPFILE | O_RDWR, 0600) >= 0) return 101;
  if (mkdir(ESCAPED_FILE, 0700) == 0) return 102;
  if (rename("/proc/self/exe", ESCAPED_FILE) == 0) return 103;
  if (socket(AF_INET, SOCK_STREAM, 0) >= 0) return 104;
  if (begins_process()) return 105;
  if (kill(getppid(), 0) == 0) return 106;
  if (reads_parent()) return 107;
  if (opens_of_parent("mem", O_RDWR)) return 108;
  if (ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) == 0) return 109;
  if (sets_up_ring()) return 110;
  if (unshare(CLONE_NEWUSER) == 0) return 111;
  if (locks_file()) return 112;
  if (locks_file_by_number()) return 113;
  if (sends_datagram()) return 114;
  if (ties_parent()) return 115;
  if (schedules_parent()) return 116;
  if (changes_file()) return 117;
  if (tiles_are_refused()) return 118;
  if (takes_name()) return 119;
  if (opens_of_parent("mem", O_RDONLY)) return 120;
  if (opens_of_parent("environ", O_RDONLY)) return 121;
  fill_report();
  return runs_program();
}
