// Two neighbouring persistent blocks as a cluster: what both load alike is fetched once and put into the shared memory
// of both, with the schedule option cluster, where copies are made by warps of their own (producer_warps.h).
//
//   block 0: %k = load f(%i0, %j)          block 0: alike = (%i of block 0 = %i of block 1)
//   block 1: %k = load f(%i1, %j)     →             where alike: each second box of f(%i0, %j), for both blocks
//                                                   else: all boxes of f(%i0, %j), for itself
//                                          block 1: … the other boxes
//
// Blocks of a product that are neighbours in the order of the grid mostly share an operand. Whether they do is computed
// for each pair of programs: all scalars that the load's place depends on are computed for the neighbour's program too.
// A stage is free when the threads of both blocks have left it. So both are in the same iteration at most a
// multi-buffer apart, which needs loops of as many iterations in all programs.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// Whether two programs of the kernel may run so; marks the loads of `loop` that they may share. A block without a
// program of its own runs another's once more, so what is written must not be read.
bool plan_cluster(const dsl::Kernel& kernel, const Op& loop, const std::vector<AxisInfo>& info, Pipeline& pipeline);

// By the copying thread, with `lower` for what comes before the loop: of each load that may be shared, whether it is in
// the program of this number and the neighbour's. Leaves `program_id` and the scope to this block's.
Result<std::map<const Op*, Value*>> find_alike(Context& ctx, const Pipeline& pipeline, Value* number,
                                               llvm::function_ref<Result<void>()> lower);

}  // namespace kiln::codegen::gpu
