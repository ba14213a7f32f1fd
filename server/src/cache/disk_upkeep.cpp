// Opening, locking, sizes, eviction and quarantine of the disk tier.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

#include "cache/disk_cache.h"
#include "kiln/wire/own_file.h"
#include "kiln/wire/paths.h"

namespace kiln::server {
namespace {

constexpr const char* kDirectories[] = {"v1", "tmp", "quarantine", "crashes"};
constexpr uint64_t kReserveSize = 1u << 20;
constexpr size_t kMaxRingFiles = 64;
constexpr uint64_t kMaxRingBytes = 64u << 20;

struct Aged {
  std::string path;
  uint64_t size;
  int64_t mtime_ns;
};

// A name of so many digits, as builders, fan-out directories and entries have.
bool is_hex(const std::string& name, size_t digits) {
  return name.size() == digits && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

constexpr size_t kBuilderDigits = 16, kFanDigits = 2;
constexpr size_t kFileDigits = 2 * std::tuple_size_v<RequestKey> - kFanDigits;

bool is_entry(const DirEntry& file) {
  return !file.is_dir && !file.is_other && file.size <= wire::kMaxEntrySize && is_hex(file.name, kFileDigits);
}

// Of an import that was killed: one that runs has written to its file since.
bool is_leftover(const DirEntry& file, int64_t now) {
  constexpr int64_t kDay = 86'400'000'000'000;
  const size_t end = file.name.find(wire::kUnfinished);
  return end != std::string::npos && is_hex(file.name.substr(0, end), kFileDigits) && !file.is_dir && !file.is_other &&
         (file.mtime_ns < now - kDay || file.mtime_ns > now + kDay);
}

int64_t now_ns() { return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count(); }

struct Listing {
  std::vector<Aged> entries;
  std::vector<std::string> leftovers;  // of imports
};

// Every entry below `v1`, of all builders; of some only, once `stop` is set. What else somebody has put there is not
// this cache's to count.
Listing list_entries(Fs& fs, int root, const std::atomic<bool>* stop = nullptr) {
  Listing out;
  const int64_t now = now_ns();
  std::vector<DirEntry> builders, fans, files;
  fs.list(root, "v1", builders);
  for (const auto& builder : builders) {
    std::string base = "v1/" + builder.name;
    fans.clear();
    if (builder.is_dir && is_hex(builder.name, kBuilderDigits)) fs.list(root, base, fans);
    for (const auto& fan : fans) {
      files.clear();
      if (stop && *stop) return out;
      if (fan.is_dir && is_hex(fan.name, kFanDigits)) fs.list(root, base + "/" + fan.name, files);
      for (const auto& file : files) {
        const std::string path = base + "/" + fan.name + "/" + file.name;
        if (is_entry(file)) out.entries.push_back({path, file.size, file.mtime_ns});
        if (is_leftover(file, now)) out.leftovers.push_back(path);
      }
    }
  }
  return out;
}

// With what is in it: a directory that leads elsewhere is not ours to sweep, to fill or to empty.
Result<wire::UniqueFd> open_checked(const std::string& directory) {
  auto root = wire::open_private_dir(directory);
  if (!root) return root;
  for (const char* name : kDirectories) {
    const int fd = wire::open_own_dir(root->get(), name);
    if (fd < 0 && fd != -ENOENT) {
      return error(ErrorCode::kPermissionDenied, directory + "/" + name + ": " + wire::own_file_reason(-fd));
    }
    wire::UniqueFd close(fd);
  }
  return root;
}

}  // namespace

void DiskCache::open() {
  std::lock_guard lock(write_mutex_);
  auto dir = open_checked(directory_);
  if (!dir) {
    stats_.read_only = true;
    stats_.degraded = true;
    ++stats_.store_errors;
    log_.warn("cache_unusable", {{"directory", directory_}, {"reason", dir.error().message}});
    return;
  }
  root_ = std::move(*dir);
  become_writer();
}

// Nobody else writes, so whatever lies in tmp/ was torn by a crash, or has no business there.
void DiskCache::sweep_leftovers() {
  std::vector<DirEntry> leftovers;
  fs_.list(root_.get(), "tmp", leftovers);
  for (const auto& each : leftovers) remove("tmp/" + each.name, each.is_dir);
}

// Where the directory was removed, with all that was in it, another one begins in its place. Readers keep their number
// of it.
void DiskCache::follow_directory() {
  struct stat info{};
  if (::fstat(root_.get(), &info) != 0 || info.st_nlink > 0) return;
  auto dir = wire::open_private_dir(directory_);
  if (!dir || ::dup3(dir->get(), root_.get(), O_CLOEXEC) < 0) return;
  log_.warn("cache_was_removed", {{"directory", directory_}});
  lock_.reset();
  writer_ = false;
  stats_.bytes = 0;
}

// The lock is kept for the daemon's life and released by the kernel. A daemon that did not get it tries again at its
// next store, because the holder may have been a draining predecessor.
bool DiskCache::become_writer() {
  follow_directory();
  if (writer_) return true;
  if (!lock_) {
    int fd = fs_.open(root_.get(), "LOCK", O_RDWR | O_CREAT, 0600);
    if (fd < 0) {
      stats_.read_only = true;
      degrade("open LOCK", -fd);
      return false;
    }
    lock_.reset(fd);
  }
  if (fs_.lock(lock_.get()) < 0) {
    if (!stats_.read_only.exchange(true)) log_.info("cache_read_only", {{"directory", directory_}});
    return false;
  }
  writer_ = true;
  stats_.read_only = false;
  std::string holder = "pid " + std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock_.get(), 0) == 0)
    fs_.write(lock_.get(), reinterpret_cast<const std::byte*>(holder.data()), holder.size());
  make_directories();
  sweep_leftovers();
  refill_reserve();
  return true;
}

