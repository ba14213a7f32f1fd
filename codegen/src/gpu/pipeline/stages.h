// The copies of a pipelined loop (pipeline.h): a multi-buffer in shared memory for each staged load.
//
//   for the first iterations: copy into stages 0, 1, …; commit
//   loop:
//     wait for the oldest copies; barrier      ; everyone's are there, and everyone has left the stage that comes free
//     copy for a later iteration; commit
//     …                                        ; the body reads its stage
//
// Copies through registers: what is loaded at the head of an iteration is stored at its end. A single stage has been
// read by then, which a barrier says.
//
//   loop:
//     barrier; load for a later iteration
//     …
//     barrier where there is one stage; store into the stage that is free
//
// Where the engine of bulk_engine.h makes all copies, each stage has a transaction barrier that says when it is full,
// and what comes free is filled at the end of an iteration already:
//
//   loop:
//     wait for the stage's transaction barrier
//     …
//     barrier; one thread tells the engine what to copy next
//
// Where warps may drift apart, a stage also has a barrier that says when it is free: each warp arrives there, and the
// one that tells the engine waits, for the stage of an iteration before, if there are three or more. Where a warp of
// its own tells the engine (producer_warps.h), it waits for free stages in a loop of its own.
#pragma once

#include <set>

#include "gpu/context.h"
#include "gpu/pipeline/pipeline.h"
#include "gpu/variables.h"

namespace kiln::codegen::gpu {

// When stages are filled and come free.
struct StageOrder {
  // Products of one iteration may run into the next, so a stage comes free an iteration later.
  bool runs_on = false;
  // Loads that are read an iteration late: a stage has what they load in the iteration before. Of pipelines that are
  // all bulk, without carried values in their slice.
  std::set<const Op*> late = {};
  // Warps may be in different iterations, where nothing else keeps them together.
  bool drifts = false;
  // A warp of its own fills the stages.
  bool is_fed = false;
};

// Shared memory of a loop's stages.
MultiBuffers make_multi_buffers(Context& ctx, const Pipeline& pipeline, const StageOrder& order);
// Its transaction barriers, by one thread; a barrier of all threads has to follow.
void init_multi_buffers(Context& ctx, const MultiBuffers& multi_buffers, const Pipeline& pipeline,
                        const StageOrder& order, Value* chosen);

class PipelineStages {
 public:
  PipelineStages(Context& ctx, const Op& loop, const Pipeline& pipeline, const LoopRange& range, StageOrder order);

  // Where the builder stands before the loop.
  Result<void> begin();
  // All copies of the loop, by one thread that does nothing else.
  Result<void> copy_all();
  // Behind them: all stages were left.
  void wait_until_all_free();
  // In a cluster: by load, whether both blocks load the same.
  void share(std::map<const Op*, Value*> alike) { alike_ = std::move(alike); }
  // At the head of an iteration. `guard` ends the block before the loop.
  Result<void> advance(llvm::Instruction* guard);
  // At its end: release, then refill.
  Result<void> finish(llvm::Instruction* guard);
  // Says that this iteration's stage is free.
  void release();
  // Copies into what was released last; of pipelines that are all bulk also later, where threads would wait anyway.
  Result<void> refill(llvm::Instruction* guard);
  // Where the builder stands behind the loop: what is copied ahead of its end may fill memory that is others' by then.
  void end();
  // When the last products have ended too: of persistent blocks the next program's copies want their stage.
  void release_last();
  // Of consumer groups: behind the last iteration, or where there is none.
  void pass_on_right_to_multiply();
  // In the scope of the body: what the staged loads have loaded.
  void define();
  // Says that stages are read up to here.
  void touch();

 private:
  Result<void> fill(llvm::Instruction* guard);
  Result<void> copy_iteration(Value* count, Value* enabled, bool late, llvm::Instruction* guard);
  Result<void> copy(const StagedLoad& staged, const SharedBuffer& multi_buffer, Value* base, Value* enabled);
  // Copies through registers.
  Result<void> load(const StagedLoad& staged, Value* enabled);
  void put();
  void start();
  void take_right_to_multiply();
  Value* right_to_multiply_of(Value* consumer_group);
  void pass_over_others();
  void wait_for_stage();
  void wait_until_free();
  void arrive_free(llvm::AllocaInst* left, Value* chosen);
  void announce(Value* chosen, Value* enabled, bool late);
  void copy_in_bulk(const StagedLoad& staged, const SharedBuffer& multi_buffer, Value* base, Value* chosen);
  Value* stage_address(const SharedBuffer& multi_buffer, int64_t bytes, llvm::AllocaInst* number);
  // To the next stage; whether it is the first again.
  Value* step(llvm::AllocaInst* number);
  void flip(llvm::AllocaInst* parity, Value* wraps);

  Context& ctx_;
  const Op& loop_;
  const Pipeline& pipeline_;
  const LoopRange range_;
  StageOrder order_;
  const int distance_;  // iterations that a copy is ahead
  MultiBuffers buffers_;
  Value* copier_ = nullptr;  // whether this is the thread that tells the engine
  std::map<const Op*, Value*> alike_;
  std::vector<Variable> ahead_;
  std::vector<Registers> held_;  // what copies through registers have loaded
  llvm::AllocaInst *count_ = nullptr, *filled_ = nullptr, *used_ = nullptr, *parity_ = nullptr;
  llvm::AllocaInst *filled_parity_ = nullptr, *current_ = nullptr, *last_ = nullptr;
};

}  // namespace kiln::codegen::gpu
