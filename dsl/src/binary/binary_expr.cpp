// Expressions to the binary form and back.
#include "binary/binary_format.h"
#include "ir/kernel_limits.h"
#include "kiln/dsl/expr_binary.h"

namespace kiln::dsl {
namespace {

void check_size(const Expr& value) {
  if (value.terms().size() > kMaxTerms || tree_size(value, kMaxExprSize) == kMaxExprSize) {
    throw BadBytes{"an expression is too large"};
  }
  for (const Term& term : value.terms()) {
    if (term.atoms.size() > kMaxAtoms) throw BadBytes{"an expression is too large"};
  }
}

// How many there are of what expressions mention.
struct Counts {
  size_t constexprs, params;
};

Expr expr(const Json& value, Counts counts, int depth);

Expr atom(const Json& record, Counts counts, int depth) {
  const auto kind = static_cast<AtomKind>(as_uint(field(record, 0), "an atom", static_cast<uint64_t>(AtomKind::kLe)));
  if (kind == AtomKind::kConstexpr || kind == AtomKind::kParam) {
    const size_t count = kind == AtomKind::kParam ? counts.params : counts.constexprs;
    if (count == 0) throw BadBytes{"an expression mentions what is not there"};
    const auto index = static_cast<uint32_t>(as_uint(field(record, 1), "an index", count - 1));
    return kind == AtomKind::kParam ? Expr::param_ref(index) : Expr::constexpr_ref(index);
  }
  Expr a = expr(field(record, 1), counts, depth + 1);
  Expr out = Expr::apply(kind, std::move(a), expr(field(record, 2), counts, depth + 1));
  check_size(out);
  return out;
}

// Built up by the operations of Expr, so that it is canonical whatever the bytes say.
Expr expr(const Json& value, Counts counts, int depth) {
  if (depth >= kMaxExprDepth) throw BadBytes{"an expression is nested too deeply"};
  if (!value.is_array()) return Expr(as_int(value, "an expression"));
  Expr sum;
  for (const Json& term : as_array(value, "an expression", kMaxTerms)) {
    as_array(term, "a term", kMaxAtoms + 1);
    Expr product(as_int(field(term, 0), "a coefficient"));
    for (size_t i = 1; i < term.size(); ++i) {
      const Expr factor = atom(term[i], counts, depth);
      if (product.terms().size() * factor.terms().size() > kMaxTerms) throw BadBytes{"an expression is too large"};
      product = product * factor;
      check_size(product);
    }
    sum = sum + product;
    check_size(sum);
  }
  return sum;
}

}  // namespace

Expr decode_expr(const Json& value, const Kernel& kernel) {
  return expr(value, {kernel.constexprs.size(), kernel.params.size()}, 0);
}

void write_expr(const Expr& expr, CborWriter& out) {
  if (auto constant = expr.as_constant()) return out.integer(*constant);
  out.array(expr.terms().size());
  for (const Term& term : expr.terms()) {
    out.array(1 + term.atoms.size());
    out.integer(term.coefficient);
    for (const Atom& atom : term.atoms) {
      out.array(atom.args ? 3 : 2);
      out.integer(static_cast<int64_t>(atom.kind));
      if (atom.args) {
        write_expr(atom.args->first, out);
        write_expr(atom.args->second, out);
      } else {
        out.integer(atom.index);
      }
    }
  }
}

Result<Expr> read_expr(std::span<const std::byte> item, size_t constexprs, size_t params) {
  try {
    return expr(from_bytes(item, "an expression"), {constexprs, params}, 0);
  } catch (const BadBytes& bad) {
    return invalid_argument(bad.what);
  }
}

}  // namespace kiln::dsl
