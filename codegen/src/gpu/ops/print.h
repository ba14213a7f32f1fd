// Messages to the client.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

Result<void> lower_print(Context& ctx, const Op& op);

}  // namespace kiln::codegen::gpu
