// The ops of a region in program order.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

Result<void> lower_region(Context& ctx, const dsl::Region& region);
// Each op by a function of the caller's.
Result<void> lower_region(Context& ctx, const dsl::Region& region, llvm::function_ref<Result<void>(const Op&)> lower);
Result<void> lower_op(Context& ctx, const Op& op);

}  // namespace kiln::codegen::gpu
