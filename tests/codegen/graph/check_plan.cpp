#include "check_plan.h"

#include "graph/compare.h"
#include "kiln/planner/plan_graph.h"

namespace kiln::test {

std::string check_plan(const graph::PlanRequest& request, const std::vector<graph::Array>& inputs,
                       const std::map<std::string, int64_t>& sizes) {
  const graph::Graph& graph = request.graph;
  auto plan = planner::plan_graph(request);
  if (!plan) return "plan: " + plan.error().message;
  auto expected = graph::evaluate(graph, inputs, sizes, {.check_indices = false});
  if (!expected) return "evaluator: " + expected.error().message;
  auto actual = run_plan(*plan, inputs, sizes);
  if (!actual) return "run: " + actual.error().message;
  auto wide = graph::evaluate(graph, inputs, sizes, {.check_indices = false, .wide = true});
  if (!wide) return "evaluator: " + wide.error().message;
  return difference(*actual, *expected, {.coarsest = coarsest_float(graph), .wide = *wide});
}
std::string check_plan(const graph::Graph& graph, const std::vector<graph::Array>& inputs,
                       const std::map<std::string, int64_t>& sizes, bool fuse, const std::string& target) {
  return check_plan({graph, target, {.fuse = fuse}}, inputs, sizes);
}

}  // namespace kiln::test
