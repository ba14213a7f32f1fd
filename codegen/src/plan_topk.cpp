#include "plan_topk.h"

#include "plan_split.h"

namespace kiln::codegen {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

int64_t k_of(const Op& op) { return number_attr(op, 0); }
size_t axis_of(const Op& op) { return static_cast<size_t>(int_attr(op, 1)); }

bool is_long(const dsl::Kernel& kernel, const Op& op) {
  if (op.code != OpCode::kTopk) return false;
  const dsl::Type& type = kernel.type(op.operands[0]);
  const int64_t extent = *type.shape[axis_of(op)].as_constant(), rest = extent % kChunk;
  return axis_of(op) + 1 == type.shape.size() && extent >= kLongAxis && k_of(op) <= (rest == 0 ? kChunk : rest) &&
         k_of(op) <= kChunk / 16 && can_take_part(kernel, op.operands[0], axis_of(op));
}

// A topk of another tile; both results.
std::pair<ValueId, ValueId> topk(dsl::Kernel& kernel, std::vector<Op>& out, const Op& op, ValueId x) {
  const auto values = static_cast<ValueId>(kernel.values.size()), indices = values + 1;
  for (ValueId result : op.results) kernel.values.push_back({dsl::Type(kernel.type(result)), ""});
  out.push_back({op.code, {x}, {values, indices}, op.attrs, {}, op.loc});
  return {values, indices};
}

}  // namespace

bool split_topk(Plan& plan) {
  const ptrdiff_t number = find_long_op(plan, is_long);
  if (number < 0) return false;
  const dsl::Kernel& kernel = plan.stages.back().kernel;
  const Op op = kernel.body.ops[static_cast<size_t>(number)];
  SplitRule rule;
  rule.axis = axis_of(op);
  rule.others = kernel.type(op.results[0]).shape;
  rule.others.pop_back();
  rule.per_chunk = k_of(op);
  rule.partials = {kernel.type(op.operands[0]).element, dsl::ElementType::kI32};
  rule.chunk = [&](PartBuilder& parts) -> std::vector<ValueId> {
    const auto [values, indices] = topk(parts.target(), parts.out(), op, parts.part(op.operands[0], rule.axis));
    return {values, parts.whole_index(indices)};
  };
  split_op(plan, static_cast<size_t>(number), rule,
           [&](dsl::Kernel& last, std::vector<Op>& out, OpBuilder&, Partials& partials) {
             const auto [values, numbers] = topk(last, out, op, partials.all(0));
             out.back().results[0] = op.results[0];
             partials.at(1, numbers);
             out.back().results = {op.results[1]};
           });
  return true;
}

}  // namespace kiln::codegen
