// Parses the compact specifications of ops.def into OpInfo once per process.
#include "kiln/dsl/ops.h"

#include "kiln/dsl/op_spec.h"

namespace kiln::dsl {
namespace {

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

std::vector<AttrInfo> parse_attrs(const char* spec) {
  std::vector<AttrInfo> out;
  for (AttrSpec& attr : parse_attr_specs(spec)) {
    std::optional<int64_t> default_value;
    if (attr.default_text) default_value = std::stoll(*attr.default_text);
    out.push_back({std::move(attr.name), parse_kind(attr.kind), std::move(attr.values), default_value});
  }
  return out;
}

std::vector<OpInfo> build_table() {
  std::vector<OpInfo> table;
  using enum OpFamily;
  auto add = [&](OpCode code, const char* name, const char* operands, const char* attrs, OpFamily family,
                 uint32_t traits, const char* doc, const char* example) {
    table.push_back(
        {code, name, parse_operands<OperandInfo>(operands), parse_attrs(attrs), family, traits, doc, example});
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
