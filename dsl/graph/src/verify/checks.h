// The parts of verify(), in the order in which they are done: each relies on those before.
#pragma once

#include "kiln/graph/verify.h"

namespace kiln::graph {

// Bodies that run one another, at most: passes go into them by recursion.
inline constexpr size_t kMaxNesting = 200;

// "FILE:LINE:COLUMN: …", or "@body: …" where the place is not known.
Error failure_at(const Graph& graph, const Body& body, const Location& loc, const std::string& what);
Error failure_at(const Graph& graph, const Body& body, const Node& node, const std::string& what);
std::string op_name(const Node& node);

// Dims, types and attribute lists by themselves; each is there once.
Result<void> verify_tables(const Graph& graph);
// Numbers in range, order, names, donations: what all walks over a body rely on.
Result<void> verify_structure(const Graph& graph);
// No body runs itself.
Result<void> verify_acyclic(const Graph& graph);
// Kernels beside their parameters, operands, results and gradients.
Result<void> verify_kernels(const Graph& graph);
// The types of all results, inferred again.
Result<void> verify_types(const Graph& graph);

}  // namespace kiln::graph
