// Drawings: what DOT and the page hold. How they look is looked at.
#include "kiln/graph/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "graph/hand_plan.h"
#include "graph/op_examples.h"
#include "kiln/graph/text.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;
using testing::Not;

Graph parsed(const std::string& text) {
  auto graph = parse(text, "test.kg");
  EXPECT_TRUE(graph) << graph.error().message << "\n" << text;
  return graph ? *graph : Graph();
}

Graph golden(const std::string& name) {
  std::ifstream file(KILN_SOURCE_DIR "/tests/golden/graph/" + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return parsed(text.str());
}

constexpr const char* kViews = R"(graph views(%x: f32[4, 8], %"a<b>\"c": f32[2]) {
  %s = slice %x {start = [0, 2], end = [4, 8], step = [1, 2]}
  %p = permute %s {order = [1, 0]}
  %half = full {type = f32, shape = [], value = 0.5}
  %halves = broadcast %half {shape = [3, 4]}
  %y = sub %p, %halves
  output y = %y
}
)";

// Every op has a box, in DOT that is balanced.
TEST(GraphDraw, EveryOp) {
  for (const OpInfo& op : op_table()) {
    const std::string dot = draw_dot(parsed(example_graph(op.op)));
    const bool is_number = op.op == TensorOp::kFull || op.op == TensorOp::kExtent;
    EXPECT_EQ(dot.find("n0_0 [id=\"n0_0\"") == std::string::npos, is_number) << op.name;
    EXPECT_EQ(std::ranges::count(dot, '{'), std::ranges::count(dot, '}')) << dot;
    EXPECT_EQ(
        std::ranges::count(dot, '<'), std::ranges::count(dot, '>') -
                                          [&] {
                                            ptrdiff_t arrows = 0;
                                            for (size_t at = dot.find("->"); at != std::string::npos;
                                                 at = dot.find("->", at + 1))
                                              ++arrows;
                                            return arrows;
                                          }())
        << dot;
    EXPECT_THAT(draw_html(parsed(example_graph(op.op)), ""), HasSubstr("data-node=\"n0_0\"")) << op.name;
  }
}

TEST(GraphDraw, ViewsAreThinAndNumbersStandWhereTheyAreRead) {
  const std::string dot = draw_dot(parsed(kViews));
  EXPECT_THAT(dot, HasSubstr("slice <FONT POINT-SIZE=\"8\">[:, 2::2]</FONT>"));
  EXPECT_THAT(dot, HasSubstr("n0_1 [id=\"n0_1\", shape=plaintext"));
  EXPECT_THAT(dot, HasSubstr("c0 [shape=plaintext"));
  EXPECT_THAT(dot, HasSubstr("label=<0.5>"));
  EXPECT_THAT(dot, Not(HasSubstr("n0_2 [")));  // the number
  EXPECT_THAT(dot, Not(HasSubstr("n0_3 [")));  // and its broadcast
}

TEST(GraphDraw, ViewsAsLabels) {
  const std::string dot = draw_dot(parsed(kViews), {.views = false});
  EXPECT_THAT(dot, Not(HasSubstr("n0_0 [")));
  EXPECT_THAT(dot, HasSubstr("i0_0 -> n0_4 [label=<a: slice, permute>]"));
}

TEST(GraphDraw, BodiesAreClusters) {
  const std::string dot = draw_dot(golden("bodies.kg"));
  EXPECT_THAT(dot, HasSubstr("subgraph cluster_1 {"));
  EXPECT_THAT(dot, HasSubstr("<B>@step</B>"));
  EXPECT_THAT(dot, HasSubstr("n0_1 -> i2_0 [lhead=cluster_2"));
}

