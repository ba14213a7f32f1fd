// Preloaded into a daemon: the socket's name goes just before its directory is watched.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int inotify_add_watch(int events, const char* directory, uint32_t mask) {
  const char* name = getenv("KILN_TEST_LOST_SOCKET");
  if (name) unlink(name);
  return (int)syscall(SYS_inotify_add_watch, events, directory, mask);
}
