// The micro-kernel of dot for AMX.
#pragma once

#include "cpu/dot/dot_plan.h"

namespace kiln::codegen::cpu {

// As micro_kernel has it (dot_kernel.h).
llvm::Function* tile_kernel(Context& ctx, const DotBlocking& blocking, int rows);
// AMX's registers are configured for blocks of so many rows: as few times as can be, for it takes as long as a few
// steps.
void configure_tiles(Context& ctx, int rows);
void release_tiles(Context& ctx);

}  // namespace kiln::codegen::cpu
