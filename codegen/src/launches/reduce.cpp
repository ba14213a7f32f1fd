#include "launches/reduce.h"

#include "kiln/dsl/rewrite.h"
#include "launches/combine.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ReduceKind;
using dsl::ValueId;

bool is_index(ReduceKind kind) { return kind == ReduceKind::kArgmin || kind == ReduceKind::kArgmax; }

Chunks chunks_of(const Lengths& lengths, const dsl::Kernel& kernel, const Op& op) {
  return chunks_of(lengths, lengths.reduced, kernel, op.operands, reduced_axis(op));
}

bool is_long(const Lengths& lengths, const dsl::Kernel& kernel, const Op& op) {
  if (op.code != OpCode::kReduce || chunks_of(lengths, kernel, op).count == 0) return false;
  return std::ranges::all_of(op.operands,
                             [&](ValueId operand) { return can_take_part(kernel, operand, reduced_axis(op)); });
}

ValueId reduce(OpBuilder& build, ReduceKind kind, ValueId x, size_t axis) {
  return build.add(OpCode::kReduce, {x}, {static_cast<int64_t>(kind), static_cast<int64_t>(axis)});
}

// The op's own kind of reduction of other operands.
std::vector<ValueId> reduce_custom(dsl::Kernel& kernel, OpBuilder& build, const Op& op, std::vector<ValueId> operands,
                                   size_t axis) {
  return build.add_all(op.code, std::move(operands), {op.attrs[0], static_cast<int64_t>(axis)},
                       {clone(kernel, op.regions[0])});
}

std::vector<ElementType> partial_types(const dsl::Kernel& kernel, const Op& op) {
  std::vector<ElementType> out;
  for (ValueId operand : op.operands) {
    const ElementType element = kernel.type(operand).element;
    out.push_back(is_widened(reduce_kind(op), element) ? ElementType::kF32 : element);
  }
  if (is_index(reduce_kind(op))) out.push_back(ElementType::kI32);
  return out;
}

std::vector<ValueId> reduce_chunk(PartBuilder& parts, const Op& op) {
  OpBuilder& build = parts.build();
  const ReduceKind kind = reduce_kind(op);
  const size_t axis = reduced_axis(op);
  if (kind == ReduceKind::kCustom) {
    std::vector<ValueId> operands;
    for (ValueId operand : op.operands) operands.push_back(parts.part(operand, axis));
    return reduce_custom(parts.target(), build, op, std::move(operands), axis);
  }
  const ValueId x = parts.part(op.operands[0], axis);
  if (!is_index(kind)) return {reduce(build, kind, widen(build, kind, x), axis)};
  const ValueId extreme = reduce(build, kind == ReduceKind::kArgmin ? ReduceKind::kMin : ReduceKind::kMax, x, axis);
  return {extreme, parts.whole_index(reduce(build, kind, x, axis))};
}

// Partial results lie along a last axis.
void reduce_partials(const Op& op, dsl::Kernel& kernel, std::vector<Op>& out, OpBuilder& build, Partials& partials) {
  const ReduceKind kind = reduce_kind(op);
  const auto axis = static_cast<size_t>(kernel.type(op.operands[0]).rank() - 1);
  if (kind == ReduceKind::kCustom) {
    std::vector<ValueId> operands;
    for (size_t i = 0; i < op.operands.size(); ++i) operands.push_back(partials.all(i));
    reduce_custom(kernel, build, op, std::move(operands), axis);
    out.back().results = op.results;
    return;
  }
  const ValueId total = reduce(build, kind, partials.all(0), axis);
  if (is_index(kind)) {
    partials.at(1, total);
  } else if (const ElementType element = kernel.type(op.results[0]).element; is_widened(kind, element)) {
    build.add(OpCode::kCast, {total}, {element});
  }
  out.back().results = op.results;
}

}  // namespace

bool split_reduction(LaunchSequence& sequence, const Lengths& lengths) {
  const ptrdiff_t number = find_long_op(sequence, lengths, is_long);
  if (number < 0) return false;
  const dsl::Kernel& kernel = sequence.steps.back().kernel;
  const Op op = kernel.body.ops[static_cast<size_t>(number)];
  SplitRule rule;
  rule.axis = reduced_axis(op);
  rule.chunks = chunks_of(lengths, kernel, op);
  rule.others = kernel.type(op.results[0]).shape;
  rule.partials = partial_types(kernel, op);
  rule.chunk = [&](PartBuilder& parts) { return reduce_chunk(parts, op); };
  split_op(sequence, static_cast<size_t>(number), rule,
           [&](dsl::Kernel& last, std::vector<Op>& out, OpBuilder& build, Partials& partials) {
             reduce_partials(op, last, out, build, partials);
           });
  return true;
}

}  // namespace kiln::codegen
