// The rules of axis_info.h, op by op.
#pragma once

#include "passes/axis_info.h"

namespace kiln::codegen::axis {

// Stands for "no bound" of a distance from a base.
inline constexpr dsl::Wide kFar = dsl::Wide{1} << 80;

AxisInfo unknown(const dsl::Type& type);
AxisInfo known(dsl::ElementType element, dsl::Wide number);
// One of the two, unknown which; both have the type.
AxisInfo join(const AxisInfo& x, const AxisInfo& y, const dsl::Type& type);
// The groups that both sizes have in common, for rows of `extent`.
int64_t common_groups(int64_t x, int64_t y, int64_t extent);
// Narrowed by the claims of an `assume`.
AxisInfo assumed(AxisInfo x, const dsl::Op& op, const dsl::Type& type);

// What the rules may ask for beside the operands.
struct Facts {
  const dsl::Kernel& kernel;
  const std::vector<AxisInfo>& info;  // by value
  Wrap wrap;

  const AxisInfo& operand(const dsl::Op& op, size_t i) const { return info[op.operands[i]]; }
  const dsl::Type& type(dsl::ValueId id) const { return kernel.type(id); }
};

// Of a result of an op without regions, or of reduce and scan.
AxisInfo result_info(const Facts& facts, const dsl::Op& op, size_t result);

}  // namespace kiln::codegen::axis
