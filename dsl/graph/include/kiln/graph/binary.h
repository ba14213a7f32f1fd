// Graphs as CBOR (RFC 8949, deterministic encoding), their canonical form, and the key made of it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

// Of a verified graph. Its tile kernels come back in their canonical order, its values in the order of definition.
std::vector<std::byte> encode(const Graph& graph);
// A verified graph whose encoding these bytes are; never an internal error, whatever the bytes.
Result<Graph> decode(std::span<const std::byte> bytes);
// The graph as it is compared: dead nodes, names of values, locations and unused dims, types and bodies out, nodes in
// an order that depends on what they compute alone, operands of commuting ops sorted, and what
// loops, conditions and calls capture in the order in which their bodies want it. Names of graph, inputs, outputs
// and dims stay. Gradients of tile kernels are left out, since nothing computed depends on them.
// Expects a verified graph; idempotent.
Graph canonical(const Graph& graph);
// SHA-256 of the canonical form's bytes, in hexadecimal: the same from every host compiler.
std::string key(const Graph& graph);

}  // namespace kiln::graph
