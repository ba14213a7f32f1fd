// left and right of a reduction or scan, combined by its kind or by its region.
#include "cpu/ops/combine.h"

#include "elementwise/combine_region.h"

namespace kiln::codegen::cpu {

Result<Registers> combine_operands(Context& ctx, const Op& op, const Registers& left, const Registers& right) {
  const dsl::ReduceKind kind = reduce_kind(op);
  if (kind != dsl::ReduceKind::kCustom) {
    return Registers{combine(ctx.ir, kind, ctx.type(op.operands[0]).element, left[0], right[0])};
  }
  Registers arguments = left;
  arguments.append(right.begin(), right.end());
  return emit_region(ctx, ctx.ir, op.regions[0], arguments, [&](ValueId id) { return ctx.scalars[id]; });
}

}  // namespace kiln::codegen::cpu
