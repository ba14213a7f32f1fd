#include "kiln/dsl/expr_json.h"

#include <algorithm>
#include <iterator>

namespace kiln::dsl {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 32;
constexpr size_t kMaxTerms = 256;  // of one sum; a builder's expressions have a handful
constexpr size_t kMaxAtoms = 32;   // of one product

constexpr AtomKind kOperations[] = {AtomKind::kDiv, AtomKind::kRem, AtomKind::kMin, AtomKind::kMax,
                                    AtomKind::kEq,  AtomKind::kNe,  AtomKind::kLt,  AtomKind::kLe};

json atom_to_json(const Atom& atom) {
  if (atom.kind == AtomKind::kConstexpr) return json::array({"c", atom.index});
  if (atom.kind == AtomKind::kParam) return json::array({"p", atom.index});
  return json::array({to_string(atom.kind), expr_to_json(atom.args->first), expr_to_json(atom.args->second)});
}

Error malformed(const char* what) { return invalid_argument(std::string("malformed expression: ") + what); }

Result<Expr> parse_expr(const json& value, int depth);

Result<Expr> parse_atom(const json& value, int depth) {
  if (!value.is_array() || value.size() < 2 || !value[0].is_string()) return malformed("an atom is no [name, …]");
  const std::string& name = value[0].get_ref<const std::string&>();
  if (name == "c" || name == "p") {
    if (value.size() != 2 || !value[1].is_number_integer()) return malformed("an index is no integer");
    const int64_t index = value[1].get<int64_t>();
    if (index < 0 || index > UINT16_MAX) return malformed("an index is out of range");
    return name == "c" ? Expr::constexpr_ref(static_cast<uint32_t>(index))
                       : Expr::param_ref(static_cast<uint32_t>(index));
  }
  const auto* kind = std::find_if(std::begin(kOperations), std::end(kOperations),
                                  [&](AtomKind candidate) { return name == to_string(candidate); });
  if (kind == std::end(kOperations) || value.size() != 3) return malformed("an unknown operation");
  auto a = parse_expr(value[1], depth + 1);
  if (!a) return a;
  auto b = parse_expr(value[2], depth + 1);
  if (!b) return b;
  return Expr::apply(*kind, std::move(*a), std::move(*b));
}

Result<Expr> parse_expr(const json& value, int depth) {
  if (depth > kMaxDepth) return malformed("nested too deeply");
  if (!value.is_array() || value.size() > kMaxTerms) return malformed("a sum is no array, or too long");
  Expr sum;
  for (const json& term : value) {
    if (!term.is_array() || term.size() != 2 || !term[0].is_number_integer() || !term[1].is_array() ||
        term[1].size() > kMaxAtoms) {
      return malformed("a term is no [coefficient, [atom, …]]");
    }
    Expr product(term[0].get<int64_t>());
    for (const json& atom : term[1]) {
      auto factor = parse_atom(atom, depth);
      if (!factor) return factor;
      // An atom folded to a number or a sum would make the form other than what it says; still a valid expression.
      product = product * *factor;
      if (product.terms().size() > kMaxTerms) return malformed("a product is too long");
    }
    sum = sum + product;
  }
  return sum;
}

}  // namespace

json expr_to_json(const Expr& expr) {
  json sum = json::array();
  for (const Term& term : expr.terms()) {
    json atoms = json::array();
    for (const Atom& atom : term.atoms) atoms.push_back(atom_to_json(atom));
    sum.push_back(json::array({term.coefficient, std::move(atoms)}));
  }
  return sum;
}

Result<Expr> expr_from_json(const json& value) { return parse_expr(value, 0); }

}  // namespace kiln::dsl
