#include "ir/renumber.h"

namespace kiln::graph {
namespace {

Expr renumber_atom(const dsl::Atom& atom, std::span<const uint32_t> dims) {
  if (atom.kind == dsl::AtomKind::kConstexpr) return Expr::constexpr_ref(dims[atom.index]);
  if (atom.kind == dsl::AtomKind::kParam) return Expr::param_ref(atom.index);
  return Expr::apply(atom.kind, renumber(atom.args->first, dims), renumber(atom.args->second, dims));
}

void mark(const Expr& expr, std::vector<bool>& used) {
  if (expr.as_constant()) return;
  for (const dsl::Term& term : expr.terms()) {
    for (const dsl::Atom& atom : term.atoms) {
      if (atom.kind == dsl::AtomKind::kConstexpr && atom.index < used.size()) used[atom.index] = true;
      if (!atom.args) continue;
      mark(atom.args->first, used);
      mark(atom.args->second, used);
    }
  }
}

}  // namespace

std::vector<bool> used_dims(const Expr& expr, size_t count) {
  std::vector<bool> used(count, false);
  mark(expr, used);
  return used;
}

Expr renumber(const Expr& expr, std::span<const uint32_t> dims) {
  if (expr.as_constant()) return expr;
  Expr sum;
  for (const dsl::Term& term : expr.terms()) {
    Expr product(term.coefficient);
    for (const dsl::Atom& factor : term.atoms) product = product * renumber_atom(factor, dims);
    sum = sum + product;
  }
  return sum;
}

void number_inputs_first(Body& body) {
  bool in_order = true;
  for (size_t i = 0; i < body.inputs.size(); ++i) in_order = in_order && body.inputs[i].value == i;
  if (in_order) return;
  std::vector<ValueId> now(body.values.size(), kNoValue);
  std::vector<Value> values;
  values.reserve(body.values.size());
  const auto place = [&](ValueId old) {
    now[old] = static_cast<ValueId>(values.size());
    values.push_back(body.values[old]);
  };
  for (const Input& input : body.inputs) place(input.value);
  for (ValueId old = 0; old < body.values.size(); ++old) {
    if (now[old] == kNoValue) place(old);
  }
  body.values = std::move(values);
  for (Input& input : body.inputs) input.value = now[input.value];
  for (Output& output : body.outputs) output.value = now[output.value];
  for (Node& node : body.nodes) node.first_result = now[node.first_result];
  for (ValueId& operand : body.operands) operand = operand == kNoValue ? kNoValue : now[operand];
  std::map<ValueId, std::string> names;
  for (auto& [value, name] : body.names) names.emplace(now[value], std::move(name));
  body.names = std::move(names);
}

}  // namespace kiln::graph
