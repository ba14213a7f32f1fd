#include "blocks.h"

#include <cstdlib>
#include <new>
#include <string>

#include "kiln/client/host_memory.h"

namespace kiln::client {
namespace {

constexpr uint64_t kAlignment = 64;
// From here on memory is mapped by itself, and touched by the threads that use it.
constexpr uint64_t kMapped = uint64_t{4} << 20;

bool same(const Stream* a, const Stream* b) { return a && b && a->state() == b->state(); }

// A device's memory waits for the device by itself; the host's is gone at once.
void release(std::unique_ptr<Block> block) {
  if (block && block->stream && !block->device) (void)block->stream->synchronise();
}

}  // namespace

Result<Block> Block::allocate(uint64_t bytes, int threads) {
  if (bytes >= kMapped) {
    auto memory = HostMemory::allocate(bytes, threads);
    if (!memory) return memory.error();
    auto owner = std::make_shared<HostMemory>(std::move(*memory));
    std::byte* data = owner->data();
    return Block{data, bytes, std::move(owner)};
  }
  const uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
  if (data == nullptr) {
    return error(ErrorCode::kOutOfMemory, "no memory for an array of " + std::to_string(bytes) + " bytes");
  }
  return Block{static_cast<std::byte*>(data), bytes, {data, [](void* memory) { std::free(memory); }}};
}

Result<Block> Block::allocate_on(const Device& device, uint64_t bytes, const std::string& holder) {
  auto memory = DeviceMemory::allocate(device, bytes, holder);
  if (!memory) return memory.error();
  auto owner = std::make_shared<const DeviceMemory>(std::move(*memory));
  return Block{static_cast<std::byte*>(owner->data()), bytes, owner, owner};
}

BlockPool::~BlockPool() { clear(); }

uint64_t BlockPool::clear() {
  uint64_t bytes = 0;
  for (auto& slot : waiting_) {
    std::unique_ptr<Block> block(slot.exchange(nullptr, std::memory_order_acq_rel));
    if (block) bytes += block->bytes;
    release(std::move(block));
  }
  return bytes;
}

Result<Block> BlockPool::take(uint64_t bytes, int threads, const Device* device, const Stream* stream) {
  for (auto& slot : waiting_) {
    if (slot.load(std::memory_order_relaxed) == nullptr) continue;
    std::unique_ptr<Block> block(slot.exchange(nullptr, std::memory_order_acq_rel));
    if (!block) continue;
    if (block->stream && !same(&*block->stream, stream)) {
      give_back(std::move(block));
      continue;
    }
    if (block->bytes >= bytes) return std::move(*block);
    release(std::move(block));  // too small for what runs now: it goes
  }
  return Block::make(bytes, threads, device, holder_);
}

void BlockPool::give_back(std::unique_ptr<Block> kept) {
  for (auto& slot : waiting_) {
    Block* none = nullptr;
    if (slot.compare_exchange_strong(none, kept.get(), std::memory_order_acq_rel)) {
      (void)kept.release();
      return;
    }
  }
  release(std::move(kept));
}

}  // namespace kiln::client
