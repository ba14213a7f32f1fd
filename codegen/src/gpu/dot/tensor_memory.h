// A kernel's tensor memory (tensor_engine.h): where its products sum up.
//
//   one warp allocates; barrier               ; where a program's threads begin
//   …
//   store what the sums begin with            ; unless they begin with zeros
//   fence; barrier; fence                     ; threads have done with these columns
//   one thread: products; commit              ; arrives at the next of a ring of transaction barriers
//   …                                         ; threads go on, products of the next iteration add up in place
//   wait for the commit; load
//   …
//   barrier; the warp releases                ; where they end
//
// Sums that are pending (context.h) have no registers: what stands for these is never read. Commits are counted, so
// that a thread knows which barrier of the ring, and which phase of it, a wait is for. A barrier of all threads in
// front of each product keeps them within a ring of each other.
#pragma once

#include <map>

#include "gpu/context.h"
#include "gpu/dot/dot_layouts.h"

namespace kiln::codegen::gpu {

class TensorMemory {
 public:
  // Allocates, where the builder stands and all of the program's threads come by; null where no product of the kernel
  // sums up there.
  static std::unique_ptr<TensorMemory> begin(Context& ctx);
  // The same threads, and all products have ended: releases it.
  void end();

  // Sums that are in the columns of a product.
  void keep(ValueId sums, const DotGroup& group) { kept_.insert_or_assign(sums, group); }
  // Whether a product would find the sums, which are pending, where it adds up.
  bool are_in_place(ValueId sums, const DotGroup& group) const;

  // What stands for the registers of such sums.
  Registers stand_ins(const dsl::Type& type, const Layout& layout);
  void store(const DotGroup& group, const Registers& sums);
  // Waits until so many commits at most are under way, and loads. Registers that are constants (padding) stay so.
  Registers load(int commits, ValueId sums, Registers stand_ins);
  void wait(int commits);

  // Threads have done with the columns that products write next, and have written their operands. `commits`: so many at
  // most are under way.
  void begin_products(int commits);
  // Of a fragment, in the group of warps that this thread belongs to.
  Value* address(const DotGroup& group, int64_t fragment);
  Value* chosen() const { return chosen_; }
  void commit();

 private:
  TensorMemory(Context& ctx, int columns);
  Value* barrier_of(Value* commit);
  Value* mine(Value* address);

  Context& ctx_;
  const TensorEngine& engine_;
  const int columns_;  // allocated
  const SharedBuffer barriers_;
  Value *warp_, *thread_;     // of the program's
  Value* chosen_ = nullptr;   // the first thread of a group of warps
  Value* address_ = nullptr;  // of the first column
  llvm::AllocaInst* count_;   // of commits
  std::map<ValueId, DotGroup> kept_;
};

}  // namespace kiln::codegen::gpu
