#include "draw/short_attrs.h"

#include <algorithm>
#include <optional>

#include "text/attr_text.h"

namespace kiln::graph {
namespace {

constexpr size_t kMost = 56;     // bytes
constexpr size_t kElements = 4;  // of a constant

// What all entries of a list are where it changes nothing, of lists that have such a number.
std::optional<int64_t> neutral(const std::string& name) {
  if (name == "strides" || name == "dilation" || name == "step") return 1;
  if (name == "low" || name == "high" || name == "inner") return 0;
  return std::nullopt;
}

bool says_nothing(const AttrInfo& attr, const Attr& value) {
  if (attr.kind == AttrKind::kElement || attr.name == "shape") return true;  // the result's type says it
  const auto none = neutral(attr.name);
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    return std::ranges::all_of(*ints, [&](int64_t entry) { return entry == none; });
  }
  if (const auto* exprs = std::get_if<std::vector<Expr>>(&value)) {
    return std::ranges::all_of(*exprs, [&](const Expr& entry) { return none && entry == Expr(*none); });
  }
  return false;
}

// [:, 64:128, ::2] of start, end and step, as NumPy has it.
std::string slice_text(const Graph& graph, const Node& node, const std::vector<Expr>& extents,
                       const PrintNames& names) {
  const AttrList& attrs = graph.attrs(node);
  const auto &start = shape_attr(attrs, 0), &end = shape_attr(attrs, 1);
  const auto& step = ints_attr(attrs, 2);
  std::string out = "[";
  for (size_t axis = 0; axis < start.size(); ++axis) {
    if (axis > 0) out += ", ";
    if (start[axis] != Expr(0)) out += dsl::to_string(start[axis], names.exprs());
    out += ':';
    if (end[axis] != extents[axis]) out += dsl::to_string(end[axis], names.exprs());
    if (step[axis] != 1) out += ":" + std::to_string(step[axis]);
  }
  return out + ']';
}

std::string cut(std::string text) {
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // whole characters
  return text.substr(0, end) + "…";
}

}  // namespace

std::string short_attrs(const Graph& graph, const Node& node, const std::vector<Expr>& extents,
                        const PrintNames& names) {
  if (node.op == TensorOp::kSlice) return cut(slice_text(graph, node, extents, names));
  const std::vector<AttrInfo>& table = info(node.op).attrs;
  const AttrList& attrs = graph.attrs(node);
  std::string out;
  for (size_t i = 0; i < attrs.size(); ++i) {
    const auto usual = default_attr(table[i]);
    if ((usual && same({*usual}, {attrs[i]})) || says_nothing(table[i], attrs[i])) continue;
    out += out.empty() ? "" : ", ";
    if (table[i].kind == AttrKind::kFlag) {
      out += (int_attr(attrs, i) != 0 ? "" : "not ") + table[i].name;
      continue;
    }
    const bool is_word = table[i].kind == AttrKind::kEnum || table[i].kind == AttrKind::kKernel ||
                         table[i].name == "body" || table[i].name == "order" || table[i].name == "data";
    out += (is_word ? "" : table[i].name + " = ") + attr_text(node.op, attrs, i, names, kElements);
  }
  return cut(out);
}

}  // namespace kiln::graph
