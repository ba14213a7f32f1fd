// The block that a launch's programs run in, decided before there is any code: from what a config asks for, the kernel
// and the target. What tiles hold of registers, and stages of shared memory, is estimated here (held_tiles.h,
// pipeline.h); what ops need of shared memory beside stages is known of code alone, so that a shape may turn out to be
// too large. Then the next smaller one is tried.
//
//   choose_shape ──► lower ──► as much shared memory as there is? ── yes ──► done
//        ▲                                   │ no
//        └───────────── smaller_shape ◄──────┘
#pragma once

#include <memory>
#include <optional>

#include "gpu/block/block_shape.h"
#include "gpu/block/launch_shape.h"
#include "gpu/placement.h"
#include "gpu/target_info.h"
#include "kiln/dsl/result.h"
#include "passes/pass.h"

namespace kiln::codegen::gpu {

struct ShapedKernel {
  LaunchShape launch;                         // what was asked for in the end
  BlockShape block;                           // what came of it
  std::shared_ptr<const dsl::Kernel> kernel;  // behind the passes that know the block
  std::vector<AxisInfo> info;                 // of it, by value
  Placement placement;
  const dsl::Op* copied = nullptr;  // the loop for which warps of their own copy (producer_warps.h); null: none do
};

// As much of `launch` as the kernel is fit for. Error: registers would be too few. `processor` names the target in it.
Result<ShapedKernel> choose_shape(const dsl::Kernel& kernel, const TargetInfo& target, const LaunchShape& launch,
                                  const std::string& processor, const PassObserver& observer = {});

// What to ask for next, where blocks of this shape need so much shared memory: nothing if it fits. Error: nothing
// smaller would do.
Result<std::optional<LaunchShape>> smaller_shape(const ShapedKernel& shaped, int64_t shared_bytes,
                                                 const TargetInfo& target, const std::string& processor);

}  // namespace kiln::codegen::gpu
