// A candidate that is no kernel: it tries what a measured one must not be able to do. 0: nothing worked.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

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

static int opens_parents_memory(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", (int)getppid());
  return open(path, O_RDWR) >= 0;
}

static int sets_up_ring(void) {
  char parameters[120] = {0};
  return syscall(SYS_io_uring_setup, 4, parameters) >= 0;
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
  if (opens_parents_memory()) return 108;
  if (ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) == 0) return 109;
  if (sets_up_ring()) return 110;
  if (unshare(CLONE_NEWUSER) == 0) return 111;
  return runs_program();
}
