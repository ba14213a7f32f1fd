// What NVIDIA's instructions do with single elements: estimates of functions, conversions of small floats.
#pragma once

#include "elementwise/elementwise.h"

namespace kiln::codegen::nvptx {

// MathOptions::estimate.
llvm::Value* emit_estimate(llvm::IRBuilder<>& ir, Estimate function, llvm::Value* x);

// ElementContext::small_floats, of a processor.
SmallFloatInstructions small_float_instructions(bool has_f8);
// Whether the text of an assembly is one of theirs that makes f8 of its two operands; of the first a zero, the upper
// half.
bool is_f8_conversion(llvm::StringRef text);
// The high half of a product of ints of 32 or 64 bits; null: of fewer.
llvm::Value* emit_multiply_high(Builder& ir, bool is_signed, llvm::Value* x, llvm::Value* y);
// TargetInfo::shift of ints of 64 bits by what is no constant; null: of others.
llvm::Value* emit_shift(Builder& ir, bool to_left, llvm::Value* x, llvm::Value* y);

}  // namespace kiln::codegen::nvptx
