// All that a vendor supplies to the common GPU lowering: how threads find out who they are, talk to each other and
// reach memory, and what its instructions can do. Nothing else in this directory knows a vendor.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <optional>
#include <vector>

#include "gpu/layout/conversion.h"
#include "kiln/dsl/ops.h"
#include "kiln/dsl/types.h"
#include "math/vector_math.h"

namespace kiln::codegen::gpu {

using Builder = llvm::IRBuilder<>;
using llvm::Value;

// An access to global memory: of one thread, of up to 16 aligned bytes.
struct GlobalAccess {
  Value* pointer = nullptr;
  Value* predicate = nullptr;  // i1; null: always
  dsl::CacheHint cache = dsl::CacheHint::kAll;
  dsl::Eviction eviction = dsl::Eviction::kNormal;
};

// An instruction that multiplies tiles of matrices, of one warp. Operands come in the registers of the fragments'
// layouts, one LLVM value an element: in the types that the operands of the dot have in registers.
struct MatrixInstruction {
  Layout a, b, accumulator;
  using Operand = llvm::ArrayRef<Value*>;
  std::function<std::vector<Value*>(Builder& b, Operand a, Operand rhs, Operand accumulator)> emit;
};

class TargetInfo {
 public:
  virtual ~TargetInfo() = default;

  virtual int lanes() const = 0;  // of a warp
  virtual LaneFacts lane_facts() const = 0;
  virtual MathOptions math() const = 0;

  // A kernel's function, with `threads` threads to a block.
  virtual llvm::Function* create_kernel(llvm::Module& module, const std::string& name,
                                        llvm::ArrayRef<llvm::Type*> params, int threads) const = 0;
  virtual Value* thread_id(Builder& b) const = 0;  // in the block
  virtual Value* program_id(Builder& b, int axis) const = 0;
  virtual Value* num_programs(Builder& b, int axis) const = 0;
  // x, which is the same in all threads of a warp, as a value that the compiler knows to be so.
  virtual Value* warp_uniform(Builder& b, Value* x) const = 0;

  // For operands of a and b and sums of `sum`; nothing where there is no such instruction, or it would be less exact
  // than `precision` asks for.
  virtual std::optional<MatrixInstruction> matrix_instruction(dsl::ElementType a, dsl::ElementType b,
                                                              dsl::ElementType sum, dsl::Precision precision) const = 0;

  // i32 from another lane of the warp.
  virtual Value* shuffle(Builder& b, Value* word, Value* lane) const = 0;
  virtual Value* shuffle_xor(Builder& b, Value* word, unsigned mask) const = 0;
  // Of all threads of the block; orders accesses to shared memory.
  virtual void barrier(Builder& b) const = 0;

  // `type`: a scalar or a vector of up to 16 bytes; `other`, of that type, where the predicate is false (null: 0).
  virtual Value* load_global(Builder& b, llvm::Type* type, const GlobalAccess& access, Value* other) const = 0;
  virtual void store_global(Builder& b, Value* value, const GlobalAccess& access) const = 0;
};

}  // namespace kiln::codegen::gpu
