// Plans beside the evaluator.
#pragma once

#include "kiln/graph/graph.h"
#include "kiln/graph/plan_request.h"
#include "run_plan.h"

namespace kiln::test {

// "" where plan and evaluator agree, else what is wrong. A plan for a GPU is interpreted too: its blocks are other
// ones.
std::string check_plan(const graph::PlanRequest& request, const std::vector<graph::Array>& inputs,
                       const std::map<std::string, int64_t>& sizes);
std::string check_plan(const graph::Graph& graph, const std::vector<graph::Array>& inputs,
                       const std::map<std::string, int64_t>& sizes, bool fuse, const std::string& target = "interp");

}  // namespace kiln::test
