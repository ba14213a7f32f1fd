// What prune() leaves of a graph.
#include "ir/prune.h"

#include <gtest/gtest.h>

#include "kiln/graph/text.h"
#include "kiln/graph/verify.h"

namespace kiln::graph {
namespace {

// Bodies are numbered anew where one goes. The numbers of two, 2 and 3, are the attributes of a scatter too, axis and
// kind, and equal lists are one.
TEST(Prune, AttributesThatLookLikeBodiesStay) {
  const auto graph = parse(R"(
body @unused(%a: f32[2, 3, 4]) {
  %0 = neg %a : f32[2, 3, 4]
  output r = %0
}

body @f(%a: f32[2, 3, 4]) {
  %0 = exp %a : f32[2, 3, 4]
  output r = %0
}

body @g(%a: f32[2, 3, 4]) {
  %0 = sin %a : f32[2, 3, 4]
  output r = %0
}

graph test(%p: i1[], %x: f32[2, 3, 4], %i: i64[2, 3, 4]) {
  %0 = call %x {body = @unused} : f32[2, 3, 4]
  %1 = scatter %x, %i, %x {axis = 2, kind = min} : f32[2, 3, 4]
  %2 = cond %p, %1 {then = @f, otherwise = @g} : f32[2, 3, 4]
  output y = %2
}
)",
                           "prune.kg");
  ASSERT_TRUE(graph) << graph.error().message;
  const Graph pruned = prune(*graph);
  const auto fine = verify(pruned);
  ASSERT_TRUE(fine) << fine.error().message;
  ASSERT_EQ(pruned.bodies.size(), 3u);
  const std::string text = print(pruned);
  EXPECT_NE(text.find("{axis = 2, kind = min}"), std::string::npos) << text;
  EXPECT_NE(text.find("{then = @f, otherwise = @g}"), std::string::npos) << text;
}

}  // namespace
}  // namespace kiln::graph
