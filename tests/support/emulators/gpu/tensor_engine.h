// The emulator's tensor memory as the lowering asks for it (gpu/dot/tensor_engine.h), and products that sum up there.
#pragma once

#include <optional>

#include "gpu/dot/tensor_engine.h"
#include "kiln/dsl/ops.h"
#include "kiln/dsl/types.h"

namespace kiln::codegen::gpu {
struct GroupInstruction;
}

namespace kiln::test {

class EmulatedTensorEngine : public codegen::gpu::TensorEngine {
 public:
  void allocate(Builder& b, Value* place, int columns) const override;
  void release(Builder& b, Value* address, int columns) const override;
  std::vector<Value*> load(Builder& b, Value* address, int columns) const override;
  void store(Builder& b, Value* address, llvm::ArrayRef<Value*> words) const override;
  void before_barrier(Builder& b) const override;
  void after_barrier(Builder& b) const override;
  void commit(Builder& b, Value* barrier, Value* chosen) const override;

 private:
  mutable int sites_ = 2'000'000;  // apart from those of others
};

// Of 128 rows; `has_bytes`: ints too.
std::optional<codegen::gpu::GroupInstruction> find_tensor_instruction(dsl::ElementType a, dsl::ElementType b,
                                                                      dsl::ElementType sum, dsl::Precision precision,
                                                                      bool has_bytes);

}  // namespace kiln::test
