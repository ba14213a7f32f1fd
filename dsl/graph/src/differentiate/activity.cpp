#include "differentiate/driver.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

bool any(const std::vector<bool>& flags) {
  for (const bool flag : flags) {
    if (flag) return true;
  }
  return false;
}

}  // namespace

const std::vector<bool>& Activity::outputs(BodyId id, const std::vector<bool>& inputs) {
  auto [known, is_new] = known_.try_emplace({id, inputs});
  if (!is_new) return known->second;
  const Body& body = graph_.bodies[id];
  const std::vector<bool> active = values(body, inputs);
  std::vector<bool> out;
  for (const Output& output : body.outputs) out.push_back(active[output.value]);
  return known->second = std::move(out);
}

std::vector<bool> Activity::loop_inputs(BodyId body, int64_t carried, std::vector<bool> operands) {
  for (bool grows = true; grows;) {  // at most once for each carried value
    grows = false;
    const std::vector<bool>& out = outputs(body, operands);
    for (size_t i = 0; i < static_cast<size_t>(carried); ++i) {
      grows = grows || (out[i] && !operands[i]);
      operands[i] = operands[i] || out[i];
    }
  }
  return operands;
}

std::vector<bool> Activity::results(const Body& body, const Node& node, const std::vector<bool>& operands) {
  const AttrList& attrs = graph_.attrs(node);
  const auto body_at = [&](size_t attr) { return static_cast<BodyId>(int_attr(attrs, attr)); };
  if (!any(operands)) return std::vector<bool>(node.result_count, false);
  if (node.op == kLoop) {
    const std::vector<bool> inputs = loop_inputs(body_at(0), int_attr(attrs, 1), operands);
    std::vector<bool> out = outputs(body_at(0), inputs);
    for (size_t i = 0; i < static_cast<size_t>(int_attr(attrs, 1)); ++i) out[i] = inputs[i];
    return out;
  }
  if (node.op == kCall) return outputs(body_at(0), operands);
  if (node.op == kCond) {
    const std::vector<bool> inputs(operands.begin() + 1, operands.end());
    std::vector<bool> out = outputs(body_at(0), inputs);
    const std::vector<bool>& other = outputs(body_at(1), inputs);
    for (size_t i = 0; i < out.size(); ++i) out[i] = out[i] || other[i];
    return out;
  }
  std::vector<bool> out(node.result_count, false);
  if (gradient_entry(node.op).kind == GradientKind::kNone) return out;
  for (uint32_t i = 0; i < node.result_count; ++i) {
    out[i] = dsl::is_float(graph_.type(body, node.first_result + i).element);
  }
  return out;
}

std::vector<bool> Activity::values(const Body& body, const std::vector<bool>& inputs) {
  std::vector<bool> active(body.values.size(), false), operands;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    const ValueId value = body.inputs[i].value;
    active[value] = inputs[i] && dsl::is_float(graph_.type(body, value).element);
  }
  for (const Node& node : body.nodes) {
    const bool control = node.op == kLoop || node.op == kCall || node.op == kCond;
    bool some = false;
    for (const ValueId operand : body.operands_of(node)) some = some || (operand != kNoValue && active[operand]);
    if (!some) continue;
    if (!control) {  // the common case, without a copy
      if (gradient_entry(node.op).kind == GradientKind::kNone) continue;
      for (uint32_t i = 0; i < node.result_count; ++i) {
        active[node.first_result + i] = dsl::is_float(graph_.type(body, node.first_result + i).element);
      }
      continue;
    }
    operands.clear();
    for (const ValueId operand : body.operands_of(node)) operands.push_back(active[operand]);
    const std::vector<bool> out = results(body, node, operands);
    for (uint32_t i = 0; i < node.result_count; ++i) active[node.first_result + i] = out[i];
  }
  return active;
}

}  // namespace kiln::graph
