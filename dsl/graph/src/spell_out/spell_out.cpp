// The driver: nodes that are wanted simpler.
#include "kiln/graph/spell_out.h"

#include "ir/rewrite.h"
#include "spell_out/spellings.h"
#include "trace/trace.h"

namespace kiln::graph {
namespace {

Decomposition spelling_of(TensorOp op) {
  switch (op) {
    case TensorOp::kWindow:
      return spell_window;
    case TensorOp::kWindowSpread:
      return spell_window_spread;
    case TensorOp::kWindowPick:
      return spell_window_pick;
    case TensorOp::kConv:
      return spell_conv;
    case TensorOp::kConvInput:
      return spell_conv_input;
    case TensorOp::kConvWeight:
      return spell_conv_weight;
    case TensorOp::kResize:
      return spell_resize;
    case TensorOp::kResizeSpread:
      return spell_resize_spread;
    case TensorOp::kDot:
      return spell_dot;
    default:
      return nullptr;
  }
}

using Values = std::optional<std::vector<ValueId>>;

Result<Values> spelled(GraphBuilder& builder, const Node& node, std::span<const ValueId> operands,
                       const AttrList& attrs) {
  Trace trace(builder, node.loc);
  Composite composite{attrs, {}};
  for (const ValueId operand : operands) composite.operands.push_back(trace.tensor(operand));
  const std::vector<Tensor> results = spelling_of(node.op)(composite);
  if (trace.failed()) return trace.error();
  std::vector<ValueId> out;
  for (const Tensor& result : results) out.push_back(trace.resolve(result, SourceLocation::current()));
  if (trace.failed()) return trace.error();
  return Values(std::move(out));
}

}  // namespace

bool can_spell_out(TensorOp op) { return spelling_of(op) != nullptr || op == TensorOp::kCall; }

Result<Graph> spell_out(const Graph& graph, const std::function<bool(const Graph&, const Body&, const Node&)>& wants) {
  return rewrite(graph,
                 [&](GraphBuilder& builder, const Body& body, const Node& node, std::span<const ValueId> operands,
                     const AttrList& attrs) -> Result<Values> {
                   if (!can_spell_out(node.op) || !wants(graph, body, node)) return Values();
                   if (node.op != TensorOp::kCall) return spelled(builder, node, operands, attrs);
                   const Graph called = builder.graph();
                   auto inlined = builder.inline_body(called, static_cast<BodyId>(int_attr(attrs, 0)), operands);
                   if (!inlined) return inlined.error();
                   return Values(std::move(*inlined));
                 });
}

}  // namespace kiln::graph
