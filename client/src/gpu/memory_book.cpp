#include "memory_book.h"

#include <algorithm>
#include <utility>

#include "driver.h"

namespace kiln::client::gpu {

MemoryBook::Cache::Cache(MemoryBook& book, GiveBack give_back) : book_(book) {
  const std::lock_guard lock(book_.cache_mutex_);
  place_ = book_.caches_.insert(book_.caches_.end(), std::move(give_back));
}

MemoryBook::Cache::~Cache() {
  const std::lock_guard lock(book_.cache_mutex_);
  book_.caches_.erase(place_);
}

void MemoryBook::set_limits(uint64_t hard, uint64_t soft) {
  const std::lock_guard lock(mutex_);
  hard_ = hard;
  soft_ = soft;
}

bool MemoryBook::fits(uint64_t bytes, uint64_t limit) const {
  return limit == 0 || (bytes <= limit && current_ <= limit - bytes);
}

Result<void> MemoryBook::reserve(uint64_t bytes, const std::string& holder) {
  std::unique_lock lock(mutex_);
  if (!fits(bytes, soft_) || !fits(bytes, hard_)) {
    lock.unlock();
    give_back_caches();
    lock.lock();
  }
  if (!fits(bytes, hard_)) {
    return error(ErrorCode::kOutOfMemory, "the limit of this process is " + std::to_string(hard_) + " bytes, and " +
                                              std::to_string(bytes) + " more for " + holder + " would pass it");
  }
  current_ += bytes;
  peak_ = std::max(peak_, current_);
  return {};
}

void MemoryBook::unreserve(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  current_ -= bytes;
}

MemoryBook::Piece MemoryBook::held_by(const std::string& holder, uint64_t bytes) {
  const auto entry = holders_.try_emplace(holder, MemoryHolder{holder, 0, 0}).first;
  entry->second.bytes += bytes;
  ++entry->second.pieces;
  return {bytes, &entry->first};
}

void MemoryBook::no_longer_held(const Piece& piece) {
  const auto holder = holders_.find(*piece.holder);
  holder->second.bytes -= piece.bytes;
  if (--holder->second.pieces == 0) holders_.erase(holder);
}

void MemoryBook::enter(void* memory, uint64_t bytes, const std::string& holder) {
  const std::lock_guard lock(mutex_);
  pieces_.insert_or_assign(memory, held_by(holder, bytes));
}

void MemoryBook::remove(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = pieces_.find(memory);
  if (found == pieces_.end()) return;
  current_ -= found->second.bytes;
  no_longer_held(found->second);
  pieces_.erase(found);
}

void MemoryBook::hand_over(void* memory, const std::string& holder) {
  const std::lock_guard lock(mutex_);
  const auto found = pieces_.find(memory);
  if (found == pieces_.end()) return;
  const Piece before = std::exchange(found->second, held_by(holder, found->second.bytes));
  no_longer_held(before);
}

uint64_t MemoryBook::give_back_caches() {
  if (captures_.load() > 0) return 0;
  const std::lock_guard lock(cache_mutex_);
  uint64_t bytes = 0;
  for (const GiveBack& give_back : caches_) bytes += give_back();
  return bytes;
}

MemoryUse MemoryBook::use() const {
  const std::lock_guard lock(mutex_);
  MemoryUse out{current_, peak_, hard_, soft_, pieces_.size(), {}};
  for (const auto& [name, holder] : holders_) out.holders.push_back(holder);
  std::ranges::stable_sort(out.holders, std::greater(), &MemoryHolder::bytes);
  return out;
}

void MemoryBook::forget_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = current_;
}

std::string MemoryBook::largest_text() const {
  constexpr size_t kShown = 3;
  const MemoryUse now = use();
  if (now.holders.empty()) return "";
  std::string out = "; Kiln has " + std::to_string(now.bytes) + " bytes of it:";
  for (size_t i = 0; i < std::min(kShown, now.holders.size()); ++i) {
    const MemoryHolder& holder = now.holders[i];
    out += (i == 0 ? " " : ", ") + std::to_string(holder.bytes) + " in " + std::to_string(holder.pieces) +
           (holder.pieces == 1 ? " piece for " : " pieces for ") + holder.name;
  }
  return now.holders.size() > kShown ? out + ", …" : out;
}

Result<void*> Driver::allocate(uint64_t bytes, const std::string& holder) {
  if (auto reserved = book_.reserve(bytes, holder); !reserved) {
    reserved.error().message += book_.largest_text();
    return reserved.error();
  }
  auto memory = allocate_memory(bytes);
  // What waits for a later use may be in the way.
  if (!memory && book_.give_back_caches() > 0) memory = allocate_memory(bytes);
  if (!memory) {
    book_.unreserve(bytes);
    memory.error().message += book_.largest_text();
    return memory;
  }
  book_.enter(*memory, bytes, holder);
  return memory;
}

void Driver::free(void* memory) {
  // Before the driver gives the address to somebody else.
  book_.remove(memory);
  free_memory(memory);
}

}  // namespace kiln::client::gpu
