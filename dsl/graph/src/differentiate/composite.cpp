// Composites without a rule of their own: one node as a graph, decomposed, differentiated, and inlined on the way back.
// The node itself stays in the forward part, where the kernel library may take it whole; what its decomposition needs
// is computed again.
#include "differentiate/driver.h"
#include "ir/prune.h"
#include "kiln/graph/decompose.h"
#include "kiln/graph/differentiate.h"

namespace kiln::graph {
namespace {

std::string input_name(size_t i) { return "x" + std::to_string(i); }

// Which results have a gradient. Zeros in the place of the others would be NaN where a slope is infinite.
std::vector<bool> given(const Adjoint& adjoint) {
  std::vector<bool> out;
  for (size_t i = 0; i < adjoint.results.size(); ++i) out.push_back(adjoint.has_g(i));
  return out;
}

// The graph of one node: inputs x0, x1, …, outputs y0, y1, … of the results that have a gradient.
Result<Graph> one_node(const Graph& around, const Adjoint& adjoint, const std::vector<TensorType>& types) {
  GraphBuilder builder(info(adjoint.op).name);
  for (const DimInfo& dim : around.dims) {
    if (auto added = builder.add_dim(dim); !added) return added.error();
  }
  Location loc = adjoint.loc;
  if (loc.file > 0 && loc.file <= around.files.size()) loc.file = builder.add_file(around.files[loc.file - 1]);
  std::vector<ValueId> operands;
  size_t next = 0;
  for (size_t i = 0; i < adjoint.operands.size(); ++i) {
    if (!adjoint.operands[i].valid()) {
      operands.push_back(kNoValue);
      continue;
    }
    auto value = builder.add_input(input_name(i), types[next++], loc);
    if (!value) return value.error();
    operands.push_back(*value);
  }
  auto results = builder.add(adjoint.op, operands, adjoint.attrs(), loc);
  if (!results) return results.error();
  for (uint32_t i = 0; i < results->count; ++i) {
    if (!adjoint.has_g(i)) continue;
    if (auto added = builder.add_output("y" + std::to_string(i), results->first + i); !added) return added.error();
  }
  return builder.take();
}

// Operands, then a g for each result that has one, to gradients of those that are wanted.
Result<Graph> gradient_graph(const Graph& around, const Adjoint& adjoint, const std::vector<TensorType>& types) {
  auto node = one_node(around, adjoint, types);
  if (!node) return node;
  auto plain = decompose(*node);
  if (!plain) return plain;
  std::vector<std::string> wanted;
  for (size_t i = 0; i < adjoint.operands.size(); ++i) {
    if (adjoint.wanted[i]) wanted.push_back(input_name(i));
  }
  auto joint = vjp(*plain, wanted);
  if (!joint) return joint;
  std::vector<Output>& outputs = joint->bodies[0].outputs;
  outputs.erase(outputs.begin(), outputs.end() - static_cast<ptrdiff_t>(wanted.size()));
  for (Input& input : joint->bodies[0].inputs) input.donated_to = kNone;
  return prune(std::move(*joint));
}

}  // namespace

const Graph* Driver::composite(const Adjoint& adjoint) {
  std::vector<TensorType> types;
  for (const Tensor& operand : adjoint.operands) {
    if (operand.valid()) types.push_back(trace_.type(operand));
  }
  for (const auto& known : composites_) {
    if (known->op == adjoint.op && known->wanted == adjoint.wanted && known->given == given(adjoint) &&
        same(known->attrs, adjoint.attrs()) && known->types == types) {
      return &known->graph;
    }
  }
  auto graph = gradient_graph(builder_.graph(), adjoint, types);
  if (!graph) {
    trace_.report(adjoint.loc, info(adjoint.op).name + ": its gradient: " + graph.error().message);
    return nullptr;
  }
  composites_.push_back(std::make_unique<Composite>(
      Composite{adjoint.op, adjoint.attrs(), std::move(types), adjoint.wanted, given(adjoint), std::move(*graph)}));
  return &composites_.back()->graph;
}

void decomposed_rule(Adjoint& a) {
  const Graph* graph = a.driver->composite(a);
  if (!graph) return;
  std::vector<ValueId> inputs;
  for (const Tensor& operand : a.operands) {
    if (operand.valid()) inputs.push_back(operand.id());
  }
  for (size_t i = 0; i < a.results.size(); ++i) {
    if (a.has_g(i)) inputs.push_back(a.g(i).id());
  }
  auto gradients = a.driver->builder().inline_body(*graph, 0, inputs);
  if (!gradients) return a.fail(gradients.error().message);
  size_t next = 0;
  for (size_t i = 0; i < a.operands.size(); ++i) {
    if (a.wanted[i]) a.give(i, a.trace().tensor((*gradients)[next++]));
  }
}

}  // namespace kiln::graph
