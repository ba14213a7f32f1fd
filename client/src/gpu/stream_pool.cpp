#include "stream_pool.h"

#include <algorithm>
#include <new>

namespace kiln::client::gpu {
namespace {

constexpr const char* kWaiting = "what waits for a stream";

// Sizes that differ by little are one, so that pieces are of use again.
uint64_t rounded(uint64_t bytes) {
  constexpr uint64_t kGrain = 512;
  return bytes > UINT64_MAX - kGrain ? bytes : (bytes + kGrain - 1) / kGrain * kGrain;
}

}  // namespace

Result<Allocation> StreamPool::take(uint64_t bytes, const std::string& holder) {
  const uint64_t size = std::max(rounded(bytes), rounded(1));
  {
    const std::lock_guard lock(mutex_);
    if (auto found = pieces_.lower_bound(size); found != pieces_.end() && found->first / 2 <= size) {
      Allocation piece = std::move(found->second);
      pieces_.erase(found);
      driver_.memory().hand_over(piece.data(), holder);
      return piece;
    }
  }
  auto data = driver_.allocate(size, holder);  // may call give_back()
  if (!data) return data.error();
  return Allocation(driver_, *data, size);
}

void StreamPool::put(Allocation piece) noexcept {
  try {
    driver_.memory().hand_over(piece.data(), kWaiting);
    const std::lock_guard lock(mutex_);
    const uint64_t bytes = piece.bytes();
    pieces_.emplace(bytes, std::move(piece));
  } catch (const std::bad_alloc&) {  // the piece goes back to the driver
  }
}

uint64_t StreamPool::give_back() {
  std::multimap<uint64_t, Allocation> pieces;
  {
    const std::lock_guard lock(mutex_);
    pieces.swap(pieces_);
  }
  uint64_t bytes = 0;
  for (const auto& [size, piece] : pieces) bytes += size;
  return bytes;  // and frees, which waits for the device
}

}  // namespace kiln::client::gpu
