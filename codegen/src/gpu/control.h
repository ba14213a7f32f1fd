// for, while and if.
#pragma once

#include "gpu/pipeline/stages.h"

namespace kiln::codegen::gpu {

Result<void> lower_for(Context& c, const Op& op);
Result<void> lower_while(Context& c, const Op& op);
Result<void> lower_if(Context& c, const Op& op);

// That of a loop whose loads are copied ahead.
StageOrder stage_order(Context& c, const Op& loop, const Pipeline& pipeline);

}  // namespace kiln::codegen::gpu
