#include "sound_graph.h"

#include "check.h"
#include "kiln/graph/binary.h"
#include "kiln/graph/draw.h"
#include "kiln/graph/text.h"
#include "kiln/graph/verify.h"

namespace kiln::fuzz {
namespace {

void check_text(const graph::Graph& graph, const std::string& text) {
  const auto again = graph::parse(text, "printed.kg");
  expect(again, "what print writes parses", text);
  check(graph::key(*again) == graph::key(graph), "a printed graph is the same graph", text);
  // Equal nodes are one when they are read: the second text is that of the graph without its doubles.
  const std::string second = graph::print(*again);
  const auto third = graph::parse(second, "printed.kg");
  expect(third, "what print writes parses", second);
  check(graph::print(*third) == second, "print and parse are inverse", second);
}

}  // namespace

void check_sound_graph(const graph::Graph& graph) {
  const std::string text = graph::print(graph);
  check_text(graph, text);

  const std::vector<std::byte> bytes = graph::encode(graph);
  const auto back = graph::decode(bytes);
  expect(back, "what encode writes decodes", text);
  check(graph::encode(*back) == bytes, "encoding a decoded graph gives the same bytes", text);
  check(graph::key(*back) == graph::key(graph), "a decoded graph has the same key", text);

  const graph::Graph once = graph::canonical(graph);
  if (auto sound = graph::verify(once); !sound)
    check(false, "a canonical graph is sound", sound.error().message + "\n" + text);
  check(graph::encode(graph::canonical(once)) == graph::encode(once), "twice canonical is once canonical", text);

  check(!graph::draw_dot(graph, {.views = false}).empty() && !graph::draw_html(graph, "").empty(), "a graph is drawn");
}

}  // namespace kiln::fuzz
