// The rules of axis_info.h for numbers from numbers, comparisons and casts.
#pragma once

#include <optional>

#include "passes/axis_rules.h"

namespace kiln::codegen::axis {

// Nothing for other ops.
std::optional<AxisInfo> arithmetic_info(const Facts& facts, const dsl::Op& op);

}  // namespace kiln::codegen::axis
