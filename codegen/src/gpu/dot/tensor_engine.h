// Tensor memory: what a vendor supplies where sums of products lie in a memory of their own, beside the registers. It
// is a block's for as long as the block holds it: 512 columns of 128 lanes, each cell 32 bits. An address has the lane
// in its upper half and the column in its lower one. Four warps reach it, each a quarter of the lanes, by its number
// among the four.
//
// Products run beside the threads. One thread tells the engine: `chosen` is true in that thread of those that come by.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

namespace kiln::codegen::gpu {

class TensorEngine {
 public:
  using Builder = llvm::IRBuilder<>;
  using Value = llvm::Value;
  virtual ~TensorEngine() = default;

  static constexpr int kColumns = 512, kLeastColumns = 32, kLanes = 128;
  static constexpr int kLaneShift = 16;  // of an address

  // By all lanes of one warp. So many columns, a power of two of at least kLeastColumns: their address (i32) goes to
  // `place` in shared memory. Who asks for more than are free waits until others release them.
  virtual void allocate(Builder& ir, Value* place, int columns) const = 0;
  virtual void release(Builder& ir, Value* address, int columns) const = 0;

  // By all lanes of a warp, whose lanes the address names: so many columns (16 at least, a multiple of it) from the
  // address on, as words (i32). They are there, or stored, when this ends.
  virtual std::vector<Value*> load(Builder& ir, Value* address, int columns) const = 0;
  virtual void store(Builder& ir, Value* address, llvm::ArrayRef<Value*> words) const = 0;

  // In front of a barrier, and behind it: what comes before one is seen by what comes behind the other in another
  // thread. Behind the wait for a commit's barrier too.
  virtual void before_barrier(Builder& ir) const = 0;
  virtual void after_barrier(Builder& ir) const = 0;

  // Once all products end that the thread has asked for, one arrives at a transaction barrier (bulk_engine.h).
  virtual void commit(Builder& ir, Value* barrier, Value* chosen) const = 0;
};

}  // namespace kiln::codegen::gpu
