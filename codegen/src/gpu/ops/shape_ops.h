// Which of cat, slice and reshape move no data.
#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

// Whether the result is another view of the operands, so that it needs no home: a bit of an element's coordinates is
// one of the operand's.
bool is_view_of_shape(const dsl::Kernel& kernel, const dsl::Op& op);

}  // namespace kiln::codegen::gpu
