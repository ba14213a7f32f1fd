// The emulator's side of the seam in gpu/target_info.h: code for the host, in which all that concerns other threads or
// global memory is a call of a function of this library, by its address.
#pragma once

#include "block.h"
#include "bulk_engine.h"
#include "gpu/target_info.h"
#include "kiln/target/gpu.h"
#include "tensor_engine.h"

namespace kiln::test {

struct MatrixForm;

class EmulatedTarget : public codegen::gpu::TargetInfo {
 public:
  using Builder = llvm::IRBuilder<>;
  using Value = llvm::Value;

  // `groups`: with products of several warps. `like`: with the units and the shared memory of a processor of NVIDIA's,
  // of 32 lanes; null: with all of them.
  explicit EmulatedTarget(int lanes, bool groups = false, const target::NvidiaGpu* like = nullptr)
      : lanes_(lanes), groups_(like == nullptr ? groups : like->units.group_products), like_(like) {}

  int lanes() const override { return lanes_; }
  codegen::gpu::LaneFacts lane_facts() const override;
  codegen::MathOptions math() const override { return {.has_fma = true, .has_avx512 = false, .fast = false}; }
  llvm::Function* create_kernel(llvm::Module& module, const std::string& name, llvm::ArrayRef<llvm::Type*> params,
                                int threads) const override;
  Value* thread_id(Builder& b) const override;
  Value* program_id(Builder& b, int axis) const override;
  Value* num_programs(Builder& b, int axis) const override;
  Value* warp_uniform(Builder& b, Value* x) const override { return shuffle(b, x, b.getInt32(0)); }
  std::optional<codegen::gpu::MatrixInstruction> matrix_instruction(dsl::ElementType a, dsl::ElementType b,
                                                                    dsl::ElementType sum,
                                                                    dsl::Precision precision) const override;
  std::optional<codegen::gpu::ScaledInstruction> scaled_instruction(dsl::ElementType a,
                                                                    dsl::ElementType b) const override;
  Value* shuffle(Builder& b, Value* word, Value* lane) const override;
  Value* shuffle_xor(Builder& b, Value* word, unsigned mask) const override;
  void barrier(Builder& b) const override;
  void warp_barrier(Builder& b) const override;
  std::vector<Value*> load_matrices(Builder& b, Value* address, int count, bool transposed) const override;
  void store_matrices(Builder& b, Value* address, llvm::ArrayRef<Value*> words, bool transposed) const override;
  // As AMD's: threads of warps of 64 copy through registers.
  int async_copy_sizes() const override { return lanes_ == 64 ? 0 : 4 | 8 | 16; }
  void async_copy(Builder& b, Value* shared, const codegen::gpu::GlobalAccess& from, int bytes) const override;
  void async_commit(Builder& b) const override;
  void async_wait(Builder& b, int groups) const override;
  // They are done at once.
  std::optional<codegen::gpu::GroupInstruction> group_instruction(dsl::ElementType a, dsl::ElementType b,
                                                                  dsl::ElementType sum,
                                                                  dsl::Precision precision) const override;
  void group_fence(Builder&) const override {}
  void group_commit(Builder&) const override {}
  std::vector<Value*> group_wait(Builder&, int, llvm::ArrayRef<Value*> sums) const override { return sums.vec(); }
  void group_publish(Builder&) const override {}
  // As AMD's, of warps of 64.
  int64_t offset_reach() const override { return lanes_ == 64 ? int64_t{1} << 31 : 0; }
  Value* load_global(Builder& b, llvm::Type* type, const codegen::gpu::GlobalAccess& access,
                     Value* other) const override;
  void store_global(Builder& b, Value* value, const codegen::gpu::GlobalAccess& access) const override;
  bool has_atomic(dsl::AtomicKind kind, dsl::ElementType element, int64_t count, bool gives_old) const override;
  Value* atomic_rmw(Builder& b, dsl::AtomicKind kind, dsl::ElementType element, Value* value, bool gives_old,
                    const codegen::gpu::AtomicAccess& access) const override;
  int least_exchange_bits() const override { return lanes_ == 64 ? 32 : 16; }
  Value* compare_exchange(Builder& b, Value* expected, Value* desired,
                          const codegen::gpu::AtomicAccess& access) const override;
  bool takes_constraint(llvm::StringRef constraint, llvm::Type* type) const override;
  void fence(Builder&, dsl::MemoryScope, Value*) const override {}  // one thread runs at a time

  const codegen::gpu::BulkEngine* bulk_engine() const override {
    return like_ == nullptr || like_->units.bulk_copies ? &bulk_engine_ : nullptr;
  }
  const codegen::gpu::TensorEngine* tensor_engine() const override {
    return like_ != nullptr && like_->units.tensor_memory ? &tensor_engine_ : nullptr;
  }

  // The two parameters that a kernel has behind those of its own.
  static Value* thread_of(llvm::Function& kernel) { return kernel.getArg(kernel.arg_size() - 2); }
  static Value* shared_of(llvm::Function& kernel) { return kernel.getArg(kernel.arg_size() - 1); }

 private:
  // The pointer, checked where the kernel itself accesses it; where the predicate is false, that of the operands.
  Value* atomic_place(Builder& b, const codegen::gpu::AtomicAccess& access, uint64_t bits) const;
  // Of a warp, by its operands one behind the other.
  std::vector<Value*> multiply(Builder& b, const MatrixForm& form,
                               std::initializer_list<llvm::ArrayRef<Value*>> operands,
                               llvm::ArrayRef<Value*> sums) const;
  // Where the thread's operands are, from a byte on.
  Value* operand(Builder& b, size_t offset) const;
  // A number of its own for each call at which threads meet.
  Value* next_site(Builder& b) const { return b.getInt32(static_cast<uint32_t>(++sites_)); }

  const int lanes_;
  const bool groups_;
  const target::NvidiaGpu* const like_;
  const EmulatedBulkEngine bulk_engine_{like_ == nullptr || like_->units.moves_registers};
  const EmulatedTensorEngine tensor_engine_;
  mutable int sites_ = 0;
};

// A call of a function of this library: `f(thread, arguments…)`.
template <class Result, class... Arguments>
llvm::CallInst* call_host(llvm::IRBuilder<>& b, Result (*f)(Thread*, Arguments...), llvm::Type* result,
                          llvm::ArrayRef<llvm::Value*> arguments) {
  llvm::SmallVector<llvm::Value*, 8> all = {EmulatedTarget::thread_of(*b.GetInsertBlock()->getParent())};
  all.append(arguments.begin(), arguments.end());
  llvm::SmallVector<llvm::Type*, 8> types;
  for (llvm::Value* x : all) types.push_back(x->getType());
  auto* address = llvm::ConstantExpr::getIntToPtr(b.getInt64(reinterpret_cast<uintptr_t>(f)), b.getPtrTy());
  auto* call = b.CreateCall(llvm::FunctionType::get(result, types, false), address, all);
  call->setConvergent();
  call->setDoesNotThrow();
  return call;
}

}  // namespace kiln::test
