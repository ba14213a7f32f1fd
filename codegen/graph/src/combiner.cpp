#include "combiner.h"

#include "groups.h"
#include "kiln/dsl/library.h"

namespace kiln::planner {

using graph::Node;
using lang::Value;

Combiner Combiner::of(graph::ReduceKind kind, ElementType element) {
  return {kind, dsl::is_small_float(element) ? ElementType::kF32 : element};
}

Value Combiner::neutral() const {
  const auto number = [&](int64_t value) { return literal_value(type, dsl::bits_from_int(type, value)); };
  switch (kind) {
    case graph::ReduceKind::kProd:
      return number(1);
    case graph::ReduceKind::kMin:
      return literal_value(type, dsl::highest_bits(type));
    case graph::ReduceKind::kMax:
      return literal_value(type, dsl::lowest_bits(type));
    case graph::ReduceKind::kAnd:
      return literal_value(type, ~uint64_t{0} >> (64 - dsl::info(type).bits));
    default:
      return number(0);
  }
}

Value Combiner::combine(const Value& a, const Value& b) const {
  switch (kind) {
    case graph::ReduceKind::kSum:
      return a + b;
    case graph::ReduceKind::kProd:
      return a * b;
    case graph::ReduceKind::kMin:
      return lang::min(a, b);
    case graph::ReduceKind::kMax:
      return lang::max(a, b);
    case graph::ReduceKind::kAnd:
      return a & b;
    case graph::ReduceKind::kOr:
      return a | b;
    default:
      return a ^ b;
  }
}

namespace {

dsl::ReduceKind tile_kind(graph::ReduceKind kind) {
  using enum dsl::ReduceKind;
  static constexpr dsl::ReduceKind kKinds[] = {kSum, kProd, kMin, kMax, kAnd, kOr, kXor};
  return kKinds[static_cast<size_t>(kind)];
}

// Whether what the node gives has the elements of operand 0, of which there is one.
bool passes_on(TensorOp op) {
  return op == TensorOp::kStopGradient || op == TensorOp::kReshape || op == TensorOp::kPermute ||
         op == TensorOp::kBroadcast || op == TensorOp::kReverse || op == TensorOp::kSlice;
}

}  // namespace

Value Combiner::along(const Value& x, int axis) const {
  return lang::cast(lang::reduce(x, axis, tile_kind(kind)), type);
}

Value Combiner::result(const Value& x, ElementType element) const {
  const bool is_chosen = kind == graph::ReduceKind::kMin || kind == graph::ReduceKind::kMax;
  return lang::cast(x, element, {.saturate = !(is_chosen && element == ElementType::kF8E5M2)});
}

Value Combiner::scan(const Value& x, int axis, bool reverse) const {
  return lang::cast(lang::scan(x, axis, tile_kind(kind), {.reverse = reverse}), type);
}

bool is_scalar_body(const graph::Graph& graph, graph::BodyId number) {
  const graph::Body& body = graph.bodies[number];
  return std::all_of(body.nodes.begin(), body.nodes.end(), [&](const Node& node) {
    for (uint32_t i = 0; i < node.result_count; ++i) {
      if (graph::element_count(graph.type(body, node.first_result + i).shape) != Expr(1)) return false;
    }
    if (passes_on(node.op) || graph::info(node.op).family == graph::Family::kElementwise) return true;
    return node.op == TensorOp::kFull || node.op == TensorOp::kConstant || node.op == TensorOp::kExtent ||
           node.op == TensorOp::kIota;
  });
}

std::vector<Expr> body_numbers(const graph::Graph& graph, graph::BodyId number) {
  std::vector<Expr> out;
  for (const Node& node : graph.bodies[number].nodes) {
    if (node.op == TensorOp::kExtent) out.push_back(graph::expr_attr(graph.attrs(node), 1));
  }
  return out;
}

std::vector<Value> BodyEmitter::combine(std::span<const Value> left, std::span<const Value> right) const {
  // What is computed here lies in a region of the kernel, perhaps.
  const StepEmitter::Scope scope(emitter_);
  std::vector<Value> values(body_.values.size());
  for (size_t i = 0; i < body_.inputs.size(); ++i) {
    values[body_.inputs[i].value] = i < left.size() ? left[i] : right[i - left.size()];
  }
  for (const Node& node : body_.nodes) {
    const graph::AttrList& attrs = graph_.attrs(node);
    const ElementType element = graph_.type(body_, node.first_result).element;
    const auto operands = body_.operands_of(node);
    Value& out = values[node.first_result];
    if (passes_on(node.op)) {
      out = values[operands[0]];
    } else if (node.op == TensorOp::kFull) {
      out = literal_value(element, std::get<dsl::Literal>(attrs[2]).bits);
    } else if (node.op == TensorOp::kConstant) {
      out = literal_value(element, std::get<std::vector<uint64_t>>(attrs[2])[0]);
    } else if (node.op == TensorOp::kExtent) {
      out = lang::cast(emitter_.number(graph::expr_attr(attrs, 1)), element);
    } else if (node.op == TensorOp::kIota) {
      out = lang::cast(emitter_.number(Expr()), element);
    } else {
      std::vector<Value> each;
      for (const ValueId operand : operands) each.push_back(values[operand]);
      out = emit_op(node.op, attrs, element, each);
    }
  }
  std::vector<Value> out;
  for (const graph::Output& output : body_.outputs) out.push_back(values[output.value]);
  return out;
}

std::vector<Value> BodyEmitter::combine_optional(std::span<const Value> left, std::span<const Value> right) const {
  const std::vector<Value> both = combine(left.subspan(1), right.subspan(1));
  std::vector<Value> out{left[0] | right[0]};
  for (size_t i = 0; i < both.size(); ++i) {
    const Value one = lang::where(left[0], left[i + 1], right[i + 1]);
    out.push_back(lang::where(left[0] & right[0], both[i], one));
  }
  return out;
}

}  // namespace kiln::planner
