// A graph made anew, node by node, with some nodes replaced: what passes that change bodies too are made of.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "kiln/graph/builder.h"

namespace kiln::graph {

// The results of a node in the new graph, from its operands there (kNoValue where left out) and its attributes, whose
// bodies and kernels have their new numbers; none: it is copied. New nodes go to the builder, whose open body is the
// new form of `body`.
using NodeRewriter = std::function<Result<std::optional<std::vector<ValueId>>>(
    GraphBuilder& builder, const Body& body, const Node& node, std::span<const ValueId> operands,
    const AttrList& attrs)>;

// The graph with the same dims, inputs, outputs, donations and names. Bodies that nothing runs are left out. The graph
// must verify.
Result<Graph> rewrite(const Graph& graph, const NodeRewriter& rewriter);

// Whether nodes of the op name bodies or kernels.
bool names_bodies(TensorOp op);
// The bodies in an order in which each comes after those that its nodes and kernels name; the main one is last.
std::vector<BodyId> bodies_inner_first(const Graph& graph);

}  // namespace kiln::graph
