// An engine that copies boxes of tensors between global and shared memory while the threads do something else: what a
// vendor supplies where its GPUs have one. Tensors are described by maps that the host encodes at a launch
// (docs/reference/artifact.md, "Tensor maps").
//
// One thread tells the engine: `chosen` is true in that thread of those that come by.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "gpu/block/block_shape.h"

namespace kiln::codegen::gpu {

// One box. What is outside the tensor is filled, or not written.
struct BoxCopy {
  llvm::Value* map = nullptr;
  std::vector<llvm::Value*> coordinates;  // i32, innermost first
  llvm::Value* shared = nullptr;          // a multiple of 128 bytes
  // Of loads: it goes to the same place of each block of the cluster, and its bytes to their barriers.
  bool for_cluster = false;
};

class BulkEngine {
 public:
  using Builder = llvm::IRBuilder<>;
  using Value = llvm::Value;
  virtual ~BulkEngine() = default;

  // A transaction barrier is 8 bytes of shared memory. A phase ends when `arrivals` threads have arrived and all bytes
  // that they announced are there; then the next begins. Phases have alternating parities, the first 0.
  virtual llvm::Instruction* init_barrier(Builder& ir, Value* barrier, int arrivals, Value* chosen) const = 0;
  virtual llvm::Instruction* arrive(Builder& ir, Value* barrier, Value* chosen) const = 0;
  virtual llvm::Instruction* arrive_expecting(Builder& ir, Value* barrier, int64_t bytes, Value* chosen) const = 0;
  // Every thread that calls waits until the phase of this parity (i32) has ended.
  virtual llvm::Instruction* wait(Builder& ir, Value* barrier, Value* parity) const = 0;

  // The bytes of the whole box arrive at the barrier, those that were filled too.
  virtual llvm::Instruction* load(Builder& ir, const BoxCopy& copy, Value* barrier, Value* chosen) const = 0;

  // Stores since the last call become a group, of which the thread that told the engine can wait until at most
  // `pending` are under way: until their shared memory has been read, or until global memory has been written.
  virtual llvm::Instruction* store(Builder& ir, const BoxCopy& copy, Value* chosen) const = 0;
  virtual void end_store_group(Builder& ir, Value* chosen) const = 0;
  virtual llvm::Instruction* wait_store_groups(Builder& ir, int pending, bool until_read, Value* chosen) const = 0;

  // What this thread has written to shared memory, the engine sees when it is told behind the next barrier.
  virtual void publish_shared(Builder& ir) const = 0;
  // Transaction barriers that this thread has initialised, the engine sees from here on, other threads behind the next
  // barrier.
  virtual void publish_barriers(Builder& ir) const = 0;
  // Copies by the map will follow: it is brought near meanwhile.
  virtual void prefetch_map(Builder& ir, Value* map, Value* chosen) const = 0;

  // A thread hands a number (i32) to others by shared memory: it is there for who has waited for a barrier at which the
  // thread arrives then.
  virtual void send(Builder& ir, Value* place, Value* number) const = 0;
  virtual Value* receive(Builder& ir, Value* place) const = 0;
  // Adds 1 to a counter (i32) in global memory, or sets it to 0 where it is `last`, for all blocks one after another:
  // what it was.
  virtual Value* count_up(Builder& ir, Value* counter, Value* last) const = 0;

  // Blocks that may be a cluster: they have each other's shared memory and run side by side; 1: none are.
  virtual int most_of_cluster() const { return 1; }
  // The number of this block of its cluster, i32.
  virtual Value* number_in_cluster(Builder&) const { return nullptr; }
  // At the same barrier of another block of the cluster.
  virtual llvm::Instruction* arrive_in_cluster(Builder&, Value* /*barrier*/, Value* /*block*/,
                                               Value* /*chosen*/) const {
    return nullptr;
  }
  // Of all threads of the cluster that have not ended. It orders nothing but barriers that were published before: all
  // blocks see them behind it.
  virtual void cluster_barrier(Builder&) const {}

  // Warps that do nothing but copy for those of the program (producer_warps.h): so many in a block of such programs;
  // 0: none may.
  virtual int producer_warps(const BlockShape& program) const = 0;
  // Of the program's threads alone, which are a consumer group; orders accesses to shared memory.
  virtual void program_barrier(Builder& ir, const BlockShape& block) const = 0;
  // Of one of the groups of so many warps that the program has, i32.
  virtual void group_barrier(Builder& ir, Value* group, int threads) const = 0;
  // A barrier of all the block's threads, at which whole warps wait, or arrive and go on, and may end. (At a
  // TargetInfo::barrier() those that end count as there, or as gone.)
  virtual void block_barrier(Builder& ir, const BlockShape& block) const = 0;
  virtual void arrive_at_block_barrier(Builder& ir, const BlockShape& block) const = 0;
  // What either kind of warps begins with: those that copy want few registers, the others may have what these leave.
  virtual void begin_producing(Builder& ir, const BlockShape& block) const = 0;
  virtual void begin_computing(Builder& ir, const BlockShape& block) const = 0;
};

}  // namespace kiln::codegen::gpu
