// Tiers and the hand-over between threads.
#include "cache/store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <new>

#include "cache/thread_work.h"
#include "connections/descriptors.h"

namespace kiln::server {
namespace {

// Of each kind: a lookup never waits until something is written, which takes milliseconds on some disks.
constexpr size_t kDiskThreads = 2;
// Bytes that wait to be written; what comes beyond stays in memory alone.
constexpr uint64_t kMaxUnwritten = 64u << 20;
constexpr std::chrono::seconds kRecheckAfter{1};
// Of hits in memory: lookups on disk wait behind them.
constexpr size_t kMostBeingNoted = 256;

// Null where descriptors are few: it is kept as long as the entry, and half of what clients may have is for
// connections.
SharedFd memory_file(const Bytes& bytes, int first_reserved) {
  wire::UniqueFd file(::memfd_create("kiln-entry", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || file.get() >= first_reserved / 2) return nullptr;
  for (size_t written = 0; written < bytes.size();) {
    ssize_t count = ::write(file.get(), bytes.data() + written, bytes.size() - written);
    if (count <= 0) return nullptr;
    written += static_cast<size_t>(count);
  }
  ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
  std::string path = "/proc/self/fd/" + std::to_string(file.get());
  wire::UniqueFd read_only(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  // Sealed, a writable descriptor does no harm either.
  return std::make_shared<const wire::UniqueFd>(read_only ? std::move(read_only) : std::move(file));
}

// Small entries travel in the reply itself.
SharedBlob blob_of(const RequestKey& key, Bytes bytes, SharedFd file) {
  if (bytes.size() <= wire::kMaxInlineEntry) file = nullptr;
  return std::make_shared<const Blob>(Blob{key, std::move(bytes), std::move(file)});
}

}  // namespace

Store::Store(asio::io_context& io, const Config& config, Log& log, Fs& fs, const std::string& builder_id)
    : io_(io),
      memory_(config.memory_bytes),
      first_reserved_(first_reserved_descriptor(config.workers)),
      recheck_(io),
      readers_(kDiskThreads),
      writers_(kDiskThreads) {
  if (config.remote.enabled()) remote_ = std::make_unique<RemoteTier>(io, log, config.remote, builder_id);
  if (config.cache_dir.empty()) return;
  disk_.emplace(fs, log, config.cache_dir, builder_id, config.cache_bytes);
  disk_->open();
  disk_->expect_scan();
  post_work(writers_, [this] { disk_->scan(); });
}

Store::~Store() { finish(); }

void Store::finish(std::chrono::milliseconds limit) {
  if (std::exchange(finished_, true)) return;
  finish_by_ = (std::chrono::steady_clock::now() + limit).time_since_epoch().count();
  recheck_.cancel();
  if (remote_) remote_->finish();
  if (disk_) disk_->stop_scan();
  readers_.join();
  writers_.join();
}

void Store::find_disk(const RequestKey& key, std::function<void(SharedBlob)> done) {
  if (!disk_ || finished_) return asio::post(io_, [done = std::move(done)] { done(nullptr); });
  if (auto known = disk_->find_cached(key)) {
    auto file = known->has_value() ? std::make_shared<const wire::UniqueFd>(std::move((*known)->fd)) : nullptr;
    SharedBlob blob = file ? blob_of(key, std::move((*known)->bytes), file) : nullptr;
    asio::post(io_, [this, blob = std::move(blob), done = std::move(done)] { hand_out(blob, done); });
    if (file) note_use(key, file);
    return;
  }
  post_work(
      readers_, io_, [this, key] { return read(key); },
      [this, done = std::move(done)](const SharedBlob& blob) { hand_out(blob, done); });
}

// One at a time for each entry: hits come faster than a busy disk notes them, and those that wait would be noted so
// late that the entries look old, and hold a file each. Without a file it is whatever has the entry's name.
void Store::note_use(const RequestKey& key, const SharedFd& file) {
  if (!being_noted_.insert(key).second) return;
  post_work(
      readers_, io_,
      [this, key, file] {
        file ? disk_->note_use(*file) : disk_->note_use(key);
        return true;
      },
      [this, key](bool /*noted*/) { being_noted_.erase(key); });
}

// Rarely, because a hit in memory takes microseconds; and while many wait, a later hit is as good.
void Store::note_hit(const Blob& blob) {
  const auto now = std::chrono::steady_clock::now();
  if (now - blob.noted < kNotedFor || being_noted_.size() >= kMostBeingNoted || finished_) return;
  blob.noted = now;
  note_use(blob.key, nullptr);
}

// On a reader's thread. What there is no memory for is a miss.
SharedBlob Store::read(const RequestKey& key) {
  auto loaded = disk_->find(key);
  if (!loaded) return nullptr;
  return blob_of(key, std::move(loaded->bytes), std::make_shared<const wire::UniqueFd>(std::move(loaded->fd)));
}

// On a writer's thread.
bool Store::write(const SharedBlob& blob, bool durable) try {
  return disk_->store(blob->key, blob->bytes, durable);
} catch (const std::bad_alloc&) {
  return false;
}

void Store::hand_out(const SharedBlob& blob, const std::function<void(SharedBlob)>& done) {
  if (blob) memory_.put(blob);
  done(blob);
  // The replies have the file by now; kept longer it would hold its space when it is evicted.
  if (blob) blob->fd = nullptr;
}

void Store::find_remote(const RequestKey& key, std::function<void(SharedBlob)> done) {
  if (!remote_ || finished_) return done(nullptr);
  remote_->find(key, [this, done = std::move(done)](const SharedBlob& blob) {
    if (blob) put_here(blob);
    done(blob);
  });
}

void Store::put(const SharedBlob& blob) {
  put_here(blob);
  if (remote_) remote_->put(blob);
}

void Store::put_here(const SharedBlob& blob) {
  memory_.put(blob);
  if (!disk_ || finished_) return;
  if (unwritten_bytes_ + blob->bytes.size() > kMaxUnwritten) {
    ++unwritten_dropped_;
    return;
  }
  unwritten_bytes_ += blob->bytes.size();
  post_work(writers_, [this, blob] {
    if (too_late())
      ++unwritten_dropped_;
    else
      write(blob, false);
    unwritten_bytes_ -= blob->bytes.size();
    if (disk_->stats().degraded) post_back(io_, [this] { recheck_soon(); });
  });
}

bool Store::too_late() const { return std::chrono::steady_clock::now().time_since_epoch().count() > finish_by_; }

// Space may come back while nothing is stored.
void Store::recheck_soon() {
  if (finished_ || std::exchange(rechecking_, true)) return;
  recheck_.expires_after(kRecheckAfter);
  recheck_.async_wait([this](const boost::system::error_code& failed) {
    rechecking_ = false;
    if (failed || finished_) return;
    post_work(
        writers_, io_,
        [this] {
          disk_->recheck();
          return true;
        },
        [this](bool /*rechecked*/) {
          if (disk_->stats().degraded) recheck_soon();
        });
  });
}

void Store::make_durable(const SharedBlob& blob, std::function<void(bool)> done) {
  if (!disk_ || finished_) return asio::post(io_, [done = std::move(done)] { done(false); });
  post_work(writers_, io_, [this, blob] { return !too_late() && write(blob, true); }, std::move(done));
}

void Store::keep_crash(const RequestKey& key, Bytes report) {
  if (!disk_ || finished_) return;
  post_work(writers_, [this, key, report = std::move(report)] { disk_->keep_crash(key, report); });
}

void Store::set_limits(uint64_t memory_bytes, uint64_t cache_bytes) {
  memory_.set_limit(memory_bytes);
  if (!disk_) return;
  disk_->set_limit(cache_bytes);
  // One that waits counts for all who want it until it begins.
  if (finished_ || recount_waits_.exchange(true)) return;
  post_work(writers_, [this] {
    recount_waits_ = false;
    disk_->recount();
  });
}

SharedFd Store::descriptor(const Blob& blob) {
  if (!blob.fd) blob.fd = memory_file(blob.bytes, first_reserved_);
  return blob.fd;
}

nlohmann::json Store::stats() const {
  nlohmann::json out = {{"memory_entries", memory_.entries()},
                        {"memory_bytes", memory_.bytes()},
                        {"memory_evictions_total", memory_.evictions()}};
  if (remote_) out.update(remote_->stats());
  if (!disk_) {
    out["store_degraded"] = 0;
    out["disk"] = false;
    return out;
  }
  const auto& disk = disk_->stats();
  out["disk"] = true;
  out["disk_bytes"] = disk.bytes.load();
  out["store_queue_bytes"] = unwritten_bytes_.load();
  out["store_dropped_total"] = unwritten_dropped_.load();
  out["stored_total"] = disk.entries_written.load();
  out["evictions_total"] = disk.evictions.load();
  out["evicted_bytes_total"] = disk.evicted_bytes.load();
  out["cache_corrupt_total"] = disk.corrupt.load();
  out["cache_quarantined_total"] = disk.quarantined.load();
  out["store_errors_total"] = disk.store_errors.load();
  out["store_degraded"] = disk.degraded.load() ? 1 : 0;
  out["store_read_only"] = disk.read_only.load() ? 1 : 0;
  return out;
}

}  // namespace kiln::server