// EEXIST is no failure, and any other one shows when the directory is used.
void DiskCache::make_directories() {
  for (const char* name : kDirectories) fs_.mkdir(root_.get(), name);
  fs_.mkdir(root_.get(), builder_dir_);
}

bool DiskCache::refill_reserve() {
  int opened = fs_.open(root_.get(), "reserve", O_WRONLY | O_CREAT, 0600);
  if (wire::is_not_ours(-opened)) {
    fs_.unlink(root_.get(), "reserve");  // the name, which is ours
    opened = fs_.open(root_.get(), "reserve", O_WRONLY | O_CREAT, 0600);
  }
  if (opened < 0) return false;
  wire::UniqueFd fd(opened);
  if (fs_.allocate(fd.get(), kReserveSize) >= 0) return true;
  fs_.unlink(root_.get(), "reserve");
  return false;
}

void DiskCache::expect_scan() {
  std::lock_guard lock(write_mutex_);
  scan_expected_ = true;
}

void DiskCache::scan() {
  uint64_t total = 0;
  Listing there;
  bool is_counted = false;
  try {
    if (root_) there = list_entries(fs_, root_.get(), &scan_stopped_);
    is_counted = true;
  } catch (const std::bad_alloc&) {  // stores do not wait for it
  }
  for (const auto& entry : there.entries) total += entry.size;
  std::lock_guard lock(write_mutex_);
  scan_expected_ = false;
  scan_ended_.notify_all();
  if (!root_ || scan_stopped_ || !is_counted) return;
  scanned_ = true;
  // Another daemon may be the writer; what this one has stored before anybody asked it to wait is counted twice, which
  // the next eviction corrects.
  stats_.bytes += total;
  if (writer_) {
    for (const std::string& path : there.leftovers) fs_.unlink(root_.get(), path);
    make_room(0);
  }
  log_.info("cache_scanned", {{"entries", there.entries.size()}, {"bytes", total}});
}

void DiskCache::stop_scan() {
  std::lock_guard lock(write_mutex_);
  scan_stopped_ = true;
  scan_ended_.notify_all();
}

void DiskCache::recount() {
  std::lock_guard lock(write_mutex_);
  if (!writer_ || scan_expected_) return;
  const uint64_t limit = max_bytes_;
  evict([&](uint64_t total) { return total > limit ? limit - limit / 10 : total; });
}

void DiskCache::recheck() {
  std::lock_guard lock(write_mutex_);
  if (stats_.degraded && root_ && become_writer() && refill_reserve()) recover();
}

