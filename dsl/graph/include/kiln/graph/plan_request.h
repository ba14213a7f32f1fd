// What a client asks a worker for: the plan of a graph. As bytes it is a compile request like that of a kernel, so that
// keys, caches, single-flight and deadlines are the same.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kiln/dsl/request.h"
#include "kiln/graph/ir.h"

namespace kiln::graph {

struct PlanOptions {
  bool fuse = true;  // false: a launch for each op, to see what fusion does
  // Ops that share no launch with others, rising: those of a launch (PlannedLaunch::ops) whose kernel cannot be
  // compiled.
  std::vector<uint32_t> apart = {};
  bool operator==(const PlanOptions&) const = default;
};

struct PlanRequest {
  Graph graph;
  std::string target;  // resolved
  PlanOptions options;
};

// The canonical graph is hashed with target and options; locations and names are in the debug section.
// Error: of a graph that does not verify.
Result<RequestBytes> encode_plan_request(const PlanRequest& request);
// Whether the canonical section is one of a graph, and not of a kernel.
bool is_plan_request(std::span<const std::byte> canonical);
// Survives any bytes; the graph comes back verified. With a debug section that is of the same graph it has locations.
Result<PlanRequest> decode_plan_request(std::span<const std::byte> canonical, std::span<const std::byte> debug);

}  // namespace kiln::graph
