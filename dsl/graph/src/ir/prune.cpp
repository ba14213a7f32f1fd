#include "ir/prune.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "ir/id_table.h"
#include "ir/rewrite.h"

namespace kiln::graph {
namespace {

// A byte each: values are looked up in any order, of graphs of 10^5.
using Flags = std::vector<uint8_t>;

bool node_is_live(const Node& node, const Flags& live) {
  for (uint32_t i = 0; i < node.result_count; ++i) {
    if (live[node.first_result + i]) return true;
  }
  return false;
}

// New numbers of what is used, in the old order; the others are moved out.
template <class T>
std::vector<uint32_t> compact(std::vector<T>& all, const Flags& used) {
  std::vector<uint32_t> now(all.size(), kNone);
  uint32_t count = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!used[i]) continue;
    now[i] = count;
    if (count != i) all[count] = std::move(all[i]);
    ++count;
  }
  all.resize(count);
  return now;
}

void use_attr_lists(Graph& graph) {
  Flags used(graph.attr_lists.size(), false);
  used[0] = true;
  for (const Body& body : graph.bodies) {
    for (const Node& node : body.nodes) used[node.attrs] = true;
  }
  const std::vector<uint32_t> now = compact(graph.attr_lists, used);
  for (Body& body : graph.bodies) {
    for (Node& node : body.nodes) node.attrs = now[node.attrs];
  }
}

void use_types(Graph& graph) {
  Flags used(graph.types.size(), false);
  for (const Body& body : graph.bodies) {
    for (const Value& value : body.values) used[value.type] = true;
  }
  const std::vector<uint32_t> now = compact(graph.types, used);
  for (Body& body : graph.bodies) {
    for (Value& value : body.values) value.type = now[value.type];
  }
}

// Lists are shared by all nodes whose attributes are alike, of ops that name bodies and of others: a list that changes
// is another one.
void renumber_attrs(Graph& graph, const std::vector<uint32_t>& bodies, const std::vector<uint32_t>& kernels) {
  IdTable lists;
  for (AttrsId id = 0; id < graph.attr_lists.size(); ++id) lists.insert(hash(graph.attr_lists[id]), id);
  std::map<std::pair<TensorOp, AttrsId>, AttrsId> now;
  for (Body& body : graph.bodies) {
    for (Node& node : body.nodes) {
      if (!names_bodies(node.op)) continue;
      const auto [known, fresh] = now.try_emplace({node.op, node.attrs}, AttrsId{0});
      if (fresh) {
        AttrList list = graph.attrs(node);
        const std::vector<AttrInfo>& table = info(node.op).attrs;
        for (size_t i = 0; i < table.size(); ++i) {
          if (table[i].kind != AttrKind::kBody && table[i].kind != AttrKind::kKernel) continue;
          const auto id = static_cast<size_t>(std::get<int64_t>(list[i]));
          list[i] = int64_t{table[i].kind == AttrKind::kBody ? bodies[id] : kernels[id]};
        }
        const uint64_t key = kiln::graph::hash(list);
        const auto equal = lists.find(key, [&](uint32_t id) { return kiln::graph::same(graph.attr_lists[id], list); });
        known->second = equal ? *equal : static_cast<AttrsId>(graph.attr_lists.size());
        if (!equal) {
          lists.insert(key, known->second);
          graph.attr_lists.push_back(std::move(list));
        }
      }
      node.attrs = known->second;
    }
  }
}

void use_bodies(Graph& graph) {
  Flags bodies(graph.bodies.size(), false), kernels(graph.kernels.size(), false);
  for (const BodyId id : bodies_inner_first(graph)) bodies[id] = true;
  for (BodyId id = 0; id < graph.bodies.size(); ++id) {
    if (!bodies[id]) continue;
    for (const Node& node : graph.bodies[id].nodes) {
      if (node.op == TensorOp::kKernel) kernels[static_cast<size_t>(int_attr(graph.attrs(node), 0))] = true;
    }
  }
  if (std::ranges::all_of(bodies, std::identity()) && std::ranges::all_of(kernels, std::identity())) return;
  const std::vector<uint32_t> body_now = compact(graph.bodies, bodies), kernel_now = compact(graph.kernels, kernels);
  for (TileKernel& kernel : graph.kernels) {
    if (kernel.gradient != kNone) kernel.gradient = body_now[kernel.gradient];
  }
  renumber_attrs(graph, body_now, kernel_now);
}

}  // namespace

namespace {

Flags live_flags(const Body& body) {
  Flags live(body.values.size(), false);
  for (const Output& output : body.outputs) live[output.value] = true;
  for (size_t i = body.nodes.size(); i-- > 0;) {
    if (!node_is_live(body.nodes[i], live)) continue;
    for (const ValueId operand : body.operands_of(body.nodes[i])) {
      if (operand != kNoValue) live[operand] = true;
    }
  }
  return live;
}

}  // namespace

std::vector<bool> live_values(const Body& body) {
  const Flags live = live_flags(body);
  return {live.begin(), live.end()};
}

