// The driver: nodes that are wanted simpler.
#include "kiln/graph/spell_out.h"

#include "ir/prune.h"
#include "ir/rewrite.h"
#include "kiln/graph/verify.h"
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

// The graph so far, which what it calls is read from while nodes are added to it: one copy for each body that calls.
class Called {
 public:
  // What a body gives for these inputs, in the open one, which is the new form of `caller`: all that it names is there.
  Result<std::vector<ValueId>> inlined(GraphBuilder& builder, const Body& caller, int64_t body,
                                       std::span<const ValueId> inputs) {
    if (caller_ != &caller) graph_ = builder.graph();
    caller_ = &caller;
    return builder.inline_body(graph_, static_cast<BodyId>(body), inputs);
  }

 private:
  const Body* caller_ = nullptr;
  Graph graph_;
};

// What a node of a body is spelled out with.
struct SpelledNode {
  GraphBuilder& builder;
  const Body& body;
  const Node& node;
  std::span<const ValueId> operands;
  const AttrList& attrs;
  Called& called;

  Result<std::vector<ValueId>> inlined(size_t attr, std::span<const ValueId> inputs) const {
    return called.inlined(builder, body, int_attr(attrs, attr), inputs);
  }
};

// Both branches, which have no effects, and of each result the one that is wanted.
Result<Values> spell_cond(const SpelledNode& at) {
  auto then = at.inlined(0, at.operands.subspan(1));
  if (!then) return then.error();
  auto otherwise = at.inlined(1, at.operands.subspan(1));
  if (!otherwise) return otherwise.error();
  Trace trace(at.builder, at.node.loc);
  const Tensor condition = trace.tensor(at.operands[0]);
  std::vector<ValueId> out;
  for (size_t i = 0; i < then->size(); ++i) {
    const Tensor a = trace.tensor((*then)[i]), b = trace.tensor((*otherwise)[i]);
    out.push_back(trace.resolve(where(broadcast_to(condition, a.shape()), a, b), SourceLocation::current()));
  }
  if (trace.failed()) return trace.error();
  return Values(std::move(out));
}

// Pass by pass: of a loop whose length is a number.
Result<Values> spell_loop(const SpelledNode& at) {
  const auto& [builder, body, node, operands, attrs, called] = at;
  const auto carried = static_cast<size_t>(int_attr(attrs, 1)), scanned = static_cast<size_t>(int_attr(attrs, 2));
  const int64_t length = *expr_attr(attrs, 3).as_constant();
  const bool reverse = flag_attr(attrs, 4);
  std::vector<ValueId> state(operands.begin(), operands.begin() + static_cast<ptrdiff_t>(carried));
  std::vector<std::vector<Tensor>> stacks(node.result_count - carried);
  for (int64_t pass = 0; pass < length; ++pass) {
    const int64_t place = reverse ? length - 1 - pass : pass;
    std::vector<ValueId> inputs = state;
    {
      Trace trace(builder, node.loc);
      for (size_t i = 0; i < scanned; ++i) {
        const Tensor all = trace.tensor(operands[carried + i]);
        inputs.push_back(
            trace.resolve(squeeze(slice(all, 0, Dim(place), Dim(place + 1)), {0}), SourceLocation::current()));
      }
      if (trace.failed()) return trace.error();
    }
    inputs.insert(inputs.end(), operands.begin() + static_cast<ptrdiff_t>(carried + scanned), operands.end());
    auto given = at.inlined(0, inputs);
    if (!given) return given.error();
    state.assign(given->begin(), given->begin() + static_cast<ptrdiff_t>(carried));
    Trace trace(builder, node.loc);
    for (size_t i = 0; i < stacks.size(); ++i) stacks[i].push_back(trace.tensor((*given)[carried + i]));
  }
  Trace trace(builder, node.loc);
  for (std::vector<Tensor>& stack_of : stacks) {
    if (reverse) std::reverse(stack_of.begin(), stack_of.end());
    std::vector<Tensor> here;
    for (const Tensor& each : stack_of) here.push_back(trace.tensor(each.id()));
    state.push_back(trace.resolve(stack(here, 0), SourceLocation::current()));
  }
  if (trace.failed()) return trace.error();
  return Values(std::move(state));
}

}  // namespace

bool can_spell_out(TensorOp op) {
  return spelling_of(op) != nullptr || op == TensorOp::kCall || op == TensorOp::kCond || op == TensorOp::kLoop;
}

Result<Graph> spell_out(const Graph& graph, const std::function<bool(const Graph&, const Body&, const Node&)>& wants) {
  if (auto sound = verify(graph); !sound) return sound.error();
  Called called;
  auto out = rewrite(graph,
                     [&](GraphBuilder& builder, const Body& body, const Node& node, std::span<const ValueId> operands,
                         const AttrList& attrs) -> Result<Values> {
                       if (!can_spell_out(node.op) || !wants(graph, body, node)) return Values();
                       const SpelledNode at{builder, body, node, operands, attrs, called};
                       if (node.op == TensorOp::kCond) return spell_cond(at);
                       if (node.op == TensorOp::kLoop) {
                         const auto length = expr_attr(attrs, 3).as_constant();
                         const bool is_short = length && *length > 0 && *length <= kLongestSpelled;
                         return is_short ? spell_loop(at) : Result<Values>(Values());
                       }
                       if (node.op != TensorOp::kCall) return spelled(builder, node, operands, attrs);
                       auto given = at.inlined(0, operands);
                       if (!given) return given.error();
                       return Values(std::move(*given));
                     });
  if (!out) return out;
  return prune(std::move(*out));
}

}  // namespace kiln::graph
