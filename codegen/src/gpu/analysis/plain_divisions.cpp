#include "gpu/analysis/plain_divisions.h"

#include "passes/axis_info.h"

namespace kiln::codegen::gpu {
namespace {

bool divides_ints(const dsl::Op& op, const dsl::Kernel& kernel) {
  if (op.code != dsl::OpCode::kDiv && op.code != dsl::OpCode::kRem) return false;
  const dsl::Type& type = kernel.type(op.results[0]);
  return type.is_scalar() && dsl::is_int(type.element);
}

}  // namespace

std::set<const dsl::Op*> plain_divisions(const dsl::Kernel& kernel) {
  std::set<const dsl::Op*> out;
  for (const dsl::Op& op : kernel.body.ops) {
    if (divides_ints(op, kernel)) out.insert(&op);
  }
  if (out.empty()) return out;
  const std::vector<AxisInfo> info = axis_info(kernel, Wrap::kExact);
  std::erase_if(out, [&](const dsl::Op* op) { return info[op->operands[0]].low < 0 || info[op->operands[1]].low < 1; });
  return out;
}

}  // namespace kiln::codegen::gpu
