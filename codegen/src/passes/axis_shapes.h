// The rules of axis_info.h for ops that move elements.
#pragma once

#include <optional>

#include "passes/axis_rules.h"

namespace kiln::codegen::axis {

// Nothing for other ops.
std::optional<AxisInfo> shape_info(const Facts& facts, const dsl::Op& op);

}  // namespace kiln::codegen::axis
