// Graph to text. Dims, kernels and bodies come before what mentions them, the graph last. Values keep their names; the
// others are numbered in the order of printing.
#include <algorithm>
#include <bit>

#include "kiln/dsl/text.h"
#include "kiln/dsl/text_format.h"
#include "kiln/graph/text.h"
#include "text/attr_text.h"
#include "text/body_order.h"
#include "text/print_names.h"
#include "text/printed_lines.h"

namespace kiln::graph {
namespace {

constexpr size_t kMaxLine = 110;  // of a head with all its inputs in one line

// A message of several lines, or one that a terminal obeys, would not stay in its comment.
std::string comment(const std::string& text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return out;
}

class Printer {
 public:
  Printer(const Graph& graph, PrintOptions options) : graph_(graph), options_(options), names_(graph) {}

  std::vector<PrintedLine>& lines() { return lines_; }

  std::string run() {
    for (size_t i = 0; i < graph_.dims.size(); ++i) print_dim(graph_.dims[i], names_.dims[i]);
    gap();
    for (size_t i = 0; i < graph_.kernels.size(); ++i) print_kernel(i);
    for (const BodyId id : dependency_order(graph_)) print_body(id, "body @" + names_.bodies[id]);
    if (!graph_.bodies.empty()) print_body(0, "graph " + text_name(graph_.main().name));
    return std::move(out_);
  }

 private:
  void gap() {
    if (!out_.empty()) out_ += '\n';
  }

  // dim n: 1..4096 multiple 8
  void print_dim(const DimInfo& dim, const std::string& name) {
    out_ += "dim " + name;
    const bool is_bounded = dim.high != DimInfo::kMost;
    if (dim.low != 1 || is_bounded) {
      out_ += ": " + std::to_string(dim.low) + ".." + (is_bounded ? std::to_string(dim.high) : "");
    }
    if (dim.multiple != 1) out_ += " multiple " + std::to_string(dim.multiple);
    out_ += '\n';
  }

  void print_kernel(size_t index) {
    const TileKernel& kernel = graph_.kernels[index];
    out_ += "kernel @" + names_.kernels[index] + " {\n";
    if (!kernel.operands.empty()) out_ += "  operands " + types(kernel.operands) + '\n';
    if (!kernel.results.empty()) out_ += "  results " + types(kernel.results) + '\n';
    if (!kernel.arguments.empty()) out_ += "  arguments ";
    for (size_t i = 0; i < kernel.arguments.size(); ++i) out_ += (i > 0 ? ", " : "") + argument(kernel.arguments[i]);
    if (!kernel.arguments.empty()) out_ += '\n';
    if (kernel.gradient != kNone) out_ += "  gradient @" + names_.body(kernel.gradient) + '\n';
    for (const TileKernel::Code& each : kernel.codes) print_code(each);
    const std::string text = dsl::print(kernel.kernel);
    for (size_t start = 0; start < text.size();) {
      const size_t end = std::min(text.find('\n', start), text.size());
      if (end > start) out_ += "  ";
      out_.append(text, start, end + 1 - start);
      start = end + 1;
    }
    out_ += "}\n\n";
  }

  // A string for each line of the code.
  void print_code(const TileKernel::Code& each) {
    const dsl::CustomCode& code = each.code;
    out_ += "  code " + dsl::in_quotes(each.target) + ' ' + std::string(dsl::word_of(code.form));
    if (!code.entry.empty()) out_ += " entry " + dsl::in_quotes(code.entry);
    if (!code.file.empty()) out_ += " file " + dsl::in_quotes(code.file);
    if (code.threads != 1) out_ += " threads " + std::to_string(code.threads);
    if (code.shared_bytes != 0) out_ += " shared " + std::to_string(code.shared_bytes);
    out_ += " {\n";
    for (size_t start = 0; start < code.text.size();) {
      const size_t end = std::min(code.text.find('\n', start), code.text.size() - 1) + 1;
      out_ += "    " + dsl::in_quotes(std::string_view(code.text).substr(start, end - start)) + '\n';
      start = end;
    }
    out_ += "  }\n";
  }

  std::string types(const std::vector<TensorType>& list) const {
    std::string out;
    for (const TensorType& type : list) out += (out.empty() ? "" : ", ") + to_string(type, names_.exprs());
    return out;
  }

