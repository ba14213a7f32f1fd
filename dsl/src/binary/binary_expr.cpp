// Expressions back from the binary form.
#include "binary/binary_format.h"
#include "ir/kernel_limits.h"

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

Expr expr(const Json& value, const Kernel& kernel, int depth);

Expr atom(const Json& record, const Kernel& kernel, int depth) {
  const auto kind = static_cast<AtomKind>(as_uint(field(record, 0), "an atom", static_cast<uint64_t>(AtomKind::kLe)));
  if (kind == AtomKind::kConstexpr || kind == AtomKind::kParam) {
    const size_t count = kind == AtomKind::kParam ? kernel.params.size() : kernel.constexprs.size();
    if (count == 0) throw BadBytes{"an expression mentions what the kernel lacks"};
    const auto index = static_cast<uint32_t>(as_uint(field(record, 1), "an index", count - 1));
    return kind == AtomKind::kParam ? Expr::param_ref(index) : Expr::constexpr_ref(index);
  }
  Expr a = expr(field(record, 1), kernel, depth + 1);
  Expr out = Expr::apply(kind, std::move(a), expr(field(record, 2), kernel, depth + 1));
  check_size(out);
  return out;
}

// Built up by the operations of Expr, so that it is canonical whatever the bytes say.
Expr expr(const Json& value, const Kernel& kernel, int depth) {
  if (depth >= kMaxExprDepth) throw BadBytes{"an expression is nested too deeply"};
  if (!value.is_array()) return Expr(as_int(value, "an expression"));
  Expr sum;
  for (const Json& term : as_array(value, "an expression", kMaxTerms)) {
    as_array(term, "a term", kMaxAtoms + 1);
    Expr product(as_int(field(term, 0), "a coefficient"));
    for (size_t i = 1; i < term.size(); ++i) {
      const Expr factor = atom(term[i], kernel, depth);
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

Expr decode_expr(const Json& value, const Kernel& kernel) { return expr(value, kernel, 0); }

}  // namespace kiln::dsl
