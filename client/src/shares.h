// How the threads of a launch share its programs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kiln::client {

// The programs of one thread, on a cache line that it has to itself until others help.
struct alignas(64) Share {
  std::atomic<uint64_t> next;
  uint64_t end = 0, size = 0;

  // That of thread `mine` of so many: contiguous, and the same in every launch of as many programs.
  void begin(uint64_t programs, uint64_t mine, uint64_t threads) {
    const uint64_t each = programs / threads, more = programs % threads;
    const uint64_t first = mine * each + std::min(mine, more);
    size = each + (mine < more ? 1 : 0);
    end = first + size;
    next.store(first, std::memory_order_relaxed);
  }
};

struct Range {
  uint64_t first, last;
};

// The next programs of a share, fewer towards its end, or none: a thread that is late leaves the last ones to others.
// Few programs are mostly large, and neighbours share what a call keeps: of these the most at once. Of many a quarter,
// for they may grow along the grid, as the rows of a causal mask do.
inline Range take(Share& share) {
  constexpr uint64_t kFew = 16;  // programs of a thread
  uint64_t first = share.next.load(std::memory_order_relaxed);
  for (;;) {
    if (first >= share.end) return {0, 0};
    const uint64_t left = share.end - first;
    const uint64_t count = share.size < kFew ? (3 * left + 3) / 4 : std::max((left + 3) / 4, share.size / 8);
    const uint64_t last = std::min(first + count, share.end);
    if (share.next.compare_exchange_weak(first, last, std::memory_order_relaxed)) return {first, last};
  }
}

// Ranges of thread `mine`, then what is left of the next one's, and so on around: neighbours are on one node where
// threads are bound close to each other. Until `run` says that there is no need of more.
template <class Run>
void take_all(std::span<Share> shares, size_t mine, const Run& run) {
  for (size_t i = 0; i < shares.size(); ++i) {
    Share& share = shares[(mine + i) % shares.size()];
    for (Range range = take(share); range.first < range.last; range = take(share)) {
      if (!run(range)) return;
    }
  }
}

}  // namespace kiln::client