namespace {

// The body without some nodes and values; what stays names nothing else. Of a node some results may go.
void leave_out(Body& body, const Flags& nodes, const Flags& values) {
  const auto all = [](const Flags& flags) { return std::ranges::find(flags, false) == flags.end(); };
  if (all(values) && all(nodes)) return;
  std::vector<ValueId> operands;
  operands.reserve(body.operands.size());
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    if (!nodes[i]) continue;
    Node& node = body.nodes[i];
    const std::span<const ValueId> before = body.operands_of(node);
    node.first_operand = static_cast<uint32_t>(operands.size());
    operands.insert(operands.end(), before.begin(), before.end());
    uint32_t first = node.result_count, count = 0;
    for (uint32_t k = 0; k < node.result_count; ++k) {
      if (!values[node.first_result + k]) continue;
      first = std::min(first, k);
      ++count;
    }
    node.first_result += first;
    node.result_count = count;
  }
  const std::vector<uint32_t> node_now = compact(body.nodes, nodes), value_now = compact(body.values, values);
  for (Value& value : body.values) value.node = value.node == kNone ? kNone : node_now[value.node];
  for (ValueId& operand : operands) operand = operand == kNoValue ? kNoValue : value_now[operand];
  for (Node& node : body.nodes) node.first_result = value_now[node.first_result];
  for (Input& input : body.inputs) input.value = value_now[input.value];
  for (Output& output : body.outputs) output.value = value_now[output.value];
  std::map<ValueId, std::string> names;
  for (auto& [value, name] : body.names) {
    if (value_now[value] != kNone) names.emplace(value_now[value], std::move(name));
  }
  body.names = std::move(names);
  body.operands = std::move(operands);
}

}  // namespace

void prune_body(Body& body, const std::vector<bool>& keep) {
  Flags live = live_flags(body), nodes(body.nodes.size());
  for (size_t i = 0; i < body.inputs.size(); ++i) live[body.inputs[i].value] = keep[i];
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& node = body.nodes[i];
    nodes[i] = node_is_live(node, live);
    // All results of a node stay, or none.
    for (uint32_t k = 0; nodes[i] && k < node.result_count; ++k) live[node.first_result + k] = true;
  }
  compact(body.inputs, Flags(keep.begin(), keep.end()));
  leave_out(body, nodes, live);
}

namespace {

// A body may be run by several loops that need different stacks: those of each choice are a body of its own.
class Pruner {
 public:
  explicit Pruner(Graph& graph) : graph_(graph) {}

  void run() {
    for (BodyId id = 0; id < graph_.bodies.size(); ++id) prune(id);  // those that come too
  }

 private:
  void prune(BodyId id) {
    const Flags live = live_flags(graph_.bodies[id]);
    if (std::ranges::find(live, false) == live.end()) return;
    Body body = std::move(graph_.bodies[id]);
    graph_.bodies[id].name = body.name;  // stays taken
    Flags values(body.values.size(), false), nodes(body.nodes.size());
    for (const Input& input : body.inputs) values[input.value] = true;
    for (size_t i = 0; i < body.nodes.size(); ++i) {
      Node& node = body.nodes[i];
      nodes[i] = node_is_live(node, live);
      for (uint32_t k = 0; nodes[i] && k < node.result_count; ++k) values[node.first_result + k] = true;
      if (nodes[i] && node.op == TensorOp::kLoop) drop_stacks(node, values, live);
    }
    leave_out(body, nodes, values);
    graph_.bodies[id] = std::move(body);
  }

  // Of a loop whose stacks are not all needed.
  void drop_stacks(Node& node, Flags& values, const Flags& live) {
    const auto carried = static_cast<uint32_t>(int_attr(graph_.attrs(node), 1));
    std::vector<bool> outputs(node.result_count, true);
    bool all = true;
    for (uint32_t k = carried; k < node.result_count; ++k) {
      outputs[k] = live[node.first_result + k];
      values[node.first_result + k] = outputs[k];
      all = all && outputs[k];
    }
    if (!all) node.attrs = attrs_with(node.attrs, outputs);
  }

  AttrsId attrs_with(AttrsId id, const std::vector<bool>& outputs) {
    const auto [known, fresh] = attrs_.emplace(std::pair(id, outputs), static_cast<AttrsId>(graph_.attr_lists.size()));
    if (fresh) {
      AttrList attrs = graph_.attr_lists[id];
      attrs[0] = int64_t{body_with(static_cast<BodyId>(int_attr(attrs, 0)), outputs)};
      graph_.attr_lists.push_back(std::move(attrs));
    }
    return known->second;
  }

  BodyId body_with(BodyId id, const std::vector<bool>& outputs) {
    const auto [known, fresh] = bodies_.emplace(std::pair(id, outputs), static_cast<BodyId>(graph_.bodies.size()));
    if (!fresh) return known->second;
    if (names_.empty()) {
      for (const Body& body : graph_.bodies) names_.insert(body.name);
    }
    Body body = graph_.bodies[id];
    compact(body.outputs, Flags(outputs.begin(), outputs.end()));
    const std::string name = body.name;
    for (int i = 2; !names_.insert(body.name).second; ++i) body.name = name + "_" + std::to_string(i);
    graph_.bodies.push_back(std::move(body));
    return known->second;
  }

  Graph& graph_;
  std::set<std::string> names_;  // of all bodies, once one gets a new one
  std::map<std::pair<AttrsId, std::vector<bool>>, AttrsId> attrs_;
  std::map<std::pair<BodyId, std::vector<bool>>, BodyId> bodies_;
};

}  // namespace

Graph prune(Graph graph) {
  Pruner(graph).run();
  use_bodies(graph);
  use_attr_lists(graph);
  use_types(graph);
  return graph;
}

}  // namespace kiln::graph
