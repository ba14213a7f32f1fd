// Bodies of other graphs: their dims, types, attributes and bodies get the numbers that these have here.
#include <algorithm>
#include <unordered_map>

#include "ir/builder_index.h"
#include "ir/renumber.h"
#include "kiln/dsl/text.h"

namespace kiln::graph {
namespace {

class Importer {
 public:
  Importer(GraphBuilder& builder, const Graph& from) : builder_(builder), from_(from) {}

  Result<void> match_dims() {
    for (const DimInfo& dim : from_.dims) {
      auto id = builder_.add_dim(dim);
      if (!id) return id.error();
      same_dims_ = same_dims_ && *id == renamed_.size();
      renamed_.push_back(*id);
    }
    return {};
  }
  Expr expr(const Expr& expr) const { return same_dims_ ? expr : renumber(expr, renamed_); }
  TensorType type(const TensorType& type) const {
    TensorType out{type.element, {}};
    for (const Expr& extent : type.shape) out.shape.push_back(expr(extent));
    return out;
  }
  Result<AttrList> attrs(const Node& node);
  Result<BodyId> body(BodyId id);
  Result<uint32_t> kernel(uint32_t id);
  // Whether what is here is what the other graph's would become: numbers beside each other.
  bool same_kernel(uint32_t here, uint32_t there) const;
  bool same_body(BodyId here, BodyId there) const;
  bool same_attrs(const Node& here, const Node& there) const;
  bool same_types(const std::vector<TensorType>& here, const std::vector<TensorType>& there) const;
  Location loc(const Location& loc) {
    if (loc.file == 0 || loc.file > from_.files.size()) return loc;
    return {builder_.add_file(from_.files[loc.file - 1]), loc.line, loc.column};
  }
  // The nodes of a body, into the open one.
  Result<std::vector<ValueId>> nodes(const Body& body, std::span<const ValueId> inputs);

 private:
  GraphBuilder& builder_;
  const Graph& from_;
  std::vector<uint32_t> renamed_;
  bool same_dims_ = true;  // they have the numbers that they have there
  std::unordered_map<BodyId, BodyId> bodies_;
  std::unordered_map<uint32_t, uint32_t> kernels_;
};

Result<AttrList> Importer::attrs(const Node& node) {
  AttrList out = from_.attrs(node);
  const std::vector<AttrInfo>& table = info(node.op).attrs;
  for (size_t i = 0; i < out.size(); ++i) {
    if (table[i].kind == AttrKind::kExpr) {
      out[i] = expr(expr_attr(out, i));
    } else if (table[i].kind == AttrKind::kShape) {
      std::vector<Expr> shape;
      for (const Expr& extent : shape_attr(out, i)) shape.push_back(expr(extent));
      out[i] = std::move(shape);
    } else if (table[i].kind == AttrKind::kBody || table[i].kind == AttrKind::kKernel) {
      const auto id = static_cast<uint32_t>(int_attr(out, i));
      auto here = table[i].kind == AttrKind::kBody ? body(id) : kernel(id);
      if (!here) return here.error();
      out[i] = int64_t{*here};
    }
  }
  return out;
}

Result<std::vector<ValueId>> Importer::nodes(const Body& body, std::span<const ValueId> inputs) {
  std::vector<ValueId> here(body.values.size(), kNoValue);
  for (size_t i = 0; i < body.inputs.size(); ++i) here[body.inputs[i].value] = inputs[i];
  std::vector<ValueId> operands;
  for (const Node& node : body.nodes) {
    operands.clear();
    for (const ValueId operand : body.operands_of(node))
      operands.push_back(operand == kNoValue ? kNoValue : here[operand]);
    auto list = attrs(node);
    if (!list) return list.error();
    auto results = builder_.add(node.op, operands, std::move(*list), loc(node.loc));
    if (!results) return results.error();
    for (uint32_t i = 0; i < node.result_count; ++i) {
      here[node.first_result + i] = results->first + i;
    }
  }
  std::vector<ValueId> outputs;
  for (const Output& output : body.outputs) outputs.push_back(here[output.value]);
  return outputs;
}

Result<BodyId> Importer::body(BodyId id) {
  if (auto known = bodies_.find(id); known != bodies_.end()) return known->second;
  const Body& body = from_.bodies[id];
  builder_.open_body(body.name);
  std::vector<ValueId> inputs;
  for (const Input& input : body.inputs) {
    auto value = builder_.add_input(input.name, type(from_.type(body, input.value)), loc(input.loc));
    if (!value) return value.error();
    inputs.push_back(*value);
  }
  auto outputs = nodes(body, inputs);
  for (size_t i = 0; outputs && i < outputs->size(); ++i) {
    if (auto added = builder_.add_output(body.outputs[i].name, (*outputs)[i]); !added) return added.error();
  }
  const BodyId here = builder_.close_body();
  if (!outputs) return outputs.error();
  bodies_.emplace(id, here);
  return here;
}

bool Importer::same_types(const std::vector<TensorType>& here, const std::vector<TensorType>& there) const {
  return std::ranges::equal(here, there, [&](const TensorType& a, const TensorType& b) { return a == type(b); });
}

bool Importer::same_attrs(const Node& here, const Node& there) const {
  const AttrList &a = builder_.graph().attrs(here), &b = from_.attrs(there);
  const std::vector<AttrInfo>& table = info(here.op).attrs;
  for (size_t i = 0; i < table.size(); ++i) {
    switch (table[i].kind) {
      case AttrKind::kExpr:
        if (!(expr_attr(a, i) == expr(expr_attr(b, i)))) return false;
        break;
      case AttrKind::kShape:
        if (!std::ranges::equal(shape_attr(a, i), shape_attr(b, i),
                                [&](const Expr& x, const Expr& y) { return x == expr(y); })) {
          return false;
        }
        break;
      case AttrKind::kBody:
        if (!same_body(static_cast<BodyId>(int_attr(a, i)), static_cast<BodyId>(int_attr(b, i)))) return false;
        break;
      case AttrKind::kKernel:
        if (!same_kernel(static_cast<uint32_t>(int_attr(a, i)), static_cast<uint32_t>(int_attr(b, i)))) return false;
        break;
      default:
        if (!same({a[i]}, {b[i]})) return false;
    }
  }
  return true;
}

bool Importer::same_body(BodyId here, BodyId there) const {
  const Body &a = builder_.graph().bodies[here], &b = from_.bodies[there];
  if (a.inputs.size() != b.inputs.size() || a.outputs.size() != b.outputs.size() || a.nodes.size() != b.nodes.size())
    return false;
  std::vector<ValueId> now(b.values.size(), kNoValue);  // number there → number here
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    if (!(builder_.graph().type(a, a.inputs[i].value) == type(from_.type(b, b.inputs[i].value)))) return false;
    now[b.inputs[i].value] = a.inputs[i].value;
  }
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    const Node &x = a.nodes[i], &y = b.nodes[i];
    const auto same_value = [&](ValueId p, ValueId q) { return p == (q == kNoValue ? kNoValue : now[q]); };
    if (x.op != y.op || x.result_count != y.result_count || !same_attrs(x, y)) return false;
    if (!std::ranges::equal(a.operands_of(x), b.operands_of(y), same_value)) return false;
    for (uint32_t k = 0; k < x.result_count; ++k) now[y.first_result + k] = x.first_result + k;
  }
  return std::ranges::equal(a.outputs, b.outputs,
                            [&](const Output& x, const Output& y) { return x.value == now[y.value]; });
}

