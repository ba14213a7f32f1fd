// Functions that are made of others, planned for a GPU: what was written is interpreted.
#include <gtest/gtest.h>

#include "check_plan.h"
#include "graph/library_graphs.h"
#include "graph/random_graph.h"

namespace kiln::test {
namespace {

TEST(LibraryGraphs, AreTheEvaluatorsByPlansForGpus) {
  for (const LibraryGraph& each : library_graphs()) {
    ASSERT_TRUE(each.graph.ir().ok()) << each.name << ": " << each.graph.ir().error().message;
    const random_graph::Case made{*each.graph.ir(), each.sizes.front()};
    EXPECT_EQ(check_plan(made.graph, random_graph::inputs(made, 5), made.sizes, true, "cuda:sm_90a"), "") << each.name;
  }
}

}  // namespace
}  // namespace kiln::test
