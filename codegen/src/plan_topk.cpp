#include "plan_topk.h"

#include "plan_split.h"

namespace kiln::codegen {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

int64_t k_of(const Op& op) { return number_attr(op, 0); }
size_t axis_of(const Op& op) { return static_cast<size_t>(int_attr(op, 1)); }

Chunks chunks_of(const Lengths& lengths, const dsl::Kernel& kernel, const Op& op) {
  Chunks out = chunks_of(lengths, lengths.selected, kernel, op.operands, axis_of(op));
  if (out.count > 0 && out.last() < k_of(op)) --out.count;
  return out;
}

bool is_long(const Lengths& lengths, const dsl::Kernel& kernel, const Op& op) {
  if (op.code != OpCode::kTopk || axis_of(op) + 1 != kernel.type(op.operands[0]).shape.size()) return false;
  const Chunks chunks = chunks_of(lengths, kernel, op);
  return chunks.count > 0 && k_of(op) <= chunks.length / 16 && can_take_part(kernel, op.operands[0], axis_of(op));
}

// A topk of another tile; both results.
std::pair<ValueId, ValueId> topk(dsl::Kernel& kernel, std::vector<Op>& out, const Op& op, ValueId x) {
  const auto values = static_cast<ValueId>(kernel.values.size()), indices = values + 1;
  for (ValueId result : op.results) kernel.values.push_back({dsl::Type(kernel.type(result)), ""});
  out.push_back({op.code, {x}, {values, indices}, op.attrs, {}, op.loc});
  return {values, indices};
}

}  // namespace

bool split_topk(Plan& plan, const Lengths& lengths) {
  const ptrdiff_t number = find_long_op(plan, lengths, is_long);
  if (number < 0) return false;
  const dsl::Kernel& kernel = plan.stages.back().kernel;
  const Op op = kernel.body.ops[static_cast<size_t>(number)];
  SplitRule rule;
  rule.axis = axis_of(op);
  rule.chunks = chunks_of(lengths, kernel, op);
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
