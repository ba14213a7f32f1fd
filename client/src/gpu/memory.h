// Device memory as the other files here own it.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "driver.h"

namespace kiln::client::gpu {

// Freed with the object, which its driver outlives.
class Allocation {
 public:
  Allocation(Driver& driver, void* data, uint64_t bytes) : driver_(&driver), data_(data), bytes_(bytes) {}
  Allocation(Allocation&& other) noexcept
      : driver_(other.driver_), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Allocation& operator=(Allocation&&) = delete;
  ~Allocation() {
    if (data_ != nullptr) driver_->free(data_);
  }
  void* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  Driver* driver_;
  void* data_;
  uint64_t bytes_;
};

// One piece of memory that grows. The launches of one stream may share it, since they run one after the other.
class Workspace {
 public:
  // `keep_outgrown`: recorded launches go on using the smaller pieces.
  Workspace(Driver& driver, bool keep_outgrown) : driver_(driver), keep_outgrown_(keep_outgrown) {}

  Result<void*> get(uint64_t bytes) {
    if (!pieces_.empty() && pieces_.back().bytes() >= bytes) return pieces_.back().data();
    if (!keep_outgrown_) pieces_.clear();
    auto data = driver_.allocate(bytes, "workspaces of launches");
    if (!data) return data.error();
    pieces_.emplace_back(driver_, *data, bytes);
    return *data;
  }

 private:
  Driver& driver_;
  bool keep_outgrown_;
  std::vector<Allocation> pieces_;  // the last is the largest
};

// A counter, u32, that is 0 between the launches of one stream (docs/reference/artifact.md, `queue_param`).
// Thread-safe.
class QueueCounter {
 public:
  explicit QueueCounter(Driver& driver) : driver_(driver) {}

  // Made by who first asks, also while a stream is captured: by a stream of its own, so that it is not in the graph.
  Result<void*> get() {
    if (void* made = data_.load(std::memory_order_acquire)) return made;
    std::lock_guard lock(mutex_);
    if (memory_) return memory_->data();
    auto data = driver_.allocate(kBytes, "counters of launches");
    if (!data) return data;
    Allocation memory(driver_, *data, kBytes);
    auto stream = driver_.create_stream();
    if (!stream) return stream.error();
    auto done = driver_.fill(*data, 0, kBytes, *stream);
    if (done) done = driver_.synchronise_stream(*stream);
    driver_.destroy_stream(*stream);
    if (!done) return done.error();
    memory_.emplace(std::move(memory));
    data_.store(*data, std::memory_order_release);
    return *data;
  }

 private:
  static constexpr uint64_t kBytes = 16;
  Driver& driver_;
  std::mutex mutex_;
  std::optional<Allocation> memory_;
  std::atomic<void*> data_{nullptr};
};

}  // namespace kiln::client::gpu
