// Conversions between element types.
#pragma once

#include "elementwise/elementwise.h"

namespace kiln::codegen {

// Small floats to f32 and back (one rounding).
Value* to_f32(ElementContext& ctx, Builder& ir, ElementType element, Value* x);
// `saturate`: of f8; without it what overflows is infinite, or NaN where the type has no infinity.
Value* from_f32(ElementContext& ctx, Builder& ir, ElementType element, Value* x, bool saturate = true);
// A `cast`.
Value* emit_cast(ElementContext& ctx, Builder& ir, Value* x, ElementType from, ElementType to, bool saturate = true);

}  // namespace kiln::codegen
