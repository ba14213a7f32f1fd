// Memory of runs: arenas, results and constants.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kiln/client/gpu.h"
#include "kiln/dsl/result.h"

namespace kiln::client {

// Memory at a multiple of 64 bytes, shared by its copies.
struct Block {
  Block() = default;
  Block(std::byte* at, uint64_t size, std::shared_ptr<const void> keeper,
        std::shared_ptr<const DeviceMemory> memory = nullptr)
      : data(at), bytes(size), owner(std::move(keeper)), device(std::move(memory)) {}

  std::byte* data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const void> owner = nullptr;
  std::shared_ptr<const DeviceMemory> device = nullptr;  // of a device
  std::optional<Stream> stream = {};                     // whose queued work may still use it

  // Of whatever bytes; large ones where the threads that use them run (host_memory.h).
  static Result<Block> allocate(uint64_t bytes, int threads = 0);
  // `holder`: as of DeviceMemory.
  static Result<Block> allocate_on(const Device& device, uint64_t bytes, const std::string& holder);
  static Result<Block> make(uint64_t bytes, int threads, const Device* device, const std::string& holder) {
    return device ? allocate_on(*device, bytes, holder) : allocate(bytes, threads);
  }
};

// Blocks that wait for the next run. Without locks, so that a child of fork() finds none held.
class BlockPool {
 public:
  explicit BlockPool(std::string holder) : holder_(std::move(holder)) {}
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // One that is large enough, or a new one, of the device if there is one: the same with each call. What queued work of
  // a stream may still use goes to the same stream only.
  Result<Block> take(uint64_t bytes, int threads, const Device* device, const Stream* stream);
  void give_back(std::unique_ptr<Block> kept);
  // Frees what waits; how many bytes that were.
  uint64_t clear();
  const std::string& holder() const { return holder_; }

 private:
  const std::string holder_;
  std::array<std::atomic<Block*>, 8> waiting_{};  // as many as runs at once keep theirs
};

}  // namespace kiln::client
