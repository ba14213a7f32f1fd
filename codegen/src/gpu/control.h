// for, while and if.
#pragma once

#include "gpu/pipeline/stages.h"

namespace kiln::codegen::gpu {

Result<void> lower_for(Context& ctx, const Op& op);
Result<void> lower_while(Context& ctx, const Op& op);
Result<void> lower_if(Context& ctx, const Op& op);

// That of a loop whose loads are copied ahead.
StageOrder stage_order(Context& ctx, const Op& loop, const Pipeline& pipeline);

}  // namespace kiln::codegen::gpu
