// Ops that move elements to other indices: cat, slice, reshape and gather.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// Whether the result of cat, slice or reshape is another view of the operands, so that it needs no home: a bit of an
// element's coordinates is one of the operand's.
bool is_view_of_shape(const dsl::Kernel& kernel, const dsl::Op& op);

// Each in a layout.
Result<Registers> compute_cat(Context& ctx, const Op& op, const Layout& layout);
Result<Registers> compute_slice(Context& ctx, const Op& op, const Layout& layout);
Result<Registers> compute_reshape(Context& ctx, const Op& op, const Layout& layout);
Result<Registers> compute_gather(Context& ctx, const Op& op, const Layout& layout);

}  // namespace kiln::codegen::gpu
