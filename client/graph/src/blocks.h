// Memory of runs: arenas, results and constants.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kiln/client/gpu.h"
#include "kiln/dsl/result.h"

namespace kiln::client {

// Memory at a multiple of 64 bytes, shared by its copies.
struct Block {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const void> owner = nullptr;
  std::shared_ptr<const DeviceMemory> device = nullptr;  // of a device

  // Of whatever bytes; large ones where the threads that use them run (host_memory.h).
  static Result<Block> allocate(uint64_t bytes, int threads = 0);
  static Result<Block> allocate_on(const Device& device, uint64_t bytes);
};

// Blocks that wait for the next run. Without locks, so that a child of fork() finds none held.
class BlockPool {
 public:
  BlockPool() = default;
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // One that is large enough, or a new one, of the device if there is one: the same with each call.
  Result<Block> take(uint64_t bytes, int threads, const Device* device);
  void give_back(Block block);

 private:
  std::array<std::atomic<Block*>, 8> waiting_{};  // as many as runs at once keep theirs
};

}  // namespace kiln::client
