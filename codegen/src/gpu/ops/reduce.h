// Reductions whose elements may be combined in any order.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

Result<void> lower_reduce(Context& ctx, const Op& op);
bool is_plain_reduction(const Op& op);
// Several that do not need each other.
Result<void> lower_reductions(Context& ctx, llvm::ArrayRef<Op> ops);

}  // namespace kiln::codegen::gpu
