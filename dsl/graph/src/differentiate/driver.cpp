#include "differentiate/driver.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

}  // namespace

// --- forward ---

std::vector<ValueId> Driver::forward(const Body& body, std::span<const ValueId> inputs, const std::vector<bool>& wanted,
                                     const std::vector<bool>& useful) {
  const std::vector<bool> active = activity_.values(body, wanted);
  std::vector<ValueId> here(body.values.size(), kNoValue);
  for (size_t i = 0; i < body.inputs.size(); ++i) here[body.inputs[i].value] = inputs[i];
  for (const Node& node : body.nodes) {
    if (!copy_node(body, node, here, active, useful)) return {};
  }
  std::vector<ValueId> out;
  for (const Output& output : body.outputs) out.push_back(here[output.value]);
  return out;
}

bool Driver::copy_node(const Body& body, const Node& node, std::vector<ValueId>& here, const std::vector<bool>& active,
                       const std::vector<bool>& useful) {
  std::vector<ValueId>& operands = operands_;
  operands.clear();
  for (const ValueId operand : body.operands_of(node)) {
    operands.push_back(operand == kNoValue ? kNoValue : here[operand]);
  }
  bool on_the_way = false;
  for (uint32_t i = 0; i < node.result_count; ++i) {
    const ValueId result = node.first_result + i;
    on_the_way = on_the_way || (active[result] && (useful.empty() || useful[result]));
  }
  ValueId first = 0;
  if (on_the_way && node.op == kCall && !flag_attr(source_.attrs(node), 1)) {
    std::vector<bool> operand_active;
    for (const ValueId operand : body.operands_of(node)) {
      operand_active.push_back(operand != kNoValue && active[operand]);
    }
    return inline_call(node, std::vector(operands), here, operand_active);
  }
  if (on_the_way && node.op == kLoop && int_attr(source_.attrs(node), 1) > 0) {
    AttrList kept = source_.attrs(node);
    kept[0] = int64_t{keeping(static_cast<BodyId>(int_attr(kept, 0)), int_attr(kept, 1))};
    auto results = builder_.add_node(node.op, operands, builder_.add_attrs(std::move(kept)), node.loc);
    if (!results) {
      trace_.report(node.loc, results.error().message);
      return false;
    }
    first = results->first;
  } else {
    first = builder_.copy_node(body, node, operands, attrs_here(node.attrs)).first;
  }
  for (uint32_t i = 0; i < node.result_count; ++i) here[node.first_result + i] = first + i;
  return true;
}

AttrsId Driver::attrs_here(AttrsId source) {
  if (source >= attrs_.size()) attrs_.resize(source_.attr_lists.size(), kNone);
  if (attrs_[source] == kNone) attrs_[source] = builder_.add_attrs(source_.attr_lists[source]);
  return attrs_[source];
}

bool Driver::inline_call(const Node& node, std::span<const ValueId> operands, std::vector<ValueId>& here,
                         const std::vector<bool>& operand_active) {
  const Body& body = source_.bodies[static_cast<size_t>(int_attr(source_.attrs(node), 0))];
  const std::vector<ValueId> results = forward(body, operands, operand_active);
  if (results.size() != node.result_count) return false;
  for (uint32_t i = 0; i < node.result_count; ++i) here[node.first_result + i] = results[i];
  return true;
}

BodyId Driver::keeping(BodyId id, int64_t carried) {
  if (auto known = keeping_.find(id); known != keeping_.end()) return known->second;
  Body body = source_.bodies[id];
  const size_t results = body.outputs.size();
  body.name += "_kept";
  body.names.clear();
  for (Input& input : body.inputs) input.donated_to = kNone;
  for (Node& node : body.nodes) node.attrs = attrs_here(node.attrs);
  for (size_t i = 0; i < results; ++i) body.outputs[i].name = "y" + std::to_string(i);
  for (size_t i = 0; i < static_cast<size_t>(carried); ++i) {
    body.outputs.push_back({"kept" + std::to_string(i), body.inputs[i].value});
  }
  const BodyId with = builder_.add_body(std::move(body));
  keeping_.emplace(id, with);
  kept_.emplace(with, KeptLoop{id, results});
  return with;
}

// --- backward ---

std::vector<Tensor> Driver::backward(const std::vector<bool>& wanted, std::vector<Tensor> seeds) {
  const auto count = static_cast<NodeId>(builder_.body().nodes.size());
  std::vector<bool> active;
  {
    Activity here(builder_.graph());
    active = here.values(builder_.body(), wanted);
  }
  std::vector<Tensor> gradients = std::move(seeds);
  gradients.resize(active.size());
  Adjoint adjoint;
  adjoint.driver = this;
  for (NodeId id = count; id-- > 0;) {
    run_rule(id, active, gradients, adjoint);
    if (trace_.failed()) return {};
  }
  std::vector<Tensor> out;
  for (const Input& input : builder_.body().inputs) {
    const bool in_front = input.value < gradients.size() && active[input.value];
    out.push_back(in_front ? gradients[input.value] : Tensor());
  }
  return out;
}

void Driver::run_rule(NodeId id, const std::vector<bool>& active, std::vector<Tensor>& gradients, Adjoint& adjoint) {
  const Node node = builder_.body().nodes[id];
  bool reached = false;
  for (uint32_t i = 0; i < node.result_count; ++i) {
    const ValueId result = node.first_result + i;
    reached = reached || (active[result] && gradients[result].valid());  // what does not move was copied as it is
  }
  const GradientEntry& entry = gradient_entry(node.op);
  if (!reached || entry.kind == GradientKind::kNone) return;
  bool wants = false;
  adjoint.wanted.clear();
  adjoint.operands.clear();
  for (const ValueId operand : builder_.body().operands_of(node)) {
    const bool moves = operand != kNoValue && active[operand];
    wants = wants || moves;
    adjoint.wanted.push_back(moves);
    adjoint.operands.push_back(operand == kNoValue ? Trace::absent() : trace_.tensor(operand));
  }
  if (!wants) return;
  adjoint.op = node.op;
  adjoint.loc = node.loc;
  adjoint.attr_list = &list_of(node.attrs);
  adjoint.results.clear();
  adjoint.result_gradients.clear();
  for (uint32_t i = 0; i < node.result_count; ++i) {
    adjoint.results.push_back(trace_.tensor(node.first_result + i));
    adjoint.result_gradients.push_back(gradients[node.first_result + i]);
  }
  adjoint.gradients.assign(adjoint.operands.size(), Tensor());
  trace_.set_location(node.loc);
  if (entry.kind == GradientKind::kDecompose) {
    decomposed_rule(adjoint);
  } else if (entry.rule) {
    entry.rule(adjoint);
  } else {
    adjoint.fail("no gradient rule");
  }
  for (size_t i = 0; i < adjoint.operands.size(); ++i) {
    if (!adjoint.wanted[i] || !adjoint.gradients[i].valid()) continue;
    Tensor& sum = gradients[adjoint.operands[i].id()];
    sum = sum.valid() ? sum + adjoint.gradients[i] : adjoint.gradients[i];
  }
}

// A copy that stays where it is.
const AttrList& Driver::list_of(AttrsId id) {
  if (id >= lists_.size()) lists_.resize(builder_.graph().attr_lists.size());
  if (!lists_[id]) lists_[id] = std::make_unique<const AttrList>(builder_.graph().attr_lists[id]);
  return *lists_[id];
}

Driver::KeptLoop Driver::kept(BodyId body, size_t results) const {
  const auto found = kept_.find(body);
  return found == kept_.end() ? KeptLoop{body, results} : found->second;
}

}  // namespace kiln::graph
