// AMD's side of the seam in gpu/target_info.h.
#pragma once

#include <algorithm>

#include "amdgcn/elements.h"
#include "amdgcn/target.h"
#include "gpu/target_info.h"

namespace kiln::codegen::amdgcn {

// The extent of buffers: an offset from there on, of those without a sign, is out of bounds.
inline constexpr int64_t kBufferBytes = int64_t{1} << 31;

class AmdTargetInfo : public gpu::TargetInfo {
 public:
  using Builder = llvm::IRBuilder<>;
  using Value = llvm::Value;

  // `chiplets`: the processor deals programs to so many by turns; neighbours are to be on the same one.
  explicit AmdTargetInfo(const AmdTarget& target, int chiplets = 1)
      : processor_(target.processor), chiplets_(chiplets) {}

  int lanes() const override { return processor_.lanes; }
  // On gfx9 a load of 16 bytes serves lanes 0-3 with 20-23, 4-7 with 16-19 and so on (AMD's documentation of Composable
  // Kernel, "Understanding AMD GPU LDS and Bank Conflicts").
  gpu::LaneFacts lane_facts() const override {
    return {.wide_load_lanes = processor_.major == 9 ? gpu::Columns{1, 2, 20} : gpu::Columns{},
            .shared_bytes = processor_.lds_bytes()};
  }
  MathOptions math() const override {
    return {.has_fma = true, .has_avx512 = false, .fast = false, .estimate = emit_estimate};
  }
  // Vector registers, with accumulators where these are among them.
  int64_t most_registers(int threads) const override {
    constexpr int64_t kOfRdna = 256;
    const int64_t waves = std::max(1, threads / processor_.lanes / processor_.simds);
    const bool has_all = processor_.major == 9 || processor_.matrix == Matrix::kWmma1250;
    const int64_t of_wave = has_all ? processor_.registers : kOfRdna;
    return std::min(of_wave, processor_.registers / waves);
  }
  SmallFloatInstructions small_floats() const override { return small_float_instructions(processor_); }
  llvm::Function* create_kernel(llvm::Module& module, const std::string& name, llvm::ArrayRef<llvm::Type*> params,
                                int threads) const override;
  Value* thread_id(Builder& ir) const override;
  Value* program_id(Builder& ir, int axis) const override;
  Value* num_programs(Builder& ir, int axis) const override;
  Value* warp_uniform(Builder& ir, Value* x) const override;
  void begin_products(Builder& ir) const override;
  void end_operand_reads(Builder& ir) const override;
  void end_products(Builder& ir) const override;
  // matrix.cpp
  std::optional<gpu::MatrixInstruction> matrix_instruction(dsl::ElementType a, dsl::ElementType b, dsl::ElementType sum,
                                                           dsl::Precision precision) const override;
  std::optional<gpu::ScaledInstruction> scaled_instruction(dsl::ElementType a, dsl::ElementType b) const override;
  // cross_lane.cpp
  Value* shuffle(Builder& ir, Value* word, Value* lane) const override;
  Value* shuffle_xor(Builder& ir, Value* word, unsigned mask) const override;
  void barrier(Builder& ir) const override;
  void warp_barrier(Builder& ir) const override;
  // There are none: lane_facts() says so.
  std::vector<Value*> load_matrices(Builder& ir, Value* address, int count, bool transposed) const override;
  void store_matrices(Builder& ir, Value* address, llvm::ArrayRef<Value*> words, bool transposed) const override;
  int async_copy_sizes() const override { return 0; }
  void async_copy(Builder& ir, Value* shared, const gpu::GlobalAccess& from, int bytes) const override;
  // Loads into registers so far are under way before what follows.
  void async_commit(Builder& ir) const override;
  void async_wait(Builder&, int) const override {}
  std::optional<gpu::GroupInstruction> group_instruction(dsl::ElementType, dsl::ElementType, dsl::ElementType,
                                                         dsl::Precision) const override {
    return std::nullopt;
  }
  void group_fence(Builder&) const override {}
  void group_commit(Builder&) const override {}
  std::vector<Value*> group_wait(Builder&, int, llvm::ArrayRef<Value*> accumulators) const override {
    return accumulators.vec();
  }
  void group_publish(Builder&) const override {}
  int64_t offset_reach() const override { return kBufferBytes; }
  Value* load_global(Builder& ir, llvm::Type* type, const gpu::GlobalAccess& access, Value* other) const override;
  void store_global(Builder& ir, Value* value, const gpu::GlobalAccess& access) const override;
  // atomics.cpp
  bool has_atomic(dsl::AtomicKind kind, dsl::ElementType element, int64_t count, bool gives_old) const override;
  Value* atomic_rmw(Builder& ir, dsl::AtomicKind kind, dsl::ElementType element, Value* value, bool gives_old,
                    const gpu::AtomicAccess& access) const override;
  int least_exchange_bits() const override { return 32; }
  Value* compare_exchange(Builder& ir, Value* expected, Value* desired, const gpu::AtomicAccess& access) const override;
  bool takes_constraint(llvm::StringRef constraint, llvm::Type* type) const override;
  void fence(Builder& ir, dsl::MemoryScope scope, Value* predicate) const override;

 private:
  Value* dealt_program(Builder& ir, Value* workgroup) const;
  // buffer.cpp: by GlobalAccess::offsets.
  Value* load_buffer(Builder& ir, llvm::Type* type, const gpu::GlobalAccess& access) const;
  void store_buffer(Builder& ir, Value* value, const gpu::GlobalAccess& access) const;

  const Processor& processor_;
  const int chiplets_;
};

// A pointer to global memory as LLVM's accesses want it: they have no generic ones, which are slower.
llvm::Value* global_pointer(llvm::IRBuilder<>& ir, llvm::Value* pointer);

// What is used once bypasses what the caches keep.
bool is_used_once(const gpu::GlobalAccess& access);

// What `emit` makes where the predicate (null: always) holds, else 0; null where it makes nothing. A branch.
llvm::Value* emit_under(llvm::IRBuilder<>& ir, llvm::Value* predicate, llvm::function_ref<llvm::Value*()> emit);

}  // namespace kiln::codegen::amdgcn
