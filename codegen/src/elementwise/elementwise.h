// What elementwise ops on registers share, for every target: scalars and vectors of any length alike.
#pragma once

#include <llvm/IR/IRBuilder.h>

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
  Value* (*from_f32)(Builder& ir, ElementType to, Value* x, bool saturate) = nullptr;
  Value* (*to_f32)(Builder& ir, ElementType from, Value* x) = nullptr;
};

// What an elementwise op must know of its surroundings.
struct ElementContext {
  const dsl::Kernel& kernel;
  std::string processor;  // for errors
  MathOptions math;
  bool converts_f16 = true;       // by instructions
  bool divides_by_floats = true;  // vectors of ints: no instruction divides them
  SmallFloatInstructions small_floats = {};
  bool calls_long_ops = false;    // calls.h
  bool saturates_vectors = true;  // of floats that become ints of their size, by instructions
  int least_saturated_bits = 0;   // of f32 to ints of at least so many
  bool orders_nan = false;        // min and max of vectors that give NaN, by instructions

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
// How it is held in memory: i1 as a byte.
llvm::Type* memory_type(llvm::LLVMContext& context, ElementType element, bool pointer);
int memory_bytes(const dsl::Type& type);

// Memory holds i1 as a byte.
Value* to_memory(Builder& ir, Value* x);
Value* from_memory(Builder& ir, Value* x, const dsl::Type& type);

}  // namespace kiln::codegen
