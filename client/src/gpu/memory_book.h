// What this process has of a device's memory, for whom, and how much of it it may have. All memory that comes from a
// driver is entered here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "kiln/client/gpu.h"
#include "kiln/dsl/result.h"

namespace kiln::client::gpu {

// Thread-safe.
class MemoryBook {
 public:
  // Gives back what waits for a later use, and says how many bytes that were. Called by whoever wants memory.
  using GiveBack = std::function<uint64_t()>;
  // Keeps a cache known for as long as it lives; its end waits for a call under way.
  class Cache {
   public:
    Cache(MemoryBook& book, GiveBack give_back);
    ~Cache();
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

   private:
    MemoryBook& book_;
    std::list<GiveBack>::iterator place_;
  };

  // While it lives nothing is given back: to free memory is to wait for the device, which a stream that is captured
  // does not survive.
  class Captured {
   public:
    explicit Captured(MemoryBook& book) : book_(book) { book_.captures_.fetch_add(1); }
    ~Captured() { book_.captures_.fetch_sub(1); }
    Captured(const Captured&) = delete;
    Captured& operator=(const Captured&) = delete;

   private:
    MemoryBook& book_;
  };

  // 0: none. Memory that is there already stays.
  void set_limits(uint64_t hard, uint64_t soft);

  // Bytes that are about to be allocated; caches are asked first where these would pass the soft limit, and again where
  // they would pass the hard one. kOutOfMemory: they do all the same.
  Result<void> reserve(uint64_t bytes, const std::string& holder);
  void unreserve(uint64_t bytes);
  void enter(void* memory, uint64_t bytes, const std::string& holder);
  void remove(void* memory);
  // It is there for somebody else now.
  void hand_over(void* memory, const std::string& holder);
  uint64_t give_back_caches();

  MemoryUse use() const;
  void forget_peak();
  // "; Kiln has 1200 bytes of it: 800 in 2 pieces for arrays, …", by the three largest; "" where it has none.
  std::string largest_text() const;

 private:
  struct Piece {
    uint64_t bytes;
    const std::string* holder;  // a key of `holders_`
  };
  bool fits(uint64_t bytes, uint64_t limit) const;
  Piece held_by(const std::string& holder, uint64_t bytes);
  void no_longer_held(const Piece& piece);

  mutable std::mutex mutex_;
  uint64_t current_ = 0, peak_ = 0, hard_ = 0, soft_ = 0;
  std::unordered_map<void*, Piece> pieces_;
  std::map<std::string, MemoryHolder> holders_;
  std::atomic<int> captures_{0};
  std::mutex cache_mutex_;  // never taken with `mutex_` held
  std::list<GiveBack> caches_;
};

}  // namespace kiln::client::gpu
