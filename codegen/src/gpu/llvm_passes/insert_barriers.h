// Barriers where threads could otherwise see each other's accesses in the wrong order.
#pragma once

#include "gpu/analysis/global_order.h"
#include "gpu/llvm_passes/allocate_shared.h"
#include "gpu/target_info.h"

namespace kiln::codegen::gpu {

// Between accesses to shared memory, and to global memory, whose marks it removes.
void insert_barriers(llvm::Function& function, const SharedPlan& plan, const GlobalOrder& global,
                     const TargetInfo& target, const BlockShape& block);

}  // namespace kiln::codegen::gpu
