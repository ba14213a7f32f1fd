#include "text/attr_text.h"

#include <bit>
#include <span>

#include "kiln/dsl/text_format.h"

namespace kiln::graph {
namespace {

template <class Items, class Text>
std::string list(const Items& items, Text text) {
  std::string out = "[";
  for (const auto& item : items) {
    if (out.size() > 1) out += ", ";
    out += text(item);
  }
  return out + ']';
}

std::string number_text(const AttrInfo& expected, int64_t number, const PrintNames& names) {
  if (expected.kind == AttrKind::kBody) return '@' + names.body(number);
  if (expected.kind == AttrKind::kKernel) return '@' + names.kernel(number);
  if (expected.kind != AttrKind::kEnum) return std::to_string(number);
  const auto index = static_cast<uint64_t>(number);
  return index < expected.values.size() ? expected.values[index] : "?";
}

struct AttrText {
  const AttrInfo& expected;
  const PrintNames& names;
  ElementType element;  // of literals
  size_t elements;      // of data that are written

  std::string operator()(int64_t number) const { return number_text(expected, number, names); }
  std::string operator()(double value) const {
    return dsl::literal_text(ElementType::kF64, std::bit_cast<uint64_t>(value));
  }
  std::string operator()(const Expr& expr) const { return dsl::to_string(expr, names.exprs()); }
  std::string operator()(const std::vector<Expr>& shape) const { return list(shape, *this); }
  std::string operator()(const std::vector<int64_t>& ints) const {
    return list(ints, [](int64_t value) { return std::to_string(value); });
  }
  std::string operator()(ElementType type) const { return std::string(dsl::info(type).name); }
  std::string operator()(Literal literal) const { return dsl::literal_text(element, literal.bits); }
  std::string operator()(const std::vector<uint64_t>& data) const {
    const auto text = [this](uint64_t bits) { return dsl::literal_text(element, bits); };
    if (data.size() <= elements) return list(data, text);
    std::string out = list(std::span(data).first(elements), text);
    out.back() = ',';
    return out + " … " + std::to_string(data.size()) + " elements]";
  }
  std::string operator()(const std::string& text) const { return dsl::in_quotes(text); }
};

}  // namespace

std::string attr_text(TensorOp op, const AttrList& attrs, size_t index, const PrintNames& names, size_t elements) {
  ElementType element = ElementType::kF32;
  for (const Attr& attr : attrs) {
    if (const ElementType* type = std::get_if<ElementType>(&attr)) element = *type;
  }
  return std::visit(AttrText{info(op).attrs[index], names, element, elements}, attrs[index]);
}

std::string attrs_text(TensorOp op, const AttrList& attrs, const PrintNames& names, size_t elements) {
  const std::vector<AttrInfo>& table = info(op).attrs;
  std::string out;
  for (size_t i = 0; i < attrs.size() && i < table.size(); ++i) {
    const auto usual = default_attr(table[i]);
    if (usual && same({*usual}, {attrs[i]})) continue;
    out += (out.empty() ? "" : ", ") + table[i].name + " = " + attr_text(op, attrs, i, names, elements);
  }
  return out;
}

}  // namespace kiln::graph
