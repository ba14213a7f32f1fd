// Conversions of floats below 32 bits where no instruction has them.
#pragma once

#include "elementwise/elementwise.h"

namespace kiln::codegen {

Value* f8_to_f32(ElementContext& ctx, Builder& ir, ElementType element, Value* x);
Value* f32_to_f8(Builder& ir, ElementType element, Value* x, bool saturate);
// Stochastic rounding of f32 and below to f16, bf16 or f8; `random`: u32 lanes.
Value* emit_stochastic_cast(ElementContext& ctx, Builder& ir, Value* x, ElementType from, ElementType to, Value* random,
                            bool saturate);

}  // namespace kiln::codegen
