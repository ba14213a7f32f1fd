// Device memory as the other files here own it.
#pragma once

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
    auto data = driver_.allocate(bytes);
    if (!data) return data.error();
    pieces_.emplace_back(driver_, *data, bytes);
    return *data;
  }

 private:
  Driver& driver_;
  bool keep_outgrown_;
  std::vector<Allocation> pieces_;  // the last is the largest
};

}  // namespace kiln::client::gpu
