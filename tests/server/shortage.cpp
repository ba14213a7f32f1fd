// In a file of its own, where nobody can see through the operators and compare them with each other.
#include "shortage.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

// After the first `after` calls the next `count` fail.
struct Shortage {
  size_t after = 0, count = 0;
  bool was_felt = false;

  bool strikes() {
    if (count == 0) return false;
    if (after > 0) {
      --after;
      return false;
    }
    --count;
    return was_felt = true;
  }
};
thread_local Shortage memory, watches;

}  // namespace

kiln::service_test::NoMemory::NoMemory(size_t after, size_t count) { memory = {.after = after, .count = count}; }
kiln::service_test::NoMemory::~NoMemory() { memory = {}; }
bool kiln::service_test::NoMemory::was_felt() const { return memory.was_felt; }

kiln::service_test::NoWatches::NoWatches(size_t after) { watches = {.after = after, .count = SIZE_MAX}; }
kiln::service_test::NoWatches::~NoWatches() { watches = {}; }

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return memory.strikes() ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
}
void* operator new(size_t bytes) {
  if (void* out = operator new(bytes, std::nothrow)) return out;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }

extern "C" int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  if (operation == EPOLL_CTL_ADD && watches.strikes()) {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_epoll_ctl, epoll, operation, fd, event));
}
