// Memory that was given back in a stream's order: whoever allocates on the same stream next may have it at once, for
// what uses it runs behind what used it before. No driver is called, and nobody waits.
//
//   allocate(stream) ─► launches … ─► ~DeviceMemory ─► pool ─► allocate(stream) ─► launches …
#pragma once

#include <map>
#include <mutex>

#include "memory.h"

namespace kiln::client::gpu {

// Thread-safe. Its driver outlives it.
class StreamPool {
 public:
  explicit StreamPool(Driver& driver) : driver_(driver), cache_(driver.memory(), [this] { return give_back(); }) {}

  // A piece that waits here and is no more than twice as large, or a new one.
  Result<Allocation> take(uint64_t bytes, const std::string& holder);
  void put(Allocation piece) noexcept;

 private:
  uint64_t give_back();

  Driver& driver_;
  std::mutex mutex_;
  std::multimap<uint64_t, Allocation> pieces_;  // by size
  MemoryBook::Cache cache_;                     // goes first: it calls give_back()
};

}  // namespace kiln::client::gpu
