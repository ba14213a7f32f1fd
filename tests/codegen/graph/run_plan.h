// Plans run by the interpreter of tiles: what a planner writes is right before any compiler has seen it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "kiln/dsl/interpreter.h"
#include "kiln/graph/evaluate.h"
#include "kiln/graph/plan.h"

namespace kiln::test {

// How one launch runs: kernel, config, arguments, grid.
using LaunchKernel = std::function<Result<void>(const graph::PlannedKernel&, std::span<const dsl::Argument>)>;

// Contiguous inputs, sizes of all dims. Outputs are filled with a pattern before; what no launch writes keeps it.
Result<std::vector<graph::Array>> run_plan(const graph::Plan& plan, std::span<const graph::Array> inputs,
                                           const std::map<std::string, int64_t>& sizes,
                                           const LaunchKernel& launch = {});

}  // namespace kiln::test
