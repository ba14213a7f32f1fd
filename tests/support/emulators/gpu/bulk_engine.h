// The emulator's side of gpu/pipeline/bulk_engine.h.
#pragma once

#include "gpu/pipeline/bulk_engine.h"

namespace kiln::test {

class EmulatedBulkEngine : public codegen::gpu::BulkEngine {
 public:
  // `produces`: warps of their own may copy.
  explicit EmulatedBulkEngine(bool produces) : produces_(produces) {}
  llvm::Instruction* init_barrier(Builder& b, Value* barrier, int arrivals, Value* chosen) const override;
  llvm::Instruction* arrive(Builder& b, Value* barrier, Value* chosen) const override;
  llvm::Instruction* arrive_expecting(Builder& b, Value* barrier, int64_t bytes, Value* chosen) const override;
  llvm::Instruction* wait(Builder& b, Value* barrier, Value* parity) const override;
  llvm::Instruction* load(Builder& b, const codegen::gpu::BoxCopy& copy, Value* barrier, Value* chosen) const override;
  llvm::Instruction* store(Builder& b, const codegen::gpu::BoxCopy& copy, Value* chosen) const override;
  void end_store_group(Builder& b, Value* chosen) const override;
  llvm::Instruction* wait_store_groups(Builder& b, int pending, bool until_read, Value* chosen) const override;
  void send(Builder& b, Value* place, Value* number) const override;
  Value* receive(Builder& b, Value* place) const override;
  Value* count_up(Builder& b, Value* counter, Value* last) const override;
  // A host's memory is one.
  void publish_shared(Builder&) const override {}
  void publish_barriers(Builder&) const override {}
  void prefetch_map(Builder&, Value*, Value*) const override {}
  int producer_warps(const codegen::gpu::BlockShape&) const override { return produces_ ? 1 : 0; }
  void program_barrier(Builder& b, const codegen::gpu::BlockShape& block) const override;
  void group_barrier(Builder& b, Value* group, int threads) const override;
  void block_barrier(Builder& b, const codegen::gpu::BlockShape& block) const override;
  void arrive_at_block_barrier(Builder& b, const codegen::gpu::BlockShape& block) const override;
  void begin_producing(Builder&, const codegen::gpu::BlockShape&) const override {}
  void begin_computing(Builder&, const codegen::gpu::BlockShape&) const override {}

 private:
  const bool produces_;
  mutable int sites_ = 0;
};

}  // namespace kiln::test
