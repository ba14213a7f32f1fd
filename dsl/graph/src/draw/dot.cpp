// Graph to DOT: a box a node, a cluster a body. Views are small and without a box, or labels of edges; numbers that are
// repeated for a tensor stand beside each node that reads them, for one box of "2.0" with edges all over the page says
// nothing.
#include <algorithm>
#include <vector>

#include "draw/short_attrs.h"
#include "draw/style.h"
#include "kiln/dsl/text_format.h"
#include "kiln/graph/draw.h"
#include "text/body_order.h"

namespace kiln::graph {
namespace {

constexpr int kMaxWay = 6;  // views that the label of an edge names

bool is_view(const Node& node) { return info(node.op).family == Family::kView && node.op != TensorOp::kPad; }

class Dot {
 public:
  Dot(const Graph& graph, const DrawOptions& options)
      : graph_(graph), options_(options), names_(graph), carried_(graph.bodies.size(), kNone) {
    for (const Body& body : graph.bodies) {
      for (const Node& node : body.nodes) {
        if (node.op == TensorOp::kLoop)
          carried_[bodies_of(graph, node)[0]] = static_cast<uint32_t>(int_attr(graph.attrs(node), 1));
      }
    }
  }

  std::string run() {
    out_ = "digraph " + dsl::in_quotes(graph_.main().name) + " {\n";
    out_ +=
        "  graph [rankdir=TB, compound=true, ranksep=0.3, nodesep=0.25, fontname=\"Helvetica\", fontsize=11, "
        "labeljust=l];\n"
        "  node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=10, margin=\"0.09,0.04\", "
        "height=0.2];\n"
        "  edge [fontname=\"Helvetica\", fontsize=8, fontcolor=\"#666666\", color=\"#666666\", arrowsize=0.6];\n";
    draw_body(0, "  ");
    for (const BodyId id : dependency_order(graph_)) {
      out_ += "  subgraph cluster_" + std::to_string(id) + " {\n    label=<<B>@" + escaped(names_.bodies[id]) +
              "</B>>; style=rounded; color=\"#46547a\"; bgcolor=\"#fafafc\";\n";
      draw_body(id, "    ");
      out_ += "  }\n";
    }
    out_ += links_ + "}\n";
    return std::move(out_);
  }

 private:
  void draw_body(BodyId id, const char* indent) {
    body_id_ = id;
    body_ = &graph_.bodies[id];
    indent_ = indent;
    value_names_.assign(body_->values.size(), {});
    follow_values();
    for (size_t i = 0; i < body_->inputs.size(); ++i) draw_input(i);
    size_t number = 0;
    for (NodeId node = 0; node < body_->nodes.size(); ++node) {
      name_results(body_->nodes[node], number);
      draw_node(node);
    }
    for (size_t i = 0; i < body_->outputs.size(); ++i) draw_output(i);
  }

  void draw_input(size_t index) {
    const Input& input = body_->inputs[index];
    value_names_[input.value] = input.name;
    std::string state;
    if (input.donated_to < body_->outputs.size()) {
      state = "<BR/>" + small("becomes " + body_->outputs[input.donated_to].name);
    }
    draw_end(input_id(index), "filled", input.name, shape_label(input.value) + state);
  }

  void draw_output(size_t index) {
    const Output& output = body_->outputs[index];
    draw_end(output_id(index), "filled,bold", output.name, shape_label(output.value) + role_of_output(index));
    draw_edge(output.value, output_id(index), "");
  }

  // What a loop does with an output of its body.
  std::string role_of_output(size_t index) const {
    const uint32_t carried = carried_[body_id_];
    if (carried == kNone) return "";
    return "<BR/>" + small(index < carried ? "next " + body_->inputs[index].name : "stacked");
  }

  // An input or output.
  void draw_end(const std::string& id, const char* style, const std::string& name, const std::string& more) {
    out_ += indent_ + id + " [style=\"" + style + "\", fillcolor=\"#ffffff\", color=\"#333333\", label=<<B>" +
            escaped(name) + "</B>" + more + ">];\n";
  }