  std::string argument(const TileKernel::Argument& argument) const {
    switch (argument.kind) {
      case TileKernel::Argument::Kind::kOperand:
        return "operand " + std::to_string(argument.index);
      case TileKernel::Argument::Kind::kResult:
        return "result " + std::to_string(argument.index);
      case TileKernel::Argument::Kind::kScalar:
        break;
    }
    return dsl::to_string(argument.scalar, names_.exprs());
  }

  void print_body(BodyId id, const std::string& head) {
    const Body& body = graph_.bodies[id];
    body_ = &body;
    values_.assign(body.values.size(), {});
    next_number_ = 0;
    print_head(head, id == 0);
    for (NodeId node = 0; node < body.nodes.size(); ++node) {
      lines_.push_back({out_.size(), id, node});
      print_node(body.nodes[node]);
    }
    for (const Output& output : body.outputs) {
      out_ += "  output " + text_name(output.name) + " = " + use(output.value) + '\n';
    }
    out_ += id == 0 ? "}\n" : "}\n\n";
  }

  void print_head(const std::string& head, bool is_main) {
    std::vector<std::string> inputs;
    size_t width = head.size() + 4;
    for (const Input& input : body_->inputs) {
      const std::string name = '%' + text_name(input.name);
      if (input.value < values_.size()) values_[input.value] = name;
      inputs.push_back(name + ": " + type_of(input.value));
      if (is_main && input.donated_to < body_->outputs.size()) {
        inputs.back() += " donated to " + text_name(body_->outputs[input.donated_to].name);
      }
      width += inputs.back().size() + 2;
    }
    const bool one_line = width <= kMaxLine;
    out_ += head + '(';
    for (size_t i = 0; i < inputs.size(); ++i) {
      out_ += i > 0 ? (one_line ? ", " : ",\n    ") : (one_line ? "" : "\n    ");
      out_ += inputs[i];
    }
    out_ += ") {\n";
  }

  void print_node(const Node& node) {
    const OpInfo& op = info(node.op);
    out_ += "  ";
    for (uint32_t i = 0; i < node.result_count; ++i) out_ += (i > 0 ? ", " : "") + define(node.first_result + i);
    out_ += " = " + op.name;
    auto operands = body_->operands_of(node);
    const bool variadic = !op.operands.empty() && op.operands.back().variadic;
    while (!variadic && !operands.empty() && operands.back() == kNoValue)
      operands = operands.first(operands.size() - 1);
    for (size_t i = 0; i < operands.size(); ++i) out_ += (i > 0 ? ", " : " ") + use(operands[i]);
    const std::string attrs = attrs_text(node.op, graph_.attrs(node), names_);
    if (!attrs.empty()) out_ += " {" + attrs + '}';
    for (uint32_t i = 0; i < node.result_count; ++i) out_ += (i > 0 ? ", " : " : ") + type_of(node.first_result + i);
    const std::string place = options_.locations ? graph_.location_text(node.loc) : "";
    if (!place.empty()) out_ += "  // " + comment(place);
    out_ += '\n';
  }

  std::string define(ValueId id) {
    if (id >= values_.size()) return "%?";
    const auto name = body_->names.find(id);
    values_[id] = '%' + (name != body_->names.end() ? text_name(name->second) : std::to_string(next_number_++));
    return values_[id];
  }

  std::string use(ValueId id) const {
    if (id == kNoValue) return "_";
    return id < values_.size() && !values_[id].empty() ? values_[id] : "%?";
  }

  std::string type_of(ValueId id) const {
    return id < body_->values.size() ? to_string(graph_.type(*body_, id), names_.exprs()) : "?";
  }

  const Graph& graph_;
  const PrintOptions options_;
  const PrintNames names_;
  const Body* body_ = nullptr;
  std::vector<std::string> values_;
  uint64_t next_number_ = 0;
  std::string out_;
  std::vector<PrintedLine> lines_;
};

}  // namespace

std::string print(const Graph& graph, PrintOptions options) { return Printer(graph, options).run(); }

std::string print(const Graph& graph, std::vector<PrintedLine>& lines) {
  Printer printer(graph, {});
  std::string text = printer.run();
  lines = std::move(printer.lines());
  return text;
}

}  // namespace kiln::graph
