#include "launches/combine.h"

#include "kiln/dsl/rewrite.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ReduceKind;
using dsl::ValueId;

OpCode op_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kProd:
      return OpCode::kMul;
    case ReduceKind::kMin:
      return OpCode::kMin;
    case ReduceKind::kMax:
      return OpCode::kMax;
    case ReduceKind::kAnd:
      return OpCode::kAnd;
    case ReduceKind::kOr:
      return OpCode::kOr;
    case ReduceKind::kXor:
      return OpCode::kXor;
    default:
      return OpCode::kAdd;
  }
}

// The region's ops on tiles of a shape in place of scalars: elementwise ops and constants.
std::vector<ValueId> inline_region(dsl::Kernel& kernel, std::vector<Op>& out, const dsl::Region& region,
                                   dsl::ValueMap known, const std::vector<dsl::Expr>& shape) {
  const auto operands_of = [&](const Op& op) {
    std::vector<ValueId> operands = op.operands;
    known.apply(operands);
    for (ValueId& operand : operands) {
      // What the region takes from outside, and constants, are scalars.
      if (kernel.type(operand).shape.empty()) operand = OpBuilder(kernel, out, op.loc).splat(operand, shape);
    }
    return operands;
  };
  for (const Op& op : region.ops) {
    if (op.code == OpCode::kYield) return operands_of(op);
    Op copy{op.code, op.operands.empty() ? op.operands : operands_of(op), {}, op.attrs, {}, op.loc};
    for (ValueId result : op.results) {
      dsl::Type type = kernel.type(result);
      if (op.code != OpCode::kConstant) type.shape = shape;
      copy.results.push_back(fresh_value(kernel, std::move(type)));
      known.set(result, copy.results.back());
    }
    out.push_back(std::move(copy));
  }
  return {};
}

}  // namespace

bool is_widened(ReduceKind kind, ElementType element) {
  return (kind == ReduceKind::kSum || kind == ReduceKind::kProd) && dsl::is_small_float(element);
}

ValueId widen(OpBuilder& build, ReduceKind kind, ValueId x) {
  return is_widened(kind, build.type(x).element) ? build.add(OpCode::kCast, {x}, {ElementType::kF32}) : x;
}

std::vector<ValueId> combine(dsl::Kernel& kernel, std::vector<Op>& out, const Op& op, const std::vector<ValueId>& left,
                             const std::vector<ValueId>& right) {
  if (reduce_kind(op) != ReduceKind::kCustom) {
    return {OpBuilder(kernel, out, op.loc).add(op_of(reduce_kind(op)), {left[0], right[0]})};
  }
  const dsl::Region& region = op.regions[0];
  dsl::ValueMap known;
  for (size_t i = 0; i < left.size(); ++i) {
    known.set(region.args[i], left[i]);
    known.set(region.args[left.size() + i], right[i]);
  }
  return inline_region(kernel, out, region, std::move(known), std::vector(kernel.type(left[0]).shape));
}

}  // namespace kiln::codegen