TEST(GraphDraw, LoopsSayWhatIsCarriedAndStacked) {
  const std::string dot = draw_dot(golden("bodies.kg"));
  const std::string shape = "</B><BR/><FONT POINT-SIZE=\"8\">f32[4]</FONT><BR/><FONT POINT-SIZE=\"8\">";
  EXPECT_THAT(dot, HasSubstr("<B>state" + shape + "next state<"));
  EXPECT_THAT(dot, HasSubstr("<B>y" + shape + "stacked<"));
  EXPECT_THAT(dot, HasSubstr("n0_1 -> o0_1 [label=<%1>]"));
}

TEST(GraphDraw, StatesSayWhatTheyBecome) {
  EXPECT_THAT(draw_dot(golden("mlp.kg")), HasSubstr("<B>m</B><BR/><FONT POINT-SIZE=\"8\">f32[256]</FONT><BR/><FONT "
                                                    "POINT-SIZE=\"8\">becomes m2</FONT>"));
}

// Names are anybody's text.
TEST(GraphDraw, NamesDoNotEscape) {
  const std::string dot = draw_dot(parsed(kViews));
  EXPECT_THAT(dot, HasSubstr("<B>a&lt;b&gt;&quot;c</B>"));
  const Graph hostile = parsed(
      "graph \"</script><b>\"(%x: f32[4]) {\n  %\"</pre><script>alert(1)</script>\" = neg %x\n  output y = "
      "%\"</pre><script>alert(1)</script>\"\n}\n");
  const std::string page = draw_html(hostile, "");
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("</script><b>")));
}

// Nothing is loaded from elsewhere, and the drawing is put in without its document's head.
TEST(GraphDraw, ThePageStandsAlone) {
  const std::string page =
      draw_html(golden("mlp.kg"), "<?xml version=\"1.0\"?><!DOCTYPE svg><svg width=\"3\"><g id=\"n0_0\"/></svg>\n");
  EXPECT_THAT(page, HasSubstr("<div id=\"drawing\"><svg width=\"3\">"));
  EXPECT_THAT(page, Not(HasSubstr("<?xml")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, HasSubstr("n0_3:[\"cross_entropy\",\"f32[]\",\"smoothing = 0.1\",\"test.kg:13:3\",\"reduce\","));
}

// Launches in order, with what each reads, moves and takes; a frame around those that run again and again.
TEST(GraphDraw, APageHasTheLaunchesOfAPlan) {
  Plan plan = planned::hand_plan();
  plan.loops = {{.first = 1, .count = 2, .length = Expr::constexpr_ref(0), .counter = 0}};
  const Graph graph = parsed(kViews);
  const auto page = [&](const PlanDrawing& compiled) { return draw_html(graph, "", &compiled); };
  const std::string formulas = page({plan});
  EXPECT_THAT(formulas, HasSubstr("5 launches for interp"));
  EXPECT_THAT(formulas, HasSubstr("<b>0&ensp;scale</b><span>8*n*m + 4 B</span><i>reads x</i>"));
  EXPECT_THAT(formulas, HasSubstr("<div class=\"loop\"><span>n times</span>\n<a class=\"launch\" data-node=\"l1\">"));
  EXPECT_THAT(formulas, HasSubstr("data-node=\"l2\"><b>2&ensp;add</b>"));
  EXPECT_THAT(formulas, HasSubstr("<i>reads 0, 1</i>"));
  EXPECT_THAT(formulas, HasSubstr("<b>state</b> f32[n, m]"));
  const std::string numbers = page({plan, {{"n", 10}, {"m", 64}}, {3.2, 10, 0.5, 2000, 1}});
  EXPECT_THAT(numbers, HasSubstr("<span>5.1 kB · 3.2 µs</span>"));
  EXPECT_THAT(numbers, HasSubstr("· 2 ms</span>"));
  EXPECT_THAT(numbers, HasSubstr("<u style=\"width:99%\"></u>"));
  EXPECT_THAT(numbers, HasSubstr("kernel scale("));
  EXPECT_THAT(draw_html(graph, ""), Not(HasSubstr("id=\"plan\"")));
}

}  // namespace
}  // namespace kiln::graph
