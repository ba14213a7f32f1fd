// The cache tiers together: memory on the io thread, disk there too as far as nobody has to wait for it, else on a
// small pool of threads, and what hosts share behind them.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <optional>
#include <unordered_set>

#include "cache/disk_cache.h"
#include "cache/memory_cache.h"
#include "cache/remote_tier.h"
#include "config.h"

namespace kiln::server {

class Store {
 public:
  Store(asio::io_context& io, const Config& config, Log& log, Fs& fs, const std::string& builder_id);
  ~Store();

  // A hit is noted on disk too, unless a use was within this time.
  static constexpr std::chrono::minutes kNotedFor{1};
  SharedBlob find_memory(const RequestKey& key) {
    SharedBlob blob = memory_.find(key);
    if (blob && disk_) note_hit(*blob);
    return blob;
  }
  // Calls back on the io thread, later, with null on a miss; what it finds is in the memory tier then.
  void find_disk(const RequestKey& key, std::function<void(SharedBlob)> done);
  // The same of what hosts share, perhaps before it returns; what it finds goes to disk as well.
  void find_remote(const RequestKey& key, std::function<void(SharedBlob)> done);
  // Into memory now, to disk and to other hosts behind the caller's back.
  void put(const SharedBlob& blob);
  // Calls back on the io thread once the entry is on disk for good, or with false where it cannot be.
  void make_durable(const SharedBlob& blob, std::function<void(bool)> done);
  // A report of a compile that killed its workers, kept for `kiln reproduce`.
  void keep_crash(const RequestKey& key, Bytes report);
  // Entries are on their way to other hosts.
  bool writes_remote() const { return remote_ && remote_->writing(); }
  void set_limits(uint64_t memory_bytes, uint64_t cache_bytes);
  // Empties the memory tier.
  void clear_memory() { memory_.clear(); }
  // Waits until everything is on disk; what is not by `limit` is dropped. Nothing may be looked up afterwards.
  void finish(std::chrono::milliseconds limit = std::chrono::hours(1));

  // A read-only descriptor of the entry: of the cache file where there is one, else of a sealed memory file.
  SharedFd descriptor(const Blob& blob);

  nlohmann::json stats() const;

 private:
  SharedBlob read(const RequestKey& key);
  bool write(const SharedBlob& blob, bool durable);
  void put_here(const SharedBlob& blob);
  void hand_out(const SharedBlob& blob, const std::function<void(SharedBlob)>& done);
  void note_use(const RequestKey& key, const SharedFd& file);
  void note_hit(const Blob& blob);
  bool too_late() const;
  void recheck_soon();

  asio::io_context& io_;
  MemoryCache memory_;
  std::optional<DiskCache> disk_;
  std::unordered_set<RequestKey, KeyHash> being_noted_;  // on a reader's thread just now, or waiting for one
  const int first_reserved_;                             // no descriptor from here on is for replies
  std::unique_ptr<RemoteTier> remote_;
  std::atomic<uint64_t> unwritten_bytes_{0};
  std::atomic<uint64_t> unwritten_dropped_{0};
  std::atomic<std::chrono::steady_clock::rep> finish_by_{
      std::chrono::steady_clock::time_point::max().time_since_epoch().count()};
  std::atomic<bool> recount_waits_{false};
  asio::steady_timer recheck_;
  bool rechecking_ = false;
  asio::thread_pool readers_, writers_;
  bool finished_ = false;
};

}  // namespace kiln::server
