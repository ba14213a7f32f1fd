// Elementwise ops on registers, for every target: scalars and vectors of any length alike.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <array>
#include <string>

#include "kiln/dsl/ir.h"
#include "kiln/dsl/result.h"
#include "math/vector_math.h"

namespace kiln::codegen {

using dsl::ElementType;
using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;
using llvm::Value;
using Builder = llvm::IRBuilder<>;

// A target's own conversions between f32 and floats below 32 bits, of scalars, with the results that conversions.cpp
// has but for the bits of NaN. Either may be null, and gives null where there is no instruction.
struct SmallFloatInstructions {
  Value* (*from_f32)(Builder& b, ElementType to, Value* x, bool saturate) = nullptr;
  Value* (*to_f32)(Builder& b, ElementType from, Value* x) = nullptr;
};

// What an elementwise op must know of its surroundings.
struct ElementContext {
  const dsl::Kernel& kernel;
  std::string processor;  // for errors
  MathOptions math;
  bool converts_f16 = true;       // by instructions
  bool divides_by_floats = true;  // vectors of ints: no instruction divides them
  SmallFloatInstructions small_floats = {};
  bool calls_long_ops = false;  // calls.h

  const dsl::Type& type(ValueId id) const { return kernel.type(id); }
  // An error about an op, with its source line.
  Error unsupported(const Op& op, const std::string& what) const;
};

// A scalar type with the lanes of `x`, and an integer constant of its type: what is written once serves scalars and
// vectors.
inline llvm::Type* like(Value* x, llvm::Type* scalar) { return x->getType()->getWithNewType(scalar); }
inline llvm::Constant* int_constant(Value* like_this, uint64_t value) {
  return llvm::ConstantInt::get(like_this->getType(), value);
}

// How a value of an element type is held in registers: bf16 as its bits in i16 (LLVM would flush subnormals), i1 as i1.
llvm::Type* register_type(llvm::LLVMContext& context, const dsl::Type& type);
// … and in memory: i1 as a byte.
llvm::Type* memory_type(llvm::LLVMContext& context, ElementType element, bool pointer);
int memory_bytes(const dsl::Type& type);

// ops.cpp: an elementwise op on registers, scalars or vectors alike. `element` is the operands' element type.
Result<Value*> emit_elementwise(ElementContext& c, Builder& b, const Op& op, llvm::ArrayRef<Value*> operands);
// conversions.cpp: small floats to f32 and back (one rounding); a `cast`.
Value* to_f32(ElementContext& c, Builder& b, ElementType element, Value* x);
// `saturate`: of f8; without it what overflows is infinite, or NaN where the type has no infinity.
Value* from_f32(ElementContext& c, Builder& b, ElementType element, Value* x, bool saturate = true);
Value* emit_cast(ElementContext& c, Builder& b, Value* x, ElementType from, ElementType to, bool saturate = true);
// small_floats.cpp
Value* f8_to_f32(ElementContext& c, Builder& b, ElementType element, Value* x);
Value* f32_to_f8(Builder& b, ElementType element, Value* x, bool saturate);
// Stochastic rounding of f32 and below to f16, bf16 or f8; `random`: u32 lanes.
Value* emit_stochastic_cast(ElementContext& c, Builder& b, Value* x, ElementType from, ElementType to, Value* random,
                            bool saturate);
// philox.cpp: the four words of Philox4x32-10; the keys of its rounds, from a seed, in lanes like the offset's.
using PhiloxKeys = std::array<std::array<Value*, 2>, 10>;
PhiloxKeys philox_keys(Builder& b, Value* seed);
std::array<Value*, 4> emit_philox(Builder& b, const PhiloxKeys& keys, Value* offset);
// The value of a `constant` op.
Value* emit_constant(Builder& b, const Op& op);
// `min` and `max` of floats of 32 bits and more.
Value* float_min_max(Builder& b, bool maximum, bool numeric, Value* x, Value* y);
// Memory holds i1 as a byte.
Value* to_memory(Builder& b, Value* x);
Value* from_memory(Builder& b, Value* x, const dsl::Type& type);

}  // namespace kiln::codegen
