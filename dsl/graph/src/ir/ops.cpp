// Parses the compact specifications of tensor_ops.def into OpInfo once per process.
#include "kiln/graph/ops.h"

#include <algorithm>
#include <utility>

#include "kiln/dsl/op_spec.h"

namespace kiln::graph {
namespace {

AttrKind parse_kind(std::string_view kind) {
  static constexpr std::pair<std::string_view, AttrKind> kKinds[] = {
      {"int", AttrKind::kInt},         {"flag", AttrKind::kFlag},       {"float", AttrKind::kFloat},
      {"expr", AttrKind::kExpr},       {"shape", AttrKind::kShape},     {"ints", AttrKind::kInts},
      {"element", AttrKind::kElement}, {"literal", AttrKind::kLiteral}, {"data", AttrKind::kData},
      {"string", AttrKind::kString},   {"body", AttrKind::kBody},       {"kernel", AttrKind::kKernel},
  };
  for (const auto& [name, value] : kKinds) {
    if (name == kind) return value;
  }
  return AttrKind::kEnum;
}

std::vector<AttrInfo> parse_attrs(const char* spec) {
  std::vector<AttrInfo> out;
  for (dsl::AttrSpec& attr : dsl::parse_attr_specs(spec)) {
    out.push_back({std::move(attr.name), parse_kind(attr.kind), std::move(attr.values), std::move(attr.default_text)});
  }
  return out;
}

std::vector<OpInfo> build_table() {
  std::vector<OpInfo> table;
  using enum Family;
  auto add = [&](TensorOp op, const char* name, const char* operands, const char* results, const char* attrs,
                 Family family, uint32_t traits, const char* doc, const char* example) {
    table.push_back({op, name, dsl::parse_operands<OperandInfo>(operands), dsl::parse_operands<OperandInfo>(results),
                     parse_attrs(attrs), family, traits, doc, example});
  };
#define KILN_TENSOR_OP(id, ...) add(TensorOp::id, __VA_ARGS__);
#include "kiln/graph/tensor_ops.def"
#undef KILN_TENSOR_OP
  return table;
}

}  // namespace

std::span<const OpInfo> op_table() {
  // Never destroyed: other threads may ask for it while exit() destroys statics.
  static const std::vector<OpInfo>& table = *new std::vector<OpInfo>(build_table());
  return table;
}

std::optional<TensorOp> parse_op(std::string_view name) {
  for (const OpInfo& op : op_table()) {
    if (op.name == name) return op.op;
  }
  return std::nullopt;
}

size_t attr_index(TensorOp op, std::string_view name) {
  const std::vector<AttrInfo>& attrs = info(op).attrs;
  const auto found = std::find_if(attrs.begin(), attrs.end(), [&](const AttrInfo& attr) { return attr.name == name; });
  return static_cast<size_t>(found - attrs.begin());
}

std::string_view to_string(Family family) {
  static constexpr std::string_view kNames[] = {"make", "elementwise", "view",     "cat",         "index",  "reduce",
                                                "scan", "order",       "contract", "convolution", "window", "resize",
                                                "norm", "optimiser",   "control",  "kernel"};
  return kNames[static_cast<size_t>(family)];
}

}  // namespace kiln::graph
