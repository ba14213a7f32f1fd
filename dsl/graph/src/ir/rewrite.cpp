#include "ir/rewrite.h"

#include <algorithm>
#include <array>

namespace kiln::graph {
namespace {

// The bodies that a body's nodes name, those of gradients of its kernels among them.
std::vector<BodyId> named_by(const Graph& graph, const Body& body) {
  std::vector<BodyId> out;
  for (const Node& node : body.nodes) {
    if (!names_bodies(node.op)) continue;
    const std::vector<AttrInfo>& table = info(node.op).attrs;
    for (size_t i = 0; i < table.size(); ++i) {
      const auto id = table[i].kind == AttrKind::kBody || table[i].kind == AttrKind::kKernel
                          ? static_cast<uint32_t>(int_attr(graph.attrs(node), i))
                          : kNone;
      if (table[i].kind == AttrKind::kBody) out.push_back(id);
      if (table[i].kind == AttrKind::kKernel && graph.kernels[id].gradient != kNone) {
        out.push_back(graph.kernels[id].gradient);
      }
    }
  }
  return out;
}

class Rewriter {
 public:
  Rewriter(const Graph& graph, const NodeRewriter& rewriter)
      : graph_(graph), rewriter_(rewriter), builder_(graph.main().name) {}

  Result<Graph> run() {
    for (const DimInfo& dim : graph_.dims) {
      if (auto added = builder_.add_dim(dim); !added) return added.error();
    }
    for (const std::string& file : graph_.files) builder_.add_file(file);
    bodies_.assign(graph_.bodies.size(), kNone);
    kernels_.assign(graph_.kernels.size(), kNone);
    for (const BodyId id : bodies_inner_first(graph_)) {
      if (auto done = body(id); !done) return done.error();
    }
    return builder_.take();
  }

 private:
  Result<void> body(BodyId id);
  Result<void> node(const Body& body, const Node& node);
  Result<AttrList> attrs(const Node& node);
  Result<uint32_t> kernel(uint32_t id);

  const Graph& graph_;
  const NodeRewriter& rewriter_;
  GraphBuilder builder_;
  std::vector<BodyId> bodies_;
  std::vector<uint32_t> kernels_;
  std::vector<ValueId> values_;  // of the body at hand: number there → number here
  std::vector<ValueId> operands_;
};

Result<uint32_t> Rewriter::kernel(uint32_t id) {
  if (kernels_[id] != kNone) return kernels_[id];
  TileKernel kernel = graph_.kernels[id];
  if (kernel.gradient != kNone) kernel.gradient = bodies_[kernel.gradient];
  auto added = builder_.add_kernel(std::move(kernel));
  if (added) kernels_[id] = *added;
  return added;
}

Result<AttrList> Rewriter::attrs(const Node& node) {
  AttrList out = graph_.attrs(node);
  const std::vector<AttrInfo>& table = info(node.op).attrs;
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i].kind == AttrKind::kBody) out[i] = int64_t{bodies_[static_cast<size_t>(int_attr(out, i))]};
    if (table[i].kind == AttrKind::kKernel) {
      auto id = kernel(static_cast<uint32_t>(int_attr(out, i)));
      if (!id) return id.error();
      out[i] = int64_t{*id};
    }
  }
  return out;
}

Result<void> Rewriter::node(const Body& body, const Node& node) {
  operands_.clear();
  for (const ValueId operand : body.operands_of(node)) {
    operands_.push_back(operand == kNoValue ? kNoValue : values_[operand]);
  }
  auto list = attrs(node);
  if (!list) return list.error();
  auto replaced = rewriter_(builder_, body, node, operands_, *list);
  if (!replaced) return replaced.error();
  if (*replaced) {
    std::copy((*replaced)->begin(), (*replaced)->end(), values_.begin() + node.first_result);
    return {};
  }
  auto results = builder_.add(node.op, operands_, std::move(*list), node.loc);
  if (!results) return results.error();
  for (uint32_t i = 0; i < node.result_count; ++i) values_[node.first_result + i] = results->first + i;
  return {};
}

Result<void> Rewriter::body(BodyId id) {
  const Body& body = graph_.bodies[id];
  if (id != 0) builder_.open_body(body.name);
  values_.assign(body.values.size(), kNoValue);
  for (const Input& input : body.inputs) {
    auto value = builder_.add_input(input.name, graph_.type(body, input.value), input.loc);
    if (!value) return value.error();
    values_[input.value] = *value;
  }
  for (const Node& next : body.nodes) {
    if (auto done = node(body, next); !done) return done;
  }
  for (const auto& [value, name] : body.names) {
    // Two values may have become one, or an input.
    const ValueId here = values_[value];
    const bool is_input = here < builder_.body().inputs.size();
    if (here != kNoValue && !is_input && !builder_.body().names.contains(here)) builder_.set_name(here, name);
  }
  for (const Output& output : body.outputs) {
    if (auto added = builder_.add_output(output.name, values_[output.value]); !added) return added;
  }
  for (uint32_t i = 0; i < body.inputs.size(); ++i) {
    if (body.inputs[i].donated_to == kNone) continue;
    if (auto donated = builder_.donate(i, body.inputs[i].donated_to); !donated) return donated;
  }
  if (id != 0) bodies_[id] = builder_.close_body();
  return {};
}

}  // namespace

bool names_bodies(TensorOp op) {
  static const std::array<bool, kTensorOpCount> table = [] {
    std::array<bool, kTensorOpCount> out{};
    for (const OpInfo& each : op_table()) {
      out[static_cast<size_t>(each.op)] = each.has(kBody) || each.family == Family::kKernel;
    }
    return out;
  }();
  return table[static_cast<size_t>(op)];
}

std::vector<BodyId> bodies_inner_first(const Graph& graph) {
  std::vector<BodyId> out;
  std::vector<bool> seen(graph.bodies.size(), false), done(graph.bodies.size(), false);
  std::vector<BodyId> stack{0};
  while (!stack.empty()) {
    const BodyId id = stack.back();
    if (!seen[id]) {
      seen[id] = true;
      for (const BodyId inner : named_by(graph, graph.bodies[id])) {
        if (!seen[inner]) stack.push_back(inner);
      }
      continue;
    }
    stack.pop_back();
    if (!done[id]) out.push_back(id);
    done[id] = true;
  }
  return out;
}

Result<Graph> rewrite(const Graph& graph, const NodeRewriter& rewriter) { return Rewriter(graph, rewriter).run(); }

}  // namespace kiln::graph
