// One page: the drawing beside the text; what is chosen in one is marked in the other, and described below.
#include <bit>
#include <vector>

#include "draw/page.h"
#include "draw/plan_boxes.h"
#include "draw/style.h"
#include "kiln/graph/draw.h"
#include "text/attr_text.h"
#include "text/printed_lines.h"

namespace kiln::graph {
namespace {

constexpr size_t kElements = 64;  // of a constant

// The text, each node's line an element with the node's number.
std::string text_elements(const Graph& graph) {
  std::vector<PrintedLine> lines;
  const std::string text = print(graph, lines);
  std::string out;
  size_t done = 0;
  const auto copy_to = [&](size_t end) {
    out += escaped(std::string_view(text).substr(done, end - done));
    done = end;
  };
  for (const PrintedLine& line : lines) {
    copy_to(line.start);
    out += "<a data-node=\"" + node_id(line.body, line.node) + "\">";
    copy_to(text.find('\n', line.start));
    out += "</a>";
  }
  copy_to(text.size());
  return out;
}

// What a click shows of each node.
std::string node_facts(const Graph& graph) {
  const PrintNames names(graph);
  std::string out;
  for (BodyId id = 0; id < graph.bodies.size(); ++id) {
    const Body& body = graph.bodies[id];
    for (NodeId number = 0; number < body.nodes.size(); ++number) {
      const Node& node = body.nodes[number];
      const OpInfo& op = info(node.op);
      std::string types;
      for (uint32_t i = 0; i < node.result_count; ++i) {
        types += (i > 0 ? ", " : "") + to_string(graph.type(body, node.first_result + i), names.exprs());
      }
      out += node_id(id, number) + ":[";
      for (const std::string& fact : {op.name, types, attrs_text(node.op, graph.attrs(node), names, kElements),
                                      graph.location_text(node.loc), std::string(to_string(op.family)), op.doc}) {
        out += script_string(fact) + ',';
      }
      out += "],\n";
    }
  }
  return out;
}

// Graphviz writes a whole document; only its element belongs into a page.
std::string_view svg_element(std::string_view svg) {
  const size_t start = svg.find("<svg");
  return start == std::string_view::npos ? std::string_view() : svg.substr(start);
}

}  // namespace

std::string draw_html(const Graph& graph, std::string_view svg, const PlanDrawing* compiled) {
  const std::string title = escaped(graph.main().name);
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + title + "</title>\n<style>";
  out += kPageStyle;
  out += "</style></head>\n<body>\n<header><b>" + title + "</b><span id=\"count\">";
  size_t nodes = 0;
  for (const Body& body : graph.bodies) nodes += body.nodes.size();
  out += std::to_string(nodes) + (nodes == 1 ? " node" : " nodes");
  if (compiled != nullptr) {
    const size_t launches = compiled->plan.launches.size();
    const std::string& target = compiled->plan.target;
    out += " → " + std::to_string(launches) + (launches == 1 ? " launch" : " launches") + " for " +
           escaped(target.substr(0, target.find(',')));
  }
  out += "</span></header>\n<main>\n<pre id=\"text\">" + text_elements(graph) + "</pre>\n";
  const std::string_view drawing = svg_element(svg);
  if (!drawing.empty()) out += "<div id=\"drawing\">" + std::string(drawing) + "</div>\n";
  if (compiled != nullptr) out += "<div id=\"plan\">\n" + plan_boxes(*compiled) + "</div>\n";
  out += "</main>\n<footer id=\"facts\">Choose a node in the text or in the drawing";
  out += compiled == nullptr ? "." : ", or a launch.";
  out += "</footer>\n<script>\nconst facts = {" + node_facts(graph);
  if (compiled != nullptr) out += launch_facts(*compiled);
  out += "};\nconst kernels = " + (compiled == nullptr ? std::string("[]") : kernel_texts(compiled->plan)) + ";\n";
  out += kPageScript;
  return out + "</script>\n</body></html>\n";
}

}  // namespace kiln::graph
