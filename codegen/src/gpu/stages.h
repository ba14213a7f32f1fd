// The copies of a pipelined loop (pipeline.h): a ring of slots in shared memory for each staged load.
//
//   for the first iterations: copy into slots 0, 1, …; commit
//   loop:
//     wait for the oldest copies; barrier      ; everyone's are there, and everyone has left the slot that comes free
//     copy for a later iteration; commit
//     …                                        ; the body reads its slot
//
// Where the engine of bulk_engine.h makes all copies, each slot has a transaction barrier that says when it is full,
// and what comes free is filled at the end of an iteration already:
//
//   loop:
//     wait for the slot's transaction barrier
//     …
//     barrier; one thread tells the engine what to copy next
#pragma once

#include "gpu/context.h"
#include "gpu/pipeline.h"

namespace kiln::codegen::gpu {

// The range of a loop, i64.
struct LoopRange {
  Value *start, *end, *step;
};

// Registers of carried values in memory of their own, which LLVM promotes (control.cpp).
struct Variable {
  Layout layout;
  std::vector<llvm::AllocaInst*> places;
};
std::vector<Variable> make_variables(Context& c, llvm::ArrayRef<ValueId> ids);
Result<void> assign(Context& c, llvm::ArrayRef<ValueId> values, const std::vector<Variable>& variables);
Registers read(Context& c, const Variable& variable);

class Stages {
 public:
  // `runs_on`: products of one iteration may run into the next, so a slot comes free an iteration later.
  Stages(Context& c, const Op& loop, const Pipeline& pipeline, const LoopRange& range, bool runs_on);

  // Where the builder stands before the loop.
  Result<void> begin();
  // At the head of an iteration. `guard` ends the block before the loop.
  Result<void> advance(llvm::Instruction* guard);
  // At its end.
  Result<void> finish(llvm::Instruction* guard);
  // In the scope of the body: what the staged loads have loaded.
  void define();

 private:
  Result<void> fill(llvm::Instruction* guard);
  Result<void> copy(const StagedLoad& staged, const SharedBuffer& ring, Value* base, Value* enabled);
  void make_barriers();
  void announce(Value* chosen);
  void copy_in_bulk(const StagedLoad& staged, const SharedBuffer& ring, Value* base, Value* chosen);
  Value* slot(const SharedBuffer& ring, int64_t bytes, llvm::AllocaInst* number);
  // To the next slot; whether it is the first again.
  Value* step(llvm::AllocaInst* number);

  Context& c_;
  const Op& loop_;
  const Pipeline& pipeline_;
  const LoopRange range_;
  const int distance_;  // iterations that a copy is ahead
  std::vector<SharedBuffer> rings_;
  std::optional<SharedBuffer> barriers_;  // of the slots
  std::vector<Variable> ahead_;
  llvm::AllocaInst *index_ = nullptr, *filled_ = nullptr, *used_ = nullptr, *parity_ = nullptr;
};

}  // namespace kiln::codegen::gpu
