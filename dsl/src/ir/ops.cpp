// Parses the compact specifications of ops.def into OpInfo once per process.
#include "kiln/dsl/ops.h"

#include <sstream>

namespace kiln::dsl {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::stringstream stream(text);
  for (std::string item; std::getline(stream, item, separator);) {
    if (!item.empty()) out.push_back(item);
  }
  return out;
}

std::vector<OperandInfo> parse_operands(const std::string& spec) {
  std::vector<OperandInfo> out;
  for (std::string name : split(spec, ' ')) {
    OperandInfo operand;
    operand.optional = name.back() == '?';
    operand.variadic = name.back() == '*';
    if (operand.optional || operand.variadic) name.pop_back();
    operand.name = name;
    out.push_back(operand);
  }
  return out;
}

AttrKind parse_kind(const std::string& kind) {
  if (kind == "int") return AttrKind::kInt;
  if (kind == "flag") return AttrKind::kFlag;
  if (kind == "expr") return AttrKind::kExpr;
  if (kind == "shape") return AttrKind::kShape;
  if (kind == "element") return AttrKind::kElement;
  if (kind == "literal") return AttrKind::kLiteral;
  if (kind == "string") return AttrKind::kString;
  return AttrKind::kEnum;
}

std::vector<AttrInfo> parse_attrs(const std::string& spec) {
  std::vector<AttrInfo> out;
  for (std::string item : split(spec, ' ')) {
    std::optional<int64_t> default_value;
    if (const size_t equals = item.find('='); equals != std::string::npos) {
      default_value = std::stoll(item.substr(equals + 1));
      item.resize(equals);
    }
    const size_t colon = item.find(':');
    AttrInfo attr{item.substr(0, colon), parse_kind(item.substr(colon + 1)), {}, default_value};
    if (attr.kind == AttrKind::kEnum) {
      const size_t open = item.find('(');
      attr.values = split(item.substr(open + 1, item.size() - open - 2), '|');
    }
    out.push_back(std::move(attr));
  }
  return out;
}

std::vector<OpInfo> build_table() {
  std::vector<OpInfo> table;
  using enum OpFamily;
  auto add = [&](OpCode code, const char* name, const char* operands, const char* attrs, OpFamily family,
                 uint32_t traits, const char* doc, const char* example) {
    table.push_back({code, name, parse_operands(operands), parse_attrs(attrs), family, traits, doc, example});
  };
#define KILN_OP(id, ...) add(OpCode::id, __VA_ARGS__);
#include "kiln/dsl/ops.def"
#undef KILN_OP
  return table;
}

}  // namespace

std::span<const OpInfo> op_table() {
  // Never destroyed: other threads may ask for it while exit() destroys statics.
  static const std::vector<OpInfo>& table = *new std::vector<OpInfo>(build_table());
  return table;
}

const OpInfo& info(OpCode code) { return op_table()[static_cast<size_t>(code)]; }

std::optional<OpCode> parse_op(std::string_view name) {
  for (const OpInfo& op : op_table()) {
    if (op.name == name) return op.code;
  }
  return std::nullopt;
}

}  // namespace kiln::dsl
