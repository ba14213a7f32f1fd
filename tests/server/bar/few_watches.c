// Preloaded into a daemon: while the file KILN_TEST_NO_WATCHES is there, epoll can watch no more descriptors.
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event* event) {
  const char* name = getenv("KILN_TEST_NO_WATCHES");
  if (operation == EPOLL_CTL_ADD && name && access(name, F_OK) == 0) {
    errno = ENOSPC;
    return -1;
  }
  return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}
