// NVIDIA's side of the seam in gpu/target_info.h.
#pragma once

#include <algorithm>

#include "gpu/target_info.h"
#include "kiln/target/gpu.h"
#include "nvptx/bulk_engine.h"
#include "nvptx/elements.h"
#include "nvptx/target.h"
#include "nvptx/tensor_engine.h"

namespace kiln::codegen::nvptx {

class CudaTargetInfo : public gpu::TargetInfo {
 public:
  explicit CudaTargetInfo(const CudaTarget& target) : target_(target) {}

  int lanes() const override { return 32; }
  gpu::LaneFacts lane_facts() const override;
  MathOptions math() const override {
    return {.has_fma = true, .has_avx512 = false, .fast = false, .estimate = emit_estimate};
  }
  int64_t most_registers(int threads) const override {
    constexpr int64_t kOfThread = 255, kUnit = target::NvidiaGpu::kRegisterUnit;
    return std::min(kOfThread, target_.gpu->registers / threads / kUnit * kUnit);
  }
  SmallFloatInstructions small_floats() const override {
    return small_float_instructions(target_.units().f8_conversions);
  }
  llvm::Value* multiply_high(llvm::IRBuilder<>& ir, bool is_signed, llvm::Value* x, llvm::Value* y) const override {
    return emit_multiply_high(ir, is_signed, x, y);
  }
  llvm::Value* shift(llvm::IRBuilder<>& ir, bool to_left, llvm::Value* x, llvm::Value* y) const override {
    return emit_shift(ir, to_left, x, y);
  }
  llvm::Function* create_kernel(llvm::Module& module, const std::string& name, llvm::ArrayRef<llvm::Type*> params,
                                int threads) const override;
  llvm::Value* thread_id(llvm::IRBuilder<>& ir) const override;
  llvm::Value* program_id(llvm::IRBuilder<>& ir, int axis) const override;
  llvm::Value* num_programs(llvm::IRBuilder<>& ir, int axis) const override;
  llvm::Value* warp_uniform(llvm::IRBuilder<>& ir, llvm::Value* x) const override;
  std::optional<gpu::MatrixInstruction> matrix_instruction(dsl::ElementType a, dsl::ElementType b, dsl::ElementType sum,
                                                           dsl::Precision precision) const override;
  // scaled_matrix.cpp
  std::optional<gpu::ScaledInstruction> scaled_instruction(dsl::ElementType a, dsl::ElementType b) const override;
  llvm::Value* shuffle(llvm::IRBuilder<>& ir, llvm::Value* word, llvm::Value* lane) const override;
  llvm::Value* shuffle_xor(llvm::IRBuilder<>& ir, llvm::Value* word, unsigned mask) const override;
  void barrier(llvm::IRBuilder<>& ir) const override;
  void warp_barrier(llvm::IRBuilder<>& ir) const override;
  llvm::Value* uniform_condition(llvm::IRBuilder<>& ir, llvm::Value* x) const override;
  llvm::Value* any_lane(llvm::IRBuilder<>& ir, llvm::Value* x) const override;
  std::vector<llvm::Value*> load_matrices(llvm::IRBuilder<>& ir, llvm::Value* address, int count,
                                          bool transposed) const override;
  void store_matrices(llvm::IRBuilder<>& ir, llvm::Value* address, llvm::ArrayRef<llvm::Value*> words,
                      bool transposed) const override;
  int async_copy_sizes() const override;
  void async_copy(llvm::IRBuilder<>& ir, llvm::Value* shared, const gpu::GlobalAccess& from, int bytes) const override;
  void async_commit(llvm::IRBuilder<>& ir) const override;
  void async_wait(llvm::IRBuilder<>& ir, int groups) const override;
  std::optional<gpu::GroupInstruction> group_instruction(dsl::ElementType a, dsl::ElementType b, dsl::ElementType sum,
                                                         dsl::Precision precision) const override;
  void group_fence(llvm::IRBuilder<>& ir) const override;
  void group_commit(llvm::IRBuilder<>& ir) const override;
  std::vector<llvm::Value*> group_copy(llvm::IRBuilder<>& ir, llvm::ArrayRef<llvm::Value*> elements,
                                       int bits) const override;
  std::vector<llvm::Value*> group_wait(llvm::IRBuilder<>& ir, int groups,
                                       llvm::ArrayRef<llvm::Value*> accumulators) const override;
  void group_publish(llvm::IRBuilder<>& ir) const override;
  llvm::Value* load_global(llvm::IRBuilder<>& ir, llvm::Type* type, const gpu::GlobalAccess& access,
                           llvm::Value* other) const override;
  void store_global(llvm::IRBuilder<>& ir, llvm::Value* value, const gpu::GlobalAccess& access) const override;
  // atomics.cpp
  bool has_atomic(dsl::AtomicKind kind, dsl::ElementType element, int64_t count, bool gives_old) const override;
  llvm::Value* atomic_rmw(llvm::IRBuilder<>& ir, dsl::AtomicKind kind, dsl::ElementType element, llvm::Value* value,
                          bool gives_old, const gpu::AtomicAccess& access) const override;
  int least_exchange_bits() const override { return 16; }
  llvm::Value* compare_exchange(llvm::IRBuilder<>& ir, llvm::Value* expected, llvm::Value* desired,
                                const gpu::AtomicAccess& access) const override;
  bool takes_constraint(llvm::StringRef constraint, llvm::Type* type) const override;
  void fence(llvm::IRBuilder<>& ir, dsl::MemoryScope scope, llvm::Value* predicate) const override;
  const gpu::BulkEngine* bulk_engine() const override { return target_.units().bulk_copies ? &bulk_engine_ : nullptr; }
  const gpu::TensorEngine* tensor_engine() const override {
    return target_.units().tensor_memory ? &tensor_engine_ : nullptr;
  }

 private:
  const CudaTarget& target_;
  const CudaBulkEngine bulk_engine_{*target_.gpu};
  const CudaTensorEngine tensor_engine_;
};

}  // namespace kiln::codegen::nvptx
