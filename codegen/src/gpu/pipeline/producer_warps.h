// Warps that do nothing but copy ("warp specialisation"): by every schedule but plain, in kernels of one
// pipelined loop whose copies the engine of bulk_engine.h makes.
//
//   %q = load …                                warps behind the program's:
//   for %j … {                                   transaction barriers; arrive at a barrier of all         ; one thread
//     %k = load f(%j)    ; staged, in bulk       for %j … { wait until a stage is free; copy f(%j) }     ; one thread
//     … dot … %k …                       →     the program's:
//   }                                            wait at the barrier of all; %q = load …
//   store …                                      for %j … { wait for the stage; … dot …; the stage is free }
//                                                store …
//
// Nothing that the program's warps wait for keeps copies from being begun, not even where a block starts: who copies
// has the transaction barriers made itself. What it takes to begin copies is nobody's work beside products. The
// producer thread lowers once more what the loop's range and its addresses are made of: scalars, of parameters and of
// memory that is not written.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// The loop, where the kernel has one that is fit for it; or null.
const Op* loop_for_producer_warps(const dsl::Kernel& kernel, const Placement& placement);

// Where the kernel begins: its multi-buffers, and the warps that copy, which end. The builder is left to those of the
// program.
Result<void> begin_producer_warps(Context& ctx, const Op& loop);

}  // namespace kiln::codegen::gpu
