// How atomics combine, on bits: floats by rules of their own, which is why backends exchange them in loops.
#pragma once

#include "elementwise/elementwise.h"

namespace kiln::codegen {

// What an atomic leaves in memory, of what was there and the op's value (docs/reference/ops.md).
Value* combine_bits(ElementContext& ctx, Builder& ir, dsl::AtomicKind kind, ElementType element, Value* old,
                    Value* value);

}  // namespace kiln::codegen
