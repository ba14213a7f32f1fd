// Tensor memory of sm_100a and sm_103a (gpu/dot/tensor_engine.h), and the products that sum up there.
#pragma once

#include <optional>

#include "gpu/dot/tensor_engine.h"
#include "gpu/target_info.h"

namespace kiln::codegen::nvptx {

class CudaTensorEngine : public gpu::TensorEngine {
 public:
  void allocate(Builder& ir, Value* place, int columns) const override;
  void release(Builder& ir, Value* address, int columns) const override;
  std::vector<Value*> load(Builder& ir, Value* address, int columns) const override;
  void store(Builder& ir, Value* address, llvm::ArrayRef<Value*> words) const override;
  void before_barrier(Builder& ir) const override;
  void after_barrier(Builder& ir) const override;
  void commit(Builder& ir, Value* barrier, Value* chosen) const override;
};

// Nothing for types or a precision that tcgen05.mma does not multiply so; `has_bytes`: it multiplies ints.
std::optional<gpu::GroupInstruction> tensor_instruction(dsl::ElementType a, dsl::ElementType b, dsl::ElementType sum,
                                                        dsl::Precision precision, bool has_bytes);

}  // namespace kiln::codegen::nvptx