  // Names as text has them.
  void name_results(const Node& node, size_t& number) {
    for (uint32_t i = 0; i < node.result_count; ++i) {
      const auto name = body_->names.find(node.first_result + i);
      value_names_[node.first_result + i] = name != body_->names.end() ? name->second : "%" + std::to_string(number++);
    }
  }

  void draw_node(NodeId id) {
    const Node& node = body_->nodes[id];
    if (is_folded(node)) return;
    const std::string name = node_id(body_id_, id);
    const Colours colour = colours(info(node.op).family);
    const std::string label = node_label(node);
    out_ += indent_ + name + " [id=\"" + name + "\", ";
    if (is_view(node)) {
      out_ += "shape=plaintext, style=\"\", margin=\"0.02,0.01\", fontsize=8, fontcolor=\"#777777\", label=<" + label +
              ">];\n";
    } else {
      out_ += "fillcolor=\"" + std::string(colour.fill) + "\", color=\"" + std::string(colour.line) + "\", label=<" +
              label + ">];\n";
    }
    const auto operands = body_->operands_of(node);
    for (size_t i = 0; i < operands.size(); ++i) draw_edge(operands[i], name, operand_label(node, i));
    for (const BodyId body : bodies_of(graph_, node)) link(name, body);
  }

  // From a node to the body that it runs: to one of its nodes, cut at the cluster's edge.
  void link(const std::string& from, BodyId body) {
    const Body& target = graph_.bodies[body];
    if (target.outputs.empty()) return;
    const std::string id = std::to_string(body);
    links_ += "  " + from + " -> " + (target.inputs.empty() ? "o" + id + "_0" : "i" + id + "_0") + " [lhead=cluster_" +
              id + ", style=dotted, color=\"#46547a\", arrowhead=open];\n";
  }

  // The operand's name where shapes and boxes do not say which is which.
  std::string operand_label(const Node& node, size_t index) const {
    const OpInfo& op = info(node.op);
    if (op.operands.size() < 2 || op.has(kCommutes) || op.operands.back().variadic) return "";
    if (index >= op.operands.size() || op.family == Family::kNorm) return "";
    const std::string& name = op.operands[index].name;
    return name == "x" || name == "w" || name == "bias" || name == "table" ? "" : name;
  }

  std::string node_label(const Node& node) const {
    const OpInfo& op = info(node.op);
    std::string out = is_view(node) ? escaped(op.name) : "<B>" + escaped(op.name) + "</B>";
    const auto operands = body_->operands_of(node);
    const bool has_operand = !operands.empty() && operands[0] != kNoValue;
    const std::vector<Expr> none;
    const std::string attrs =
        short_attrs(graph_, node, has_operand ? graph_.type(*body_, operands[0]).shape : none, names_);
    if (!attrs.empty()) out += (is_view(node) ? " " : "<BR/>") + small(attrs);
    for (uint32_t i = 0; i < node.result_count; ++i) {
      out += shape_label(node.first_result + i, node.result_count > 1, is_view(node) ? " " : "<BR/>");
    }
    return out;
  }

  static std::string small(const std::string& text) { return "<FONT POINT-SIZE=\"8\">" + escaped(text) + "</FONT>"; }

  std::string shape_label(ValueId value, bool named = false, const char* separator = "<BR/>") const {
    if (!options_.shapes) return "";
    const std::string type = to_string(graph_.type(*body_, value), names_.exprs());
    return separator + small((named ? value_names_[value] + ": " : "") + type);
  }

  // A node that is no box of its own: a repeated number, or a view where these are labels.
  bool is_folded(const Node& node) const {
    if (node.op == TensorOp::kFull || node.op == TensorOp::kExtent) return true;
    if (!is_view(node)) return false;
    return !options_.views || is_number(node.first_result);
  }

  // Whether a value is a number repeated to some shape.
  bool is_number(ValueId value) const { return number_node(value) != nullptr; }

  const Node* number_node(ValueId value) const {
    return numbers_[value] == kNone ? nullptr : &body_->nodes[numbers_[value]];
  }

