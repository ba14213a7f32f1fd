#include "trace/lines.h"

#include <regex>

namespace kiln::graph {
namespace {

std::string join(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

std::string list_text(const Graph& graph, const std::vector<Expr>& list) {
  std::vector<std::string> parts;
  for (const Expr& each : list) parts.push_back(dsl::to_string(each, graph.expr_names()));
  return "[" + join(parts) + "]";
}

std::string short_float(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace

std::string attr_text(const Graph& graph, const AttrInfo& info, const Attr& attr) {
  if (info.kind == AttrKind::kEnum) return info.values[static_cast<size_t>(std::get<int64_t>(attr))];
  if (info.kind == AttrKind::kBody) return "@" + graph.bodies[static_cast<size_t>(std::get<int64_t>(attr))].name;
  if (info.kind == AttrKind::kKernel) return "@" + graph.kernels[static_cast<size_t>(std::get<int64_t>(attr))].name;
  if (const auto* value = std::get_if<int64_t>(&attr)) return std::to_string(*value);
  if (const auto* value = std::get_if<double>(&attr)) return short_float(*value);
  if (const auto* value = std::get_if<Expr>(&attr)) return dsl::to_string(*value, graph.expr_names());
  if (const auto* value = std::get_if<std::vector<Expr>>(&attr)) return list_text(graph, *value);
  if (const auto* value = std::get_if<ElementType>(&attr)) return std::string(dsl::info(*value).name);
  if (const auto* value = std::get_if<Literal>(&attr)) return "0x" + std::to_string(value->bits);
  if (const auto* value = std::get_if<std::string>(&attr)) return *value;
  std::vector<std::string> parts;
  if (const auto* value = std::get_if<std::vector<int64_t>>(&attr)) {
    for (const int64_t each : *value) parts.push_back(std::to_string(each));
  } else {
    for (const uint64_t each : std::get<std::vector<uint64_t>>(attr)) parts.push_back(std::to_string(each));
  }
  return "[" + join(parts) + "]";
}

std::string node_line(const Graph& graph, const Body& body, const Node& node) {
  const OpInfo& op = info(node.op);
  std::vector<std::string> operands, results, attrs;
  for (const ValueId operand : body.operands_of(node)) {
    operands.push_back(operand == kNoValue ? "_" : to_string(graph.type(body, operand), graph.expr_names()));
  }
  for (uint32_t i = 0; i < node.result_count; ++i) {
    results.push_back(to_string(graph.type(body, node.first_result + i), graph.expr_names()));
  }
  const AttrList& list = graph.attrs(node);
  for (size_t i = 0; i < list.size(); ++i) {
    // The value of a `full` is a number of its type.
    const bool is_value = op.attrs[i].kind == AttrKind::kLiteral;
    const std::string text =
        is_value ? short_float(dsl::double_from_bits(element_attr(list, 0), std::get<Literal>(list[i]).bits))
                 : attr_text(graph, op.attrs[i], list[i]);
    attrs.push_back(op.attrs[i].name + "=" + text);
  }
  std::string out = op.name;
  if (!operands.empty()) out += " " + join(operands);
  if (!attrs.empty()) out += " {" + join(attrs) + "}";
  return out + " -> " + join(results);
}

std::vector<std::string> node_lines(const Graph& graph, const Body& body) {
  std::vector<std::string> out;
  for (const Node& node : body.nodes) out.push_back(node_line(graph, body, node));
  return out;
}

std::vector<std::string> node_lines(const GraphDef& def) {
  if (!def.ir()) return {error_text(def)};
  return node_lines(*def.ir(), def.ir()->main());
}

std::vector<std::string> output_types(const GraphDef& def) {
  if (!def.ir()) return {error_text(def)};
  const Graph& graph = *def.ir();
  std::vector<std::string> out;
  for (const Output& output : graph.main().outputs) {
    out.push_back(to_string(graph.type(graph.main(), output.value), graph.expr_names()));
  }
  return out;
}

std::string error_text(const GraphDef& def) {
  if (def.ir()) return "";
  return std::regex_replace(def.ir().error().message, std::regex("[^ \n]*/([^/ \n]*:[0-9]+:[0-9]+: )"), "$1");
}

}  // namespace kiln::graph
