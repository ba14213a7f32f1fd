#include "kiln/dsl/op_spec.h"

#include <algorithm>

namespace kiln::dsl {
namespace {

std::vector<std::string> split_spec(std::string_view text, char separator) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

std::vector<OperandSpec> parse_operand_specs(std::string_view spec) {
  std::vector<OperandSpec> out;
  for (std::string& name : split_spec(spec, ' ')) {
    const bool optional = name.back() == '?', variadic = name.back() == '*';
    if (optional || variadic) name.pop_back();
    out.push_back({std::move(name), optional, variadic});
  }
  return out;
}

std::vector<AttrSpec> parse_attr_specs(std::string_view spec) {
  std::vector<AttrSpec> out;
  for (std::string& item : split_spec(spec, ' ')) {
    AttrSpec attr;
    if (const size_t equals = item.find('='); equals != std::string::npos) {
      attr.default_text = item.substr(equals + 1);
      item.resize(equals);
    }
    const size_t colon = item.find(':');
    attr.name = item.substr(0, colon);
    attr.kind = item.substr(colon + 1);
    if (const size_t open = attr.kind.find('('); open != std::string::npos) {
      attr.values = split_spec(std::string_view(attr.kind).substr(open + 1, attr.kind.size() - open - 2), '|');
      attr.kind.resize(open);
    }
    out.push_back(std::move(attr));
  }
  return out;
}

}  // namespace kiln::dsl
