// left and right of a reduction or scan, combined by its kind or by its region.
#include "cpu/ops/combine.h"

#include "elementwise/combine_region.h"

namespace kiln::codegen::cpu {

Result<Registers> combine_operands(Context& c, const Op& op, const Registers& left, const Registers& right) {
  const dsl::ReduceKind kind = reduce_kind(op);
  if (kind != dsl::ReduceKind::kCustom) {
    return Registers{combine(c.b, kind, c.type(op.operands[0]).element, left[0], right[0])};
  }
  Registers arguments = left;
  arguments.append(right.begin(), right.end());
  return emit_region(c, c.b, op.regions[0], arguments, [&](ValueId id) { return c.scalars[id]; });
}

}  // namespace kiln::codegen::cpu
