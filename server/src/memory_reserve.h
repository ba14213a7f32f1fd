// Memory for the time when the system has none left (ulimit -v, or a limit of what may be committed): what malloc()
// refuses then is taken from here. So what is under way ends as it always does, also where nothing may fail, as in
// nlohmann's destructors, which allocate. What would begin meanwhile is refused (memory_watch.h).
//
// It stays a room of its own: had it been given up to malloc(), a heap would have grown into it, and that address space
// would not come back however much is freed in the heap.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "kiln/dsl/result.h"

namespace kiln::server {

// For any thread, but for open(). Without open() it is empty, and costs nothing.
class MemoryReserve {
 public:
  static constexpr size_t kBytes = 8u << 20;
  // What is larger is a request's or an artifact's, whose owner is told.
  static constexpr size_t kMostAtOnce = 64u << 10;
  // The second half is for small blocks of the thread that opened it, which runs the daemon, and for whoever is being
  // thrown an exception already: what goes through a directory of a million entries on another thread gets no further
  // than to the first half.
  static constexpr size_t kSmall = 1u << 10;

  // Once, before there are other threads, for whose stacks there is room where it succeeds. The address space is the
  // process's until it ends.
  Result<void> open();

  // What malloc() has not given. Null: it is not to be had here either.
  void* take(size_t bytes) noexcept;
  bool owns(const void* block) const noexcept {
    return begin_ && reinterpret_cast<uintptr_t>(block) - reinterpret_cast<uintptr_t>(begin_) < kBytes;
  }
  // One that it owns.
  void give_back(void* block) noexcept;

  // How often something was wanted of it, and how often that was not to be had.
  uint64_t wanted() const { return wanted_.load(std::memory_order_relaxed); }
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  size_t used() noexcept;

 private:
  bool has(size_t bytes) noexcept;
  size_t free_bytes() const noexcept;

  std::mutex mutex_;
  std::byte* begin_ = nullptr;
  size_t empty_ = 0;  // free bytes when nothing is taken
  pid_t owner_ = 0;   // the thread
  std::atomic<uint64_t> wanted_{0}, refused_{0};
};

// That of this process. operator new and delete of kilnd know no other way to it (memory_operators.cpp).
extern MemoryReserve memory_reserve;

}  // namespace kiln::server
