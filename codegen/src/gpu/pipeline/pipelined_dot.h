// Loops with two products of several warps (group_dot.h), the second of what is computed from the first's result, which
// only adds to a carried tile:
//
//   for %j … {
//     %s = dot %q, %k, 0               ; k and v: staged (pipeline.h)
//     %p = …%s…                        ; threads compute
//     %o' = dot %p, %v, f(%o)
//     yield %o'
//   }
//
// The second is begun an iteration late, behind the next one's first, so that it runs while threads compute:
//
//   %p, %f = first iteration without its second product
//   for %j from the second iteration on {
//     begin %s = dot %q, %k, 0
//     begin %o = dot %p, %v of the last iteration, %f
//     wait for %s; %p = …%s…
//     wait for %o; %f = f(%o)
//   }
//   dot %p, %v, %f
#pragma once

#include "gpu/context.h"
#include "gpu/pipeline/pipeline.h"
#include "gpu/pipeline/stages.h"

namespace kiln::codegen::gpu {

struct PipelinedDot {
  const Op *first, *late;
  size_t carried;  // the number of the carried tile
};

// `run_on`: the numbers of carried values that products may still be writing when an iteration ends.
std::optional<PipelinedDot> plan_pipelined_dot(Context& ctx, const Op& loop, const Pipeline& pipeline,
                                               const std::vector<size_t>& run_on);
StageOrder order_of(Context& ctx, const PipelinedDot& pipelined);
Result<void> lower_pipelined_dot(Context& ctx, const Op& loop, const Pipeline& pipeline, const PipelinedDot& pipelined);

}  // namespace kiln::codegen::gpu