void DiskCache::make_room(uint64_t wanted) {
  const uint64_t limit = max_bytes_;
  if (stats_.bytes + wanted <= limit) return;
  uint64_t low = limit - limit / 10;
  evict([&](uint64_t) { return low - std::min(low, wanted); });
}

int DiskCache::remove(const std::string& path, bool is_dir) {
  return is_dir ? fs_.remove_tree(root_.get(), path) : fs_.unlink(root_.get(), path);
}

// Oldest use first. Counts anew, so that errors of the running total do not last. What cannot be removed takes no other
// entry's place.
void DiskCache::evict(const std::function<uint64_t(uint64_t total)>& target) {
  auto [entries, leftovers] = list_entries(fs_, root_.get());
  for (const std::string& path : leftovers) fs_.unlink(root_.get(), path);
  std::sort(entries.begin(), entries.end(), [](const Aged& a, const Aged& b) { return a.mtime_ns < b.mtime_ns; });
  uint64_t total = 0;
  for (const auto& entry : entries) total += entry.size;
  const uint64_t most = target(total);
  for (const auto& entry : entries) {
    if (total <= most) break;
    total -= entry.size;
    const int status = fs_.unlink(root_.get(), entry.path);
    if (status == 0) {
      ++stats_.evictions;
      stats_.evicted_bytes += entry.size;
    } else if (status != -ENOENT && !std::exchange(eviction_failed_, true)) {
      log_.warn("not_evicted", {{"file", directory_ + "/" + entry.path}, {"reason", wire::own_file_reason(-status)}});
    }
  }
  stats_.bytes = total;
}

void DiskCache::set_aside(const std::string& path, const struct stat& bad, const RequestKey& key,
                          const std::string& reason) {
  ++stats_.corrupt;
  log_.warn("entry_corrupt", {{"key", to_hex(key)}, {"reason", reason}});
  std::lock_guard lock(write_mutex_);
  if (!writer_) return;
  struct stat now{};
  wire::UniqueFd there(fs_.open(root_.get(), path, O_RDONLY, 0));
  if (!there || fs_.stat(there.get(), now) < 0 || now.st_ino != bad.st_ino || now.st_dev != bad.st_dev) return;
  move_to_quarantine(path, key);
}

void DiskCache::set_stranger_aside(const std::string& path, const RequestKey& key, const std::string& reason) {
  ++stats_.corrupt;
  log_.warn("entry_corrupt", {{"key", to_hex(key)}, {"reason", reason}});
  std::lock_guard lock(write_mutex_);
  if (!writer_) return;
  const int there = fs_.open(root_.get(), path, O_RDONLY, 0);
  wire::UniqueFd close(there);
  if (wire::is_not_ours(-there)) move_to_quarantine(path, key);
}

void DiskCache::move_to_quarantine(const std::string& path, const RequestKey& key) {
  const std::string aside =
      "quarantine/" + to_hex(key) + "." + std::to_string(::getpid()) + "-" + std::to_string(sequence_++);
  if (fs_.rename(root_.get(), path, aside) < 0) {
    fs_.unlink(root_.get(), path);
    return;
  }
  ++stats_.quarantined;
  // The ring keeps what came last, and not what was used last.
  if (wire::UniqueFd fd(fs_.open(root_.get(), aside, O_RDONLY, 0)); fd) fs_.touch(fd.get());
  trim_ring("quarantine");
}

// The newest stay. What is no file, or says that it will be written in the future, is nobody's report, and goes before
// those.
void DiskCache::trim_ring(const std::string& directory) {
  std::vector<DirEntry> all;
  fs_.list(root_.get(), directory, all);
  const int64_t now = now_ns();
  constexpr int64_t kClocksDiffer = 2'000'000'000;
  const auto age = [&](const DirEntry& each) {
    const bool is_odd = each.is_dir || each.is_other || each.mtime_ns > now + kClocksDiffer;
    return std::pair(is_odd, -each.mtime_ns);
  };
  std::ranges::sort(all, {}, age);
  uint64_t total = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    total += all[i].size;
    if (i >= kMaxRingFiles || total > kMaxRingBytes) remove(directory + "/" + all[i].name, all[i].is_dir);
  }
}

}  // namespace kiln::server
