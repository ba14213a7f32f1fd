#include "launches/topk.h"

#include "kiln/dsl/uses.h"
#include "launches/split.h"

namespace kiln::codegen {
namespace {

using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

int64_t k_of(const Op& op) { return number_attr(op, 0); }
size_t axis_of(const Op& op) { return static_cast<size_t>(int_attr(op, 1)); }

// Wide ints count once in a block's registers: they are their own keys, while floats are kept beside theirs.
Chunks chunks_of(Lengths lengths, const dsl::Kernel& kernel, const Op& op) {
  const dsl::ElementType element = kernel.type(op.operands[0]).element;
  if (lengths.of_whole_tile && !dsl::is_float(element)) lengths.chunk *= std::max(1, dsl::info(element).bytes / 4);
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
std::pair<ValueId, ValueId> topk(OpBuilder& build, const Op& op, ValueId x) {
  const std::vector<ValueId> results = build.add_all(op.code, {x}, op.attrs);
  return {results[0], results[1]};
}

}  // namespace

bool split_topk(LaunchSequence& sequence, const Lengths& lengths) {
  const ptrdiff_t number = find_long_op(sequence, lengths, is_long);
  if (number < 0) return false;
  const dsl::Kernel& kernel = sequence.steps.back().kernel;
  const Op op = kernel.body.ops[static_cast<size_t>(number)];
  SplitRule rule;
  rule.axis = axis_of(op);
  rule.chunks = chunks_of(lengths, kernel, op);
  rule.others = kernel.type(op.results[0]).shape;
  rule.others.pop_back();
  rule.per_chunk = k_of(op);
  rule.partials = {kernel.type(op.operands[0]).element};
  const bool wants_indices = dsl::is_used(kernel, op.results[1]);
  if (wants_indices) rule.partials.push_back(dsl::ElementType::kI32);
  rule.chunk = [&](PartBuilder& parts) -> std::vector<ValueId> {
    const auto [values, indices] = topk(parts.build(), op, parts.part(op.operands[0], rule.axis));
    if (!wants_indices) return {values};
    return {values, parts.whole_index(indices)};
  };
  split_op(sequence, static_cast<size_t>(number), rule,
           [&](dsl::Kernel&, std::vector<Op>& out, OpBuilder& build, Partials& partials) {
             const ValueId numbers = topk(build, op, partials.all(0)).second;
             out.back().results[0] = op.results[0];
             if (!wants_indices) return;
             partials.at(1, numbers);
             out.back().results = {op.results[1]};
           });
  return true;
}

}  // namespace kiln::codegen