bool Importer::same_kernel(uint32_t here, uint32_t there) const {
  const TileKernel &a = builder_.graph().kernels[here], &b = from_.kernels[there];
  const auto same_argument = [&](const TileKernel::Argument& x, const TileKernel::Argument& y) {
    return x.kind == y.kind && x.index == y.index && x.scalar == expr(y.scalar);
  };
  if (!same_types(a.operands, b.operands) || !same_types(a.results, b.results)) return false;
  if (!std::ranges::equal(a.arguments, b.arguments, same_argument)) return false;
  if (a.codes != b.codes || (a.gradient == kNone) != (b.gradient == kNone)) return false;
  if (a.gradient != kNone && !same_body(a.gradient, b.gradient)) return false;
  return dsl::print(a.kernel) == dsl::print(b.kernel);
}

Result<uint32_t> Importer::kernel(uint32_t id) {
  if (auto known = kernels_.find(id); known != kernels_.end()) return known->second;
  TileKernel kernel = from_.kernels[id];
  for (uint32_t i = 0; i < builder_.graph().kernels.size(); ++i) {
    if (builder_.graph().kernels[i].name != kernel.name) continue;
    if (same_kernel(i, id)) return kernels_[id] = i;
    return invalid_argument("the kernel " + kernel.name + " is there twice, and they differ");
  }
  for (TileKernel::Argument& argument : kernel.arguments) argument.scalar = expr(argument.scalar);
  for (TensorType& operand : kernel.operands) operand = type(operand);
  for (TensorType& result : kernel.results) result = type(result);
  if (kernel.gradient != kNone) {
    auto gradient = body(kernel.gradient);
    if (!gradient) return gradient.error();
    kernel.gradient = *gradient;
  }
  auto here = builder_.add_kernel(std::move(kernel));
  if (here) kernels_.emplace(id, *here);
  return here;
}

}  // namespace

Result<BodyId> GraphBuilder::import_body(const Graph& from, BodyId body) {
  Importer importer(*this, from);
  if (auto dims = importer.match_dims(); !dims) return dims.error();
  return importer.body(body);
}

Result<std::vector<ValueId>> GraphBuilder::inline_body(const Graph& from, BodyId body,
                                                       std::span<const ValueId> inputs) {
  Importer importer(*this, from);
  if (auto dims = importer.match_dims(); !dims) return dims.error();
  if (inputs.size() != from.bodies[body].inputs.size()) return internal_error("inline_body: another number of inputs");
  return importer.nodes(from.bodies[body], inputs);
}

}  // namespace kiln::graph
