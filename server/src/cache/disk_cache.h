// The disk tier: write-once files named by their key, so that a lookup is one open() and no index can disagree with the
// files. docs/reference/cache-format.md describes the directory. Blocking, and called from the disk threads, but for
// find_cached().
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/fs.h"
#include "kiln/dsl/request.h"
#include "kiln/wire/entry.h"
#include "kiln/wire/fd.h"
#include "reports/log.h"

namespace kiln::server {

class DiskCache {
 public:
  struct Loaded {
    std::vector<std::byte> bytes;
    wire::UniqueFd fd;  // of the file itself, read-only
  };
  struct Stats {
    std::atomic<uint64_t> bytes{0}, entries_written{0}, evictions{0}, evicted_bytes{0};
    std::atomic<uint64_t> corrupt{0}, quarantined{0}, store_errors{0};
    std::atomic<bool> degraded{false};   // the last write failed
    std::atomic<bool> read_only{false};  // another daemon is the writer, or the directory cannot be written
  };

  DiskCache(Fs& fs, Log& log, std::string directory, std::string builder_id, uint64_t max_bytes);

  // Opens the directory, tries to become its writer, sweeps leftovers. A failure leaves a cache that misses and does
  // not store.
  void open();
  // Counts what is there and evicts down to the limit; may take long, lookups work meanwhile, and stores wait from
  // expect_scan() on, for they could not tell whether there is room. Ends early once stop_scan() was called, from any
  // thread.
  void expect_scan();
  void scan();
  void stop_scan();

  // A file that fails any check is moved aside, counted and treated as a miss.
  std::optional<Loaded> find(const RequestKey& key);
  // The same for any thread, without waiting for the disk: nothing where memory holds too little of it, or where find()
  // has something to say of the file. Who takes an entry has to note its use.
  std::optional<std::optional<Loaded>> find_cached(const RequestKey& key);
  // For eviction: the modification time is the time of last use.
  void note_use(const wire::UniqueFd& file) { fs_.touch(file.get()); }
  void note_use(const RequestKey& key);  // of the entry that is there, if any
  // False when the entry was not stored; the reason is logged once per change of state. A durable one outlasts a power
  // cut once this has returned true.
  bool store(const RequestKey& key, const std::vector<std::byte>& bytes, bool durable = false);
  // The same file for the same key; of many the newest are kept.
  void keep_crash(const RequestKey& key, const std::vector<std::byte>& report);
  void set_limit(uint64_t max_bytes) { max_bytes_ = max_bytes; }
  // Counts what is there, others may have put something in, and evicts down to the limit.
  void recount();
  // Whether a disk that could not be written can be again.
  void recheck();

  const Stats& stats() const { return stats_; }

 private:
  std::string entry_path(const RequestKey& key) const;
  bool become_writer();
  void follow_directory();
  void sweep_leftovers();
  int remove(const std::string& path, bool is_dir);
  int sync_name(const std::string& path);
  void make_directories();
  int write_file(const std::string& path, const std::vector<std::byte>& bytes);
  int write_and_rename(const std::string& temporary, const std::string& path, const std::vector<std::byte>& bytes);
  int fill_and_rename(wire::UniqueFd fd, const std::string& temporary, const std::string& path,
                      const std::vector<std::byte>& bytes);
  void make_room(uint64_t wanted);
  // `target`: what may remain of so many bytes.
  void evict(const std::function<uint64_t(uint64_t total)>& target);
  uint64_t size_of(const std::string& path);
  // `bad`: of the file that was read; another that has come to the same name since is left.
  void set_aside(const std::string& path, const struct stat& bad, const RequestKey& key, const std::string& reason);
  // What lies in an entry's place and is no file of ours: a link, a fifo, a directory.
  void set_stranger_aside(const std::string& path, const RequestKey& key, const std::string& reason);
  void move_to_quarantine(const std::string& path, const RequestKey& key);
  void trim_ring(const std::string& directory);
  void degrade(const std::string& what, int number);
  void recover();
  bool refill_reserve();

  Fs& fs_;
  Log& log_;
  const std::string directory_;
  const std::string builder_dir_;  // "v1/<builder>"
  const wire::BuilderTag builder_tag_;
  std::atomic<uint64_t> max_bytes_;
  wire::UniqueFd root_, lock_;
  std::mutex write_mutex_;  // stores, evictions and the writer's lock
  bool scanned_ = false;    // what was there at the start is counted
  bool scan_expected_ = false;
  bool eviction_failed_ = false;  // and the log says so
  std::condition_variable scan_ended_;
  std::atomic<bool> writer_{false}, scan_stopped_{false};
  std::atomic<uint64_t> sequence_{0};
  Stats stats_;
};

}  // namespace kiln::server