  // What is asked of a value for each edge, once for all: chains may be long.
  void follow_values() {
    numbers_.assign(body_->values.size(), kNone);
    roots_.resize(body_->values.size());
    sources_.resize(body_->values.size());
    for (size_t i = 0; i < body_->inputs.size(); ++i) {
      roots_[body_->inputs[i].value] = body_->inputs[i].value;
      sources_[body_->inputs[i].value] = input_id(i);
    }
    for (NodeId id = 0; id < body_->nodes.size(); ++id) {
      const Node& node = body_->nodes[id];
      for (uint32_t i = 0; i < node.result_count; ++i) {
        roots_[node.first_result + i] = node.first_result + i;
        sources_[node.first_result + i] = node_id(body_id_, id);
      }
      if (node.op == TensorOp::kFull || node.op == TensorOp::kExtent) numbers_[node.first_result] = id;
      if (!is_view(node)) continue;
      const ValueId operand = body_->operands_of(node)[0];
      roots_[node.first_result] = roots_[operand];
      const bool repeats = node.op == TensorOp::kBroadcast || node.op == TensorOp::kReshape;
      if (repeats) numbers_[node.first_result] = numbers_[operand];
    }
  }

  // "permute, reshape": the last views before a value.
  std::string way_to(ValueId value) const {
    std::string out;
    for (int step = 0; value != roots_[value]; ++step) {
      if (step == kMaxWay) return "…, " + out;
      const Node& node = body_->nodes[body_->values[value].node];
      out = info(node.op).name + (out.empty() ? "" : ", " + out);
      value = body_->operands_of(node)[0];
    }
    return out;
  }

  std::string number_text(const Node& node) const {
    const AttrList& attrs = graph_.attrs(node);
    if (node.op == TensorOp::kFull) return dsl::literal_text(element_attr(attrs, 0), std::get<Literal>(attrs[2]).bits);
    return dsl::to_string(expr_attr(attrs, 1), names_.exprs());
  }

  void draw_edge(ValueId value, const std::string& to, const std::string& what) {
    if (value == kNoValue) return;
    std::string label = what;
    if (const Node* number = number_node(value)) {
      const std::string id = "c" + std::to_string(constants_++);
      out_ += indent_ + id + " [shape=plaintext, style=\"\", margin=\"0.02,0.01\", fontsize=8, label=<" +
              escaped(number_text(*number)) + ">];\n";
      out_ += indent_ + id + " -> " + to + edge_label(label) + ";\n";
      return;
    }
    if (!options_.views) {
      const std::string way = way_to(value);
      if (!way.empty()) label += (label.empty() ? "" : ": ") + way;
      value = roots_[value];
    }
    const std::string result = result_name(value);
    if (!result.empty()) label += (label.empty() ? "" : ", ") + result;
    out_ += indent_ + sources_[value] + " -> " + to + edge_label(label) + ";\n";
  }

  // The name of one of several results.
  std::string result_name(ValueId value) const {
    const NodeId node = body_->values[value].node;
    return node == kNone || body_->nodes[node].result_count == 1 ? "" : value_names_[value];
  }

  static std::string edge_label(const std::string& label) {
    return label.empty() ? "" : " [label=<" + escaped(label) + ">]";
  }

  std::string input_id(size_t index) const { return "i" + std::to_string(body_id_) + "_" + std::to_string(index); }
  std::string output_id(size_t index) const { return "o" + std::to_string(body_id_) + "_" + std::to_string(index); }

  const Graph& graph_;
  const DrawOptions options_;
  const PrintNames names_;
  std::vector<uint32_t> carried_;  // by body that a loop runs: how many of its outputs it carries
  BodyId body_id_ = 0;
  const Body* body_ = nullptr;
  std::string indent_, out_, links_;
  // Of the body, by value: its name, the box that it comes from, what it is a view of, the number that it repeats.
  std::vector<std::string> value_names_, sources_;
  std::vector<ValueId> roots_;
  std::vector<NodeId> numbers_;
  size_t constants_ = 0;
};

}  // namespace

std::string draw_dot(const Graph& graph, const DrawOptions& options) { return Dot(graph, options).run(); }

}  // namespace kiln::graph
