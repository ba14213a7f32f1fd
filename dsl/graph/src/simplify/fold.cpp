// Elementwise ops of numbers alone: the evaluator says what they are, once, for all elements.
#include <algorithm>

#include "kiln/graph/evaluate.h"
#include "simplify/rules.h"

namespace kiln::graph {
namespace {

ValueId fold(const Site& s) {
  if (s.operands.empty()) return kNoValue;
  GraphBuilder builder("fold");
  std::vector<ValueId> operands;
  for (const ValueId operand : s.operands) {
    const auto bits = s.simplifier.splat(operand);
    if (!bits) return kNoValue;
    auto scalar =
        builder.add_one(TensorOp::kFull, {}, {s.simplifier.type(operand).element, std::vector<Expr>{}, Literal{*bits}});
    if (!scalar) return kNoValue;
    operands.push_back(*scalar);
  }
  auto result = builder.add_one(s.op, operands, s.attrs);
  if (!result || !builder.add_output("y", *result)) return kNoValue;
  auto values = evaluate(builder.take(), {});
  return values ? s.simplifier.full(s.type, (*values)[0].bits(0)) : kNoValue;
}

std::vector<TensorOp> elementwise_primitives() {
  std::vector<TensorOp> out;
  for (const OpInfo& op : op_table()) {
    if (op.family == Family::kElementwise && op.has(kPrimitive) && op.op != TensorOp::kStopGradient)
      out.push_back(op.op);
  }
  return out;
}

}  // namespace

std::vector<RuleRow> fold_rules() {
  return {{{"fold", "2 * 3", "6", Algebra::kIeee, "every elementwise op of numbers, as the evaluator rounds it"},
           elementwise_primitives(),
           fold}};
}

}  // namespace kiln::graph
