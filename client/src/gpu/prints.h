// What the `print` ops of kernels on a device give: messages in a ring in device memory, one a loaded kernel, that the
// host reads after it has waited for the device.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "../reports.h"
#include "driver.h"
#include "kiln/abi/print_ring.h"
#include "memory.h"

namespace kiln::client::gpu {

using PrintSink = std::function<void(const dsl::PrintRecord&)>;

using abi::PrintRing;
inline constexpr uint64_t kPrintCapacity = 256u << 10;

// Gives the complete messages from a count of bytes on, up to `reserved`; the count behind the last of them. `data`:
// all of the ring's.
uint64_t read_messages(const PrintRing& ring, const std::byte* data, uint64_t from, const Reports& reports,
                       const PrintSink& sink);

// The ring of one loaded kernel.
struct KernelRing {
  KernelRing(Driver& driver, void* data, Reports of)
      : memory(driver, data, sizeof(PrintRing) + kPrintCapacity), reports(std::move(of)) {}
  void* device() const { return memory.data(); }

  const Allocation memory;
  const Reports reports;
  std::mutex mutex;
  PrintSink sink;                   // of the last launch that had one
  uint64_t released = 0, lost = 0;  // as told to the sink
};

// Thread-safe.
class PrintRings {
 public:
  explicit PrintRings(Driver& driver) : driver_(driver) {}
  ~PrintRings();
  PrintRings(const PrintRings&) = delete;
  PrintRings& operator=(const PrintRings&) = delete;

  Result<std::shared_ptr<KernelRing>> add(const Reports& reports);
  // Hands what has been printed to the sinks.
  Result<void> drain();
  Result<void> drain(KernelRing& ring);

 private:
  Result<void> copy(void* to, const void* from, uint64_t bytes);

  Driver& driver_;
  std::mutex mutex_;
  Handle stream_ = nullptr;  // of its own, so that reading waits for nothing else
  std::vector<std::weak_ptr<KernelRing>> rings_;
};

}  // namespace kiln::client::gpu
