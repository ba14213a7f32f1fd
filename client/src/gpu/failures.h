// How a kernel with checks (options debug and check_bounds) tells the host what failed: a record in device memory, one
// a loaded kernel, that the host reads after it has waited for the device.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "../reports.h"
#include "driver.h"
#include "kiln/abi/failure_record.h"
#include "memory.h"

namespace kiln::client::gpu {

using abi::FailureRecord;

// What is needed to put a failure into words.
struct CheckedKernel {
  dsl::Kernel kernel;
  Reports reports;
};

// In the words of a failure on a CPU.
Error failure_in_words(const CheckedKernel& owner, const FailureRecord& record);

// Thread-safe. The memory is there from the first record on.
class FailureRecords {
 public:
  explicit FailureRecords(Driver& driver) : driver_(driver) {}
  ~FailureRecords();
  FailureRecords(const FailureRecords&) = delete;
  FailureRecords& operator=(const FailureRecords&) = delete;

  // The device's address of a record for this kernel, until remove().
  Result<void*> add(std::shared_ptr<const CheckedKernel> kernel);
  void remove(void* record);
  // The first failure that there is, and its record is free for the next.
  Result<void> check();

 private:
  Result<void> create();
  Result<void> copy(void* to, const void* from, uint64_t bytes);
  FailureRecord* at(size_t slot) const { return static_cast<FailureRecord*>(memory_->data()) + slot; }

  Driver& driver_;
  std::mutex mutex_;
  Handle stream_ = nullptr;  // of its own, so that reading waits for nothing else
  std::unique_ptr<Allocation> memory_;
  std::vector<std::shared_ptr<const CheckedKernel>> owners_;  // by slot; null: free
};

}  // namespace kiln::client::gpu
