// Matrices in shared memory by a warp, and copies that run beside the thread: as late as they may, when the thread
// waits for them.
#include <cstring>

#include "emulated_target.h"

namespace kiln::test {
namespace {

using llvm::Value;

constexpr size_t kRowBytes = 16;

// Lane l has word l % 4 of row l / 4; transposed, the elements of rows 2·(l % 4) and the next in column l / 4.
struct Place {
  int row;
  size_t byte;
};
Place place_of(int lane, int half, bool transposed) {
  if (!transposed) return {lane / 4, static_cast<size_t>(4 * (lane % 4) + 2 * half)};
  return {2 * (lane % 4) + half, static_cast<size_t>(2 * (lane / 4))};
}

// The rows' addresses were left in `from_bytes`, the words are in the operands; `stores` says which way they go.
void move_matrices(Thread* thread, int site, std::byte* row, int count, int transposed, bool stores) {
  Block& block = *thread->block;
  thread->row = row;
  if (!block.meet_warp(*thread, site)) return;
  Thread* warp = block.warp_of(*thread);
  for (int matrix = 0; matrix < count; ++matrix) {
    for (int i = 0; i < 8; ++i) {
      Thread& owner = warp[8 * matrix + i];
      if (!stores) block.check_shared(owner, owner.row, kRowBytes, false);
    }
    for (int lane = 0; lane < 32; ++lane) {
      for (int half = 0; half < 2; ++half) {
        const Place place = place_of(lane, half, transposed != 0);
        std::byte* memory = warp[8 * matrix + place.row].row + place.byte;
        std::byte* word = warp[lane].operands.data() + 4 * matrix + 2 * half;
        std::memcpy(stores ? memory : word, stores ? word : memory, 2);
      }
    }
    for (int i = 0; i < 8; ++i) {
      Thread& owner = warp[8 * matrix + i];
      if (stores) block.check_shared(owner, owner.row, kRowBytes, true);
    }
  }
  block.release_warp(*thread);
}

void host_load_matrices(Thread* thread, int site, std::byte* row, int count, int transposed) {
  move_matrices(thread, site, row, count, transposed, false);
}

void host_store_matrices(Thread* thread, int site, std::byte* row, int count, int transposed) {
  move_matrices(thread, site, row, count, transposed, true);
}

void host_async_copy(Thread* thread, std::byte* shared, const std::byte* from, uint32_t bytes, uint32_t predicate) {
  if (predicate) thread->block->check_global(*thread, from, bytes, "asynchronous copy");
  thread->copies.push_back({shared, predicate ? from : nullptr, bytes});
}

void host_async_commit(Thread* thread) {
  thread->copy_groups.push_back(std::move(thread->copies));
  thread->copies.clear();
}

void host_async_wait(Thread* thread, uint32_t groups) {
  while (thread->copy_groups.size() > groups) {
    for (const AsyncCopy& copy : thread->copy_groups.front()) {
      if (copy.from) thread->block->check_global_order(*thread, copy.from, copy.bytes, false);
      if (copy.from) {
        std::memcpy(copy.shared, copy.from, copy.bytes);
      } else {
        std::memset(copy.shared, 0, copy.bytes);
      }
      thread->block->check_shared(*thread, copy.shared, copy.bytes, true);
    }
    thread->copy_groups.erase(thread->copy_groups.begin());
  }
}

}  // namespace

std::vector<Value*> EmulatedTarget::load_matrices(Builder& b, Value* address, int count, bool transposed) const {
  Value* row = b.CreateAddrSpaceCast(address, b.getPtrTy());
  call_host(b, host_load_matrices, b.getVoidTy(),
            {next_site(b), row, b.getInt32(static_cast<uint32_t>(count)), b.getInt32(transposed ? 1 : 0)});
  std::vector<Value*> out;
  for (int i = 0; i < count; ++i) out.push_back(b.CreateLoad(b.getInt32Ty(), operand(b, static_cast<size_t>(4 * i))));
  return out;
}

void EmulatedTarget::store_matrices(Builder& b, Value* address, llvm::ArrayRef<Value*> words, bool transposed) const {
  for (size_t i = 0; i < words.size(); ++i) b.CreateStore(words[i], operand(b, 4 * i));
  Value* row = b.CreateAddrSpaceCast(address, b.getPtrTy());
  call_host(b, host_store_matrices, b.getVoidTy(),
            {next_site(b), row, b.getInt32(static_cast<uint32_t>(words.size())), b.getInt32(transposed ? 1 : 0)});
}

void EmulatedTarget::async_copy(Builder& b, Value* shared, const codegen::gpu::GlobalAccess& from, int bytes) const {
  Value* predicate = from.predicate ? b.CreateZExt(from.predicate, b.getInt32Ty()) : b.getInt32(1);
  call_host(
      b, host_async_copy, b.getVoidTy(),
      {b.CreateAddrSpaceCast(shared, b.getPtrTy()), from.pointer, b.getInt32(static_cast<uint32_t>(bytes)), predicate});
}

void EmulatedTarget::async_commit(Builder& b) const { call_host(b, host_async_commit, b.getVoidTy(), {}); }

void EmulatedTarget::async_wait(Builder& b, int groups) const {
  call_host(b, host_async_wait, b.getVoidTy(), {b.getInt32(static_cast<uint32_t>(groups))});
}

}  // namespace kiln::test
