// The compact specifications of op tables, ops.def and those of other levels, as data.
//
//   operands     "x weight? xs*": names; ? may be left out, * any number of
//   attributes   "axes:ints keep:flag=0 kind:enum(sum|max)": name, kind and the default, where it may be left out
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::dsl {

struct OperandSpec {
  std::string name;
  bool optional = false;
  bool variadic = false;
};
std::vector<OperandSpec> parse_operand_specs(std::string_view spec);

struct AttrSpec {
  std::string name;
  std::string kind;                 // of an enum "enum"
  std::vector<std::string> values;  // of an enum
  std::optional<std::string> default_text;
};
std::vector<AttrSpec> parse_attr_specs(std::string_view spec);

// As a level's own structures of a name and two flags.
template <class Operand>
std::vector<Operand> parse_operands(std::string_view spec) {
  std::vector<Operand> out;
  for (OperandSpec& each : parse_operand_specs(spec)) {
    out.push_back({std::move(each.name), each.optional, each.variadic});
  }
  return out;
}

}  // namespace kiln::dsl
