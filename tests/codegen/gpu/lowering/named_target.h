// A target whose instructions are calls of functions with names, for golden files to check.
#pragma once

#include "emulated_target.h"

namespace kiln::test {

class NamedTarget : public EmulatedTarget {
 public:
  explicit NamedTarget(int lanes, bool groups = false) : EmulatedTarget(lanes, groups) {}

  Value* warp_uniform(Builder&, Value* x) const override { return x; }
  void barrier(Builder& b) const override;
  void warp_barrier(Builder& b) const override;
  Value* shuffle(Builder& b, Value* word, Value* lane) const override;
  Value* shuffle_xor(Builder& b, Value* word, unsigned mask) const override;
  std::vector<Value*> load_matrices(Builder& b, Value* address, int count, bool transposed) const override;
  void store_matrices(Builder& b, Value* address, llvm::ArrayRef<Value*> words, bool transposed) const override;
  void async_copy(Builder& b, Value* shared, const codegen::gpu::GlobalAccess& from, int bytes) const override;
  void async_commit(Builder& b) const override;
  void async_wait(Builder& b, int groups) const override;
  // @multiply.ROWSxCOLUMNSxK, @multiply_group.ROWSxCOLUMNSxK
  std::optional<codegen::gpu::MatrixInstruction> matrix_instruction(dsl::ElementType a, dsl::ElementType b,
                                                                    dsl::ElementType sum,
                                                                    dsl::Precision precision) const override;
  std::optional<codegen::gpu::GroupInstruction> group_instruction(dsl::ElementType a, dsl::ElementType b,
                                                                  dsl::ElementType sum,
                                                                  dsl::Precision precision) const override;
  void group_commit(Builder& b) const override;
  std::vector<Value*> group_wait(Builder& b, int groups, llvm::ArrayRef<Value*> sums) const override;
  Value* load_global(Builder& b, llvm::Type* type, const codegen::gpu::GlobalAccess& access,
                     Value* other) const override;
  void store_global(Builder& b, Value* value, const codegen::gpu::GlobalAccess& access) const override;
  // Threads copy for themselves, by addresses.
  const codegen::gpu::BulkEngine* bulk_engine() const override { return nullptr; }
  int64_t offset_reach() const override { return 0; }
};

}  // namespace kiln::test
