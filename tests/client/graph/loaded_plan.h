// Plans as handles, and numbers for them.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "graph/hand_plan.h"
#include "kiln/client/graph.h"

namespace kiln::test {

// An empty handle, and a failed test, where the plan is refused.
inline CompiledGraph loaded(const graph::Plan& plan = planned::hand_plan()) {
  auto fn = client::load_plan(plan);
  EXPECT_TRUE(fn) << fn.error().message;
  return fn ? *fn : CompiledGraph();
}

// first, first + 1, …
inline std::vector<float> numbers(size_t count, float first) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

}  // namespace kiln::test
