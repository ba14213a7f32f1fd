// The planner: a graph becomes tile kernels, their launches in order, and one memory plan.
#pragma once

#include "kiln/graph/plan.h"
#include "kiln/graph/plan_request.h"

namespace kiln::planner {

// Deterministic: the same request gives the same plan. Errors name the node with its source line: an op that no kernel
// is written for yet.
Result<graph::Plan> plan_graph(const graph::PlanRequest& request);

}  // namespace kiln::planner
