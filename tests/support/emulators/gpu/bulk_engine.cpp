#include "bulk_engine.h"

#include "emulated_target.h"

namespace kiln::test {
namespace {

using codegen::gpu::BoxCopy;
using llvm::Value;
using Builder = llvm::IRBuilder<>;

void host_init_barrier(Thread* thread, const void* barrier, int arrivals, uint32_t chosen) {
  if (chosen) thread->block->bulk().init_barrier(barrier, arrivals);
}

void host_arrive(Thread* thread, const void* barrier, int64_t bytes, uint32_t chosen) {
  if (chosen) thread->block->bulk().arrive(*thread, barrier, bytes);
}

void host_wait(Thread* thread, int site, const void* barrier, uint32_t parity) {
  thread->block->bulk().wait(*thread, barrier, parity, site);
  thread->block->tensor().see(*thread, barrier);
}

// Of so many neighbours: all, the program's, or a consumer group's.
void host_program_barrier(Thread* thread, int site, int threads) {
  thread->block->barrier(*thread, site, thread->number / threads * threads, threads);
}

void host_group_barrier(Thread* thread, int site, int group, int threads) {
  thread->block->barrier(*thread, site, group * threads, threads);
}

void host_arrive_at_block_barrier(Thread* thread) { thread->block->arrive_at_barrier(*thread); }

// Ordered by a transaction barrier, which the search for races does not know.
void host_send(Thread*, uint32_t* place, uint32_t number) { *place = number; }
uint32_t host_receive(Thread*, const uint32_t* place) { return *place; }

uint32_t host_count_up(Thread*, uint32_t* counter, uint32_t last) {
  const uint32_t old = *counter;
  *counter = old >= last ? 0 : old + 1;
  return old;
}

// The coordinates lie in the thread's operands.
Coordinates coordinates_of(const Thread& thread) {
  Coordinates out;
  std::copy_n(reinterpret_cast<const int32_t*>(thread.operands.data()), out.size(), out.begin());
  return out;
}

void host_bulk_load(Thread* thread, const EmulatedTensorMap* map, std::byte* shared, const void* barrier,
                    uint32_t chosen) {
  if (chosen) thread->block->bulk().load(*thread, *map, coordinates_of(*thread), shared, barrier);
}

void host_bulk_store(Thread* thread, const EmulatedTensorMap* map, std::byte* shared, uint32_t chosen) {
  if (chosen) thread->block->bulk().store(*thread, *map, coordinates_of(*thread), shared);
}

void host_end_store_group(Thread* thread, uint32_t chosen) {
  if (chosen) thread->block->bulk().end_group(*thread);
}

void host_wait_store_groups(Thread* thread, int pending, uint32_t chosen) {
  if (chosen) thread->block->bulk().wait_groups(*thread, static_cast<size_t>(pending));
}

Value* word(Builder& b, Value* chosen) { return chosen ? b.CreateZExt(chosen, b.getInt32Ty()) : b.getInt32(1); }
Value* number(Builder& b, int x) { return b.getInt32(static_cast<uint32_t>(x)); }
Value* flat(Builder& b, Value* shared) { return b.CreateAddrSpaceCast(shared, b.getPtrTy()); }

void pass_coordinates(Builder& b, const BoxCopy& copy) {
  Value* operands = EmulatedTarget::thread_of(*b.GetInsertBlock()->getParent());
  for (size_t i = 0; i < kMaxTensorRank; ++i) {
    Value* at = i < copy.coordinates.size() ? copy.coordinates[i] : b.getInt32(0);
    b.CreateStore(at, b.CreateConstGEP1_64(b.getInt32Ty(), operands, i));
  }
}

}  // namespace

llvm::Instruction* EmulatedBulkEngine::init_barrier(Builder& b, Value* barrier, int arrivals, Value* chosen) const {
  return call_host(b, host_init_barrier, b.getVoidTy(), {flat(b, barrier), number(b, arrivals), word(b, chosen)});
}

llvm::Instruction* EmulatedBulkEngine::arrive(Builder& b, Value* barrier, Value* chosen) const {
  return arrive_expecting(b, barrier, 0, chosen);
}

llvm::Instruction* EmulatedBulkEngine::arrive_expecting(Builder& b, Value* barrier, int64_t bytes,
                                                        Value* chosen) const {
  Value* announced = b.getInt64(static_cast<uint64_t>(bytes));
  return call_host(b, host_arrive, b.getVoidTy(), {flat(b, barrier), announced, word(b, chosen)});
}

llvm::Instruction* EmulatedBulkEngine::wait(Builder& b, Value* barrier, Value* parity) const {
  return call_host(b, host_wait, b.getVoidTy(), {number(b, ++sites_), flat(b, barrier), parity});
}

llvm::Instruction* EmulatedBulkEngine::load(Builder& b, const BoxCopy& copy, Value* barrier, Value* chosen) const {
  pass_coordinates(b, copy);
  return call_host(b, host_bulk_load, b.getVoidTy(),
                   {copy.map, flat(b, copy.shared), flat(b, barrier), word(b, chosen)});
}

llvm::Instruction* EmulatedBulkEngine::store(Builder& b, const BoxCopy& copy, Value* chosen) const {
  pass_coordinates(b, copy);
  return call_host(b, host_bulk_store, b.getVoidTy(), {copy.map, flat(b, copy.shared), word(b, chosen)});
}

void EmulatedBulkEngine::end_store_group(Builder& b, Value* chosen) const {
  call_host(b, host_end_store_group, b.getVoidTy(), {word(b, chosen)});
}

llvm::Instruction* EmulatedBulkEngine::wait_store_groups(Builder& b, int pending, bool /*until_read*/,
                                                         Value* chosen) const {
  return call_host(b, host_wait_store_groups, b.getVoidTy(), {number(b, pending), word(b, chosen)});
}

void EmulatedBulkEngine::send(Builder& b, Value* place, Value* number) const {
  call_host(b, host_send, b.getVoidTy(), {flat(b, place), number});
}

Value* EmulatedBulkEngine::receive(Builder& b, Value* place) const {
  return call_host(b, host_receive, b.getInt32Ty(), {flat(b, place)});
}

Value* EmulatedBulkEngine::count_up(Builder& b, Value* counter, Value* last) const {
  return call_host(b, host_count_up, b.getInt32Ty(), {counter, last});
}

void EmulatedBulkEngine::program_barrier(Builder& b, const codegen::gpu::BlockShape& block) const {
  call_host(b, host_program_barrier, b.getVoidTy(), {number(b, ++sites_), number(b, block.threads())});
}

void EmulatedBulkEngine::block_barrier(Builder& b, const codegen::gpu::BlockShape& block) const {
  call_host(b, host_program_barrier, b.getVoidTy(), {number(b, ++sites_), number(b, block.block_threads())});
}

void EmulatedBulkEngine::arrive_at_block_barrier(Builder& b, const codegen::gpu::BlockShape&) const {
  call_host(b, host_arrive_at_block_barrier, b.getVoidTy(), {});
}

void EmulatedBulkEngine::group_barrier(Builder& b, Value* group, int threads) const {
  call_host(b, host_group_barrier, b.getVoidTy(), {number(b, ++sites_), group, number(b, threads)});
}

}  // namespace kiln::test
