#include "kiln/graph/builder.h"

#include <algorithm>

#include "ir/builder_index.h"
#include "ir/expr_limits.h"
#include "ir/prune.h"
#include "ir/renumber.h"
#include "kiln/graph/infer.h"

namespace kiln::graph {
Result<TypeId> GraphBuilder::Index::type(Graph& graph, TensorType type) {
  const uint64_t key = hash(type);
  if (auto known = types.find(key, [&](uint32_t id) { return graph.types[id] == type; })) return *known;
  if (const char* problem = type_problem(type, graph.dims)) {
    const bool printable = std::ranges::none_of(
        type.shape, [&](const Expr& extent) { return expr_problem(extent, graph.dims.size()) != nullptr; });
    return error(ErrorCode::kVerifyFailed,
                 (printable ? to_string(type, graph.expr_names()) : std::string("the type")) + " " + problem);
  }
  const auto id = static_cast<TypeId>(graph.types.size());
  graph.types.push_back(std::move(type));
  types.insert(key, id);
  return id;
}

AttrsId GraphBuilder::Index::attrs(Graph& graph, AttrList attrs) {
  if (attrs.empty()) return 0;
  const uint64_t key = hash(attrs);
  if (auto known = attr_lists.find(key, [&](uint32_t id) { return same(graph.attr_lists[id], attrs); })) return *known;
  const auto id = static_cast<AttrsId>(graph.attr_lists.size());
  graph.attr_lists.push_back(std::move(attrs));
  attr_lists.insert(key, id);
  return id;
}

Result<void> GraphBuilder::Index::infer(Graph& graph, TensorOp op, AttrsId attrs) {
  // What bodies and kernels give may still change: see add_capture().
  const bool lasting = !info(op).has(kBody) && info(op).family != Family::kKernel;
  results.clear();
  if (lasting) {
    if (const auto known = signatures.find(op, attrs, operands)) {
      results.assign(known->begin(), known->end());
      return {};
    }
  }
  std::vector<const TensorType*> inputs;
  inputs.reserve(operands.size());
  for (const TypeId operand : operands) inputs.push_back(operand == kNone ? nullptr : &graph.types[operand]);
  auto inferred = infer_types(graph, op, inputs, graph.attr_lists[attrs]);
  if (!inferred) return inferred.error();
  for (TensorType& result : *inferred) {
    auto id = type(graph, std::move(result));
    if (!id) return error(id.error().code, info(op).name + ": the result " + id.error().message);
    results.push_back(*id);
  }
  if (lasting) signatures.insert(op, attrs, operands, results);
  return {};
}

std::optional<GraphBuilder::Results> GraphBuilder::Index::find(const Body& body, const NodeTable::Key& key, TensorOp op,
                                                               std::span<const ValueId> operands, AttrsId attrs) const {
  const auto known = open.back().nodes.find(key, [&](uint32_t id) {
    const Node& node = body.nodes[id];
    return node.op == op && node.attrs == attrs && NodeTable::same(op, body.operands_of(node), operands);
  });
  if (!known) return std::nullopt;
  return Results{body.nodes[*known].first_result, body.nodes[*known].result_count};
}

GraphBuilder::Results GraphBuilder::Index::append(Body& body, const NodeTable::Key& key, Node node,
                                                  std::span<const ValueId> node_operands) {
  const auto id = static_cast<NodeId>(body.nodes.size());
  node.first_operand = static_cast<uint32_t>(body.operands.size());
  node.operand_count = static_cast<uint32_t>(node_operands.size());
  node.first_result = static_cast<ValueId>(body.values.size());
  node.result_count = static_cast<uint32_t>(results.size());
  for (const TypeId type : results) body.values.push_back({type, id});
  body.operands.insert(body.operands.end(), node_operands.begin(), node_operands.end());
  body.nodes.push_back(node);
  open.back().nodes.insert(key, id);
  return {node.first_result, node.result_count};
}

std::string Names::add_unique(std::string name) {
  if (taken_.insert(name).second) return name;
  uint32_t& suffix = suffixes_[name];
  std::string unique;
  do {
    suffix = std::max(suffix, 1u) + 1;
    unique = name + "_" + std::to_string(suffix);
  } while (!taken_.insert(unique).second);
  return unique;
}

GraphBuilder::GraphBuilder(std::string name) : open_{0}, index_(std::make_unique<Index>()) {
  graph_.bodies.emplace_back();
  index_->bodies.add(name);
  graph_.bodies[0].name = std::move(name);
  index_->open.emplace_back();
}

GraphBuilder::~GraphBuilder() = default;
GraphBuilder::GraphBuilder(GraphBuilder&&) noexcept = default;
GraphBuilder& GraphBuilder::operator=(GraphBuilder&&) noexcept = default;

GraphBuilder GraphBuilder::rewrite(const Graph& graph) {
  GraphBuilder out(graph.main().name);
  Graph& copy = out.graph_;
  copy.dims = graph.dims;
  copy.types = graph.types;
  copy.attr_lists = graph.attr_lists;
  copy.bodies.insert(copy.bodies.end(), graph.bodies.begin() + 1, graph.bodies.end());
  copy.kernels = graph.kernels;
  copy.files = graph.files;
  for (const Body& body : graph.bodies) out.index_->bodies.add(body.name);
  for (TypeId id = 0; id < graph.types.size(); ++id) out.index_->types.insert(hash(graph.types[id]), id);
  for (AttrsId id = 1; id < graph.attr_lists.size(); ++id) {
    out.index_->attr_lists.insert(hash(graph.attr_lists[id]), id);
  }
  for (uint32_t i = 0; i < graph.files.size(); ++i) out.index_->files.emplace(graph.files[i], i + 1);
  return out;
}

GraphBuilder GraphBuilder::extend(const Graph& graph) {
  GraphBuilder out = rewrite(graph);
  Body& main = out.graph_.bodies[0];
  main = graph.main();
  main.outputs.clear();
  Index::OpenBody& open = out.index_->open[0];
  for (Input& input : main.inputs) {
    input.donated_to = kNone;
    open.names.add(input.name);
  }
  for (const auto& [value, name] : main.names) open.names.add(name);
  for (NodeId id = 0; id < main.nodes.size(); ++id) {
    const Node& node = main.nodes[id];
    open.nodes.insert(NodeTable::key(node.op, main.operands_of(node), node.attrs), id);
  }
  return out;
}

void GraphBuilder::open_body(std::string name) {
  open_.push_back(static_cast<BodyId>(graph_.bodies.size()));
  Body& body = graph_.bodies.emplace_back();
  body.name = index_->bodies.add_unique(std::move(name));
  // What most bodies have: a graph has thousands of them, which would grow from nothing.
  body.inputs.reserve(8);
  body.outputs.reserve(4);
  body.nodes.reserve(16);
  body.values.reserve(32);
  body.operands.reserve(32);
  index_->open.emplace_back();
}

BodyId GraphBuilder::close_body() {
  const BodyId id = open_.back();
  open_.pop_back();
  index_->open.pop_back();
  number_inputs_first(graph_.bodies[id]);
  return id;
}

std::vector<bool> GraphBuilder::used_inputs(BodyId id) const {
  const Body& body = graph_.bodies[id];
  const std::vector<bool> live = live_values(body);
  std::vector<bool> out;
  for (const Input& input : body.inputs) out.push_back(live[input.value]);
  return out;
}

void GraphBuilder::prune_body(BodyId body, const std::vector<bool>& keep) {
  graph::prune_body(graph_.bodies[body], keep);
}

Result<uint32_t> GraphBuilder::add_dim(const DimInfo& dim) {
  if (auto known = graph_.find_dim(dim.name)) {
    if (graph_.dims[*known] == dim) return *known;
    return invalid_argument("the dim " + dim.name + " is declared twice, with other bounds");
  }
  if (const char* problem = dim_problem(dim)) return invalid_argument("the dim " + dim.name + " " + problem);
  graph_.dims.push_back(dim);
  return static_cast<uint32_t>(graph_.dims.size() - 1);
}

Result<ValueId> GraphBuilder::add_input(std::string name, TensorType type, Location loc) {
  Body& body = open();
  auto id = index_->type(graph_, std::move(type));
  if (!id) return invalid_argument("input " + name + ": " + id.error().message);
  if (!index_->open.back().names.add(name)) return invalid_argument("two inputs have the name " + name);
  const auto value = static_cast<ValueId>(body.values.size());
  body.values.push_back({*id, kNone});
  body.inputs.push_back({std::move(name), value, kNone, loc});
  return value;
}

ValueId GraphBuilder::add_capture(BodyId id, Captured captured) {
  const auto depth = static_cast<size_t>(std::ranges::find(open_, id) - open_.begin());
  Body& body = graph_.bodies[id];
  const auto value = static_cast<ValueId>(body.values.size());
  body.values.push_back({captured.type, kNone});
  std::string name = index_->open[depth].names.add_unique(std::move(captured.name));
  body.inputs.push_back({std::move(name), value, kNone, captured.loc});
  return value;
}

void GraphBuilder::add_captures_to_closed(BodyId id, std::vector<Captured> captured) {
  Body& body = graph_.bodies[id];
  Names names;
  for (const Input& input : body.inputs) names.add(input.name);
  for (const auto& [value, name] : body.names) names.add(name);
  for (Captured& each : captured) {
    const auto value = static_cast<ValueId>(body.values.size());
    body.values.push_back({each.type, kNone});
    body.inputs.push_back({names.add_unique(std::move(each.name)), value, kNone, each.loc});
  }
  number_inputs_first(body);
}

Result<void> GraphBuilder::add_output(std::string name, ValueId value) {
  Body& body = open();
  if (value >= body.values.size()) return invalid_argument("output " + name + ": no value");
  if (!index_->open.back().outputs.add(name)) return invalid_argument("two outputs have the name " + name);
  body.outputs.push_back({std::move(name), value});
  return {};
}

Result<void> GraphBuilder::donate(uint32_t input, uint32_t output) {
  Body& body = open();
  if (input >= body.inputs.size() || output >= body.outputs.size())
    return invalid_argument("donation of what is not there");
  const Input& from = body.inputs[input];
  const Output& to = body.outputs[output];
  if (from.donated_to != kNone) return invalid_argument("input " + from.name + ": it is donated twice");
  if (body.values[from.value].type != body.values[to.value].type) {
    return invalid_argument("input " + from.name + " of " + to_string(type(from.value), graph_.expr_names()) +
                            " cannot be donated to output " + to.name + " of " +
                            to_string(type(to.value), graph_.expr_names()));
  }
  if (const auto [other, fresh] = index_->open.back().donated.emplace(output, input); !fresh) {
    return invalid_argument("output " + to.name + ": two inputs are donated to it: " + body.inputs[other->second].name +
                            " and " + from.name);
  }
  body.inputs[input].donated_to = output;
  return {};
}

Result<GraphBuilder::Results> GraphBuilder::add(TensorOp op, std::span<const ValueId> operands, AttrList attrs,
                                                Location loc) {
  // Those left out at the end are there too: one form of a node.
  const std::vector<OperandInfo>& table = info(op).operands;
  if (operands.size() < table.size() && table.back().optional) {
    std::vector<ValueId> all(operands.begin(), operands.end());
    while (all.size() < table.size() && table[all.size()].optional) all.push_back(kNoValue);
    if (all.size() == table.size()) return add(op, all, std::move(attrs), loc);
  }
  return add_node(op, operands, add_attrs(with_default_attrs(op, std::move(attrs))), loc);
}

AttrsId GraphBuilder::add_attrs(AttrList attrs) { return index_->attrs(graph_, std::move(attrs)); }

Result<GraphBuilder::Results> GraphBuilder::add_node(TensorOp op, std::span<const ValueId> operands, AttrsId attrs,
                                                     Location loc) {
  Body& body = open();
  const NodeTable::Key key = NodeTable::key(op, operands, attrs);
  if (const auto known = index_->find(body, key, op, operands, attrs)) return *known;
  index_->operands.clear();
  for (const ValueId operand : operands) {
    if (operand != kNoValue && operand >= body.values.size())
      return internal_error(info(op).name + ": an operand of another body");
    index_->operands.push_back(operand == kNoValue ? kNone : body.values[operand].type);
  }
  if (auto inferred = index_->infer(graph_, op, attrs); !inferred) return inferred.error();
  return index_->append(body, key, {.op = op, .attrs = attrs, .loc = loc}, operands);
}

GraphBuilder::Results GraphBuilder::copy_node(const Body& from, const Node& node, std::span<const ValueId> operands,
                                              AttrsId attrs) {
  const NodeTable::Key key = NodeTable::key(node.op, operands, attrs);
  if (const auto known = index_->find(open(), key, node.op, operands, attrs)) return *known;
  index_->results.clear();
  for (uint32_t i = 0; i < node.result_count; ++i) {
    index_->results.push_back(from.values[node.first_result + i].type);
  }
  return index_->append(open(), key, {.op = node.op, .attrs = attrs, .loc = node.loc}, operands);
}

BodyId GraphBuilder::add_body(Body body) {
  body.name = index_->bodies.add_unique(std::move(body.name));
  graph_.bodies.push_back(std::move(body));
  return static_cast<BodyId>(graph_.bodies.size() - 1);
}

Result<ValueId> GraphBuilder::add_one(TensorOp op, std::span<const ValueId> operands, AttrList attrs, Location loc) {
  auto results = add(op, operands, std::move(attrs), loc);
  if (!results) return results.error();
  return results->first;
}

Result<uint32_t> GraphBuilder::add_kernel(TileKernel kernel) {
  for (const TileKernel& other : graph_.kernels) {
    if (other.name == kernel.name) return invalid_argument("two kernels have the name " + kernel.name);
  }
  graph_.kernels.push_back(std::move(kernel));
  return static_cast<uint32_t>(graph_.kernels.size() - 1);
}

void GraphBuilder::set_kernel_gradient(uint32_t kernel, BodyId gradient) { graph_.kernels[kernel].gradient = gradient; }

uint32_t GraphBuilder::add_file(std::string_view name) {
  auto [it, fresh] = index_->files.emplace(name, static_cast<uint32_t>(graph_.files.size() + 1));
  if (fresh) graph_.files.emplace_back(name);
  return it->second;
}

void GraphBuilder::set_name(ValueId value, std::string name) {
  std::string unique = index_->open.back().names.add_unique(std::move(name));
  open().names[value] = std::move(unique);
}

Graph GraphBuilder::take() {
  Graph out = std::move(graph_);
  *this = GraphBuilder("");
  return out;
}

}  // namespace kiln::graph
