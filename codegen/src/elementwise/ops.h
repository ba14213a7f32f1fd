// Elementwise ops on registers.
#pragma once

#include "elementwise/elementwise.h"

namespace kiln::codegen {

// An elementwise op, on scalars or vectors alike. `element` is the operands' element type.
Result<Value*> emit_elementwise(ElementContext& ctx, Builder& ir, const Op& op, llvm::ArrayRef<Value*> operands);
// The value of a `constant` op.
Value* emit_constant(Builder& ir, const Op& op);
// `min` and `max` of floats of 32 bits and more.
Value* float_min_max(Builder& ir, bool maximum, bool numeric, Value* x, Value* y);

}  // namespace kiln::codegen
