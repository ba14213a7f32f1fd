// NVIDIA's engine for bulk copies, from sm_90 on: the tensor memory accelerator.
#pragma once

#include "gpu/pipeline/bulk_engine.h"
#include "kiln/target/gpu.h"

namespace kiln::codegen::nvptx {

class CudaBulkEngine : public gpu::BulkEngine {
 public:
  explicit CudaBulkEngine(const target::NvidiaGpu& gpu) : gpu_(gpu) {}
  llvm::Instruction* init_barrier(Builder& ir, Value* barrier, int arrivals, Value* chosen) const override;
  llvm::Instruction* arrive(Builder& ir, Value* barrier, Value* chosen) const override;
  llvm::Instruction* arrive_expecting(Builder& ir, Value* barrier, int64_t bytes, Value* chosen) const override;
  llvm::Instruction* wait(Builder& ir, Value* barrier, Value* parity) const override;
  llvm::Instruction* load(Builder& ir, const gpu::BoxCopy& copy, Value* barrier, Value* chosen) const override;
  llvm::Instruction* store(Builder& ir, const gpu::BoxCopy& copy, Value* chosen) const override;
  void end_store_group(Builder& ir, Value* chosen) const override;
  llvm::Instruction* wait_store_groups(Builder& ir, int pending, bool until_read, Value* chosen) const override;
  void publish_shared(Builder& ir) const override;
  void publish_barriers(Builder& ir) const override;
  void prefetch_map(Builder& ir, Value* map, Value* chosen) const override;
  void send(Builder& ir, Value* place, Value* number) const override;
  Value* receive(Builder& ir, Value* place) const override;
  Value* count_up(Builder& ir, Value* counter, Value* last) const override;
  int most_of_cluster() const override { return gpu_.units.shares_loads ? 2 : 1; }
  Value* number_in_cluster(Builder& ir) const override;
  llvm::Instruction* arrive_in_cluster(Builder& ir, Value* barrier, Value* block, Value* chosen) const override;
  void cluster_barrier(Builder& ir) const override;
  int producer_warps(const gpu::BlockShape& program) const override;
  void program_barrier(Builder& ir, const gpu::BlockShape& block) const override;
  void group_barrier(Builder& ir, Value* group, int threads) const override;
  void block_barrier(Builder& ir, const gpu::BlockShape& block) const override;
  void arrive_at_block_barrier(Builder& ir, const gpu::BlockShape& block) const override;
  void begin_producing(Builder& ir, const gpu::BlockShape& block) const override;
  void begin_computing(Builder& ir, const gpu::BlockShape& block) const override;

 private:
  const target::NvidiaGpu& gpu_;
};

}  // namespace kiln::codegen::nvptx
