// Scans.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

Result<void> lower_scan(Context& ctx, const Op& op);

}  // namespace kiln::codegen::cpu
