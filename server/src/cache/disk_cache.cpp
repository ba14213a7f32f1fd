// Lookups and stores. Eviction and upkeep are in disk_upkeep.cpp.
#include "cache/disk_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "kiln/wire/own_file.h"
#include "kiln/wire/paths.h"

namespace kiln::server {

using wire::UniqueFd;

DiskCache::DiskCache(Fs& fs, Log& log, std::string directory, std::string builder_id, uint64_t max_bytes)
    : fs_(fs),
      log_(log),
      directory_(std::move(directory)),
      builder_dir_("v1/" + wire::builder_directory(builder_id)),
      builder_tag_(wire::builder_tag(builder_id)),
      max_bytes_(max_bytes) {}

std::string DiskCache::entry_path(const RequestKey& key) const {
  std::string hex = to_hex(key);
  return builder_dir_ + "/" + hex.substr(0, 2) + "/" + hex.substr(2);
}

std::optional<DiskCache::Loaded> DiskCache::find(const RequestKey& key) {
  if (!root_) return std::nullopt;
  std::string path = entry_path(key);
  const int opened = fs_.open(root_.get(), path, O_RDONLY, 0);
  if (wire::is_not_ours(-opened)) set_stranger_aside(path, key, wire::own_file_reason(-opened));
  if (opened < 0) return std::nullopt;
  UniqueFd fd(opened);
  struct stat info{};
  if (fs_.stat(fd.get(), info) < 0) return std::nullopt;
  if (static_cast<uint64_t>(info.st_size) > wire::kMaxEntrySize) {
    set_aside(path, info, key, "too long");
    return std::nullopt;
  }
  Loaded loaded;
  loaded.bytes.resize(static_cast<size_t>(info.st_size));
  size_t filled = 0;
  while (filled < loaded.bytes.size()) {
    ssize_t count = fs_.read(fd.get(), loaded.bytes.data() + filled, loaded.bytes.size() - filled);
    if (count < 0) return std::nullopt;  // an I/O error says nothing about the entry
    if (count == 0) break;
    filled += static_cast<size_t>(count);
  }
  loaded.bytes.resize(filled);
  if (auto view = wire::decode_entry_for(loaded.bytes, key, builder_tag_); !view) {
    set_aside(path, info, key, view.error().message);
    return std::nullopt;
  }
  note_use(fd);
  loaded.fd = std::move(fd);
  return loaded;
}

std::optional<std::optional<DiskCache::Loaded>> DiskCache::find_cached(const RequestKey& key) {
  constexpr off_t kMostAtOnce = 256 << 10;  // what takes no longer than a hand-over to another thread
  if (!root_) return std::optional<Loaded>();
  const int opened = fs_.open_cached(root_.get(), entry_path(key), O_RDONLY);
  if (opened == -ENOENT) return std::optional<Loaded>();
  if (opened < 0) return std::nullopt;
  Loaded out{{}, UniqueFd(opened)};
  struct stat info{};
  if (fs_.stat(opened, info) < 0 || info.st_size > kMostAtOnce) return std::nullopt;
  out.bytes.resize(static_cast<size_t>(info.st_size));
  if (fs_.read_cached(opened, out.bytes.data(), out.bytes.size()) != info.st_size) return std::nullopt;
  if (!wire::decode_entry_for(out.bytes, key, builder_tag_)) return std::nullopt;
  return out;
}

void DiskCache::note_use(const RequestKey& key) {
  if (!root_) return;
  if (UniqueFd file(fs_.open(root_.get(), entry_path(key), O_RDONLY, 0)); file) note_use(file);
}

bool DiskCache::store(const RequestKey& key, const std::vector<std::byte>& bytes, bool durable) {
  std::unique_lock lock(write_mutex_);
  scan_ended_.wait(lock, [&] { return !scan_expected_ || scan_stopped_; });
  if (!root_ || !become_writer()) return false;
  if (bytes.size() > max_bytes_ / 2) return false;  // it would push out everything else
  make_room(bytes.size());
  std::string path = entry_path(key);
  const uint64_t replaced = size_of(path);
  int status = write_file(path, bytes);
  if (status == -ENOSPC || status == -EDQUOT) {
    // Free what is ours: the reserve lets eviction run on file systems that need space to delete.
    fs_.unlink(root_.get(), "reserve");
    evict([&](uint64_t total) {
      const uint64_t most = total - total / 10;
      return most - std::min<uint64_t>(bytes.size(), most);
    });
    status = write_file(path, bytes);
    if (status == 0) refill_reserve();
  }
  if (status == 0 && durable) status = sync_name(path);
  if (status < 0) {
    degrade("store", -status);
    return false;
  }
  stats_.bytes += bytes.size();
  if (scanned_) stats_.bytes -= std::min<uint64_t>(replaced, stats_.bytes);
  ++stats_.entries_written;
  recover();
  return true;
}

// 0 where there is none.
uint64_t DiskCache::size_of(const std::string& path) {
  UniqueFd fd(fs_.open(root_.get(), path, O_RDONLY, 0));
  struct stat info{};
  return fd && fs_.stat(fd.get(), info) >= 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

void DiskCache::keep_crash(const RequestKey& key, const std::vector<std::byte>& report) {
  std::lock_guard lock(write_mutex_);
  if (!root_ || !become_writer()) return;
  const std::string path = "crashes/" + to_hex(key);
  if (write_file(path, report) < 0) return;
  trim_ring("crashes");
  if (size_of(path) == 0) return;
  log_.info("crash_kept", {{"file", directory_ + "/" + path}, {"reproduce", "kiln reproduce " + to_hex(key)}});
}

int DiskCache::write_file(const std::string& path, const std::vector<std::byte>& bytes) {
  const std::string temporary = "tmp/" + std::to_string(::getpid()) + "-" + std::to_string(sequence_++);
  int status = write_and_rename(temporary, path, bytes);
  if (status != -EEXIST) return status;
  // Somebody has planted that name; another one cannot be foreseen.
  std::random_device random;
  return write_and_rename(temporary + "-" + std::to_string(random()) + std::to_string(random()), path, bytes);
}

// -EEXIST: the temporary name is taken, and nothing was done.
int DiskCache::write_and_rename(const std::string& temporary, const std::string& path,
                                const std::vector<std::byte>& bytes) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL;
  int opened = fs_.open(root_.get(), temporary, kFlags, 0400);
  if (opened == -ENOENT) {  // somebody cleared the cache under a running daemon
    make_directories();
    opened = fs_.open(root_.get(), temporary, kFlags, 0400);
  }
  if (opened < 0) return opened;
  const int status = fill_and_rename(UniqueFd(opened), temporary, path, bytes);
  if (status < 0) fs_.unlink(root_.get(), temporary);
  return status == -EEXIST ? -EISDIR : status;
}

// Data first, then the name: a crash leaves the old state or the new one, and a torn file only under tmp/. Renaming
// over an existing entry is wanted, for that is how a bad one heals.
int DiskCache::fill_and_rename(UniqueFd fd, const std::string& temporary, const std::string& path,
                               const std::vector<std::byte>& bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    ssize_t count = fs_.write(fd.get(), bytes.data() + written, bytes.size() - written);
    if (count < 0) return static_cast<int>(count);
    if (count == 0) return -EIO;
    written += static_cast<size_t>(count);
  }
  if (int status = fs_.sync_data(fd.get()); status < 0) return status;
  int status = fs_.rename(root_.get(), temporary, path);
  if (status != -ENOENT) return status;
  // The first entry of this directory.
  make_directories();
  fs_.mkdir(root_.get(), path.substr(0, path.rfind('/')));
  return fs_.rename(root_.get(), temporary, path);
}

// The directory with the name, and those above it, which may be as new.
int DiskCache::sync_name(const std::string& path) {
  for (const std::string& name : {path.substr(0, path.rfind('/')), builder_dir_, std::string("v1"), std::string(".")}) {
    if (int status = fs_.sync_dir(root_.get(), name); status < 0) return status;
  }
  return 0;
}

void DiskCache::degrade(const std::string& what, int number) {
  ++stats_.store_errors;
  if (stats_.degraded.exchange(true)) return;
  log_.warn("store_degraded", {{"what", what}, {"directory", directory_}, {"reason", wire::own_file_reason(number)}});
}

void DiskCache::recover() {
  if (stats_.degraded.exchange(false)) log_.info("store_recovered", {{"directory", directory_}});
}

}  // namespace kiln::server
