// What the calling thread cannot have while one of these lives. One at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln::service_test {

// Allocations fail, `count` of them, after the first `after`.
class NoMemory {
 public:
  explicit NoMemory(size_t after = 0, size_t count = SIZE_MAX);
  ~NoMemory();
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;

  // One has failed.
  bool was_felt() const;
};

// No descriptor can be watched by epoll: the user's watches (/proc/sys/fs/epoll/max_user_watches) are used up.
class NoWatches {
 public:
  // The first `after` still can.
  explicit NoWatches(size_t after = 0);
  ~NoWatches();
  NoWatches(const NoWatches&) = delete;
  NoWatches& operator=(const NoWatches&) = delete;
};

}  // namespace kiln::service_test
