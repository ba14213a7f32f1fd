#include "kiln/dsl/expr.h"

#include <algorithm>
#include <limits>

namespace kiln::dsl {
namespace {

// Arithmetic wraps here; evaluate() checks for overflow on its own.
int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

std::strong_ordering compare_atoms(const std::vector<Atom>& a, const std::vector<Atom>& b) {
  return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
}

// Sorts terms, merges equal monomials and drops zeros.
void normalise(std::vector<Term>& terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return compare_atoms(a.atoms, b.atoms) < 0; });
  std::vector<Term> merged;
  for (Term& term : terms) {
    if (!merged.empty() && merged.back().atoms == term.atoms) {
      merged.back().coefficient = wrap_add(merged.back().coefficient, term.coefficient);
    } else {
      merged.push_back(std::move(term));
    }
  }
  std::erase_if(merged, [](const Term& term) { return term.coefficient == 0; });
  terms = std::move(merged);
}

int64_t fold(AtomKind kind, int64_t a, int64_t b) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  switch (kind) {
    case AtomKind::kDiv:
      return b == 0 ? 0 : (a == kMin && b == -1 ? kMin : a / b);
    case AtomKind::kRem:
      return b == 0 ? a : (b == -1 ? 0 : a % b);
    case AtomKind::kMin:
      return std::min(a, b);
    case AtomKind::kMax:
      return std::max(a, b);
    case AtomKind::kEq:
      return a == b;
    case AtomKind::kNe:
      return a != b;
    case AtomKind::kLt:
      return a < b;
    case AtomKind::kLe:
      return a <= b;
    default:
      return 0;
  }
}

std::optional<int64_t> lookup(const std::vector<std::optional<int64_t>>& values, uint32_t index) {
  return index < values.size() ? values[index] : std::nullopt;
}

}  // namespace

std::strong_ordering operator<=>(const Atom& a, const Atom& b) {
  if (auto order = a.kind <=> b.kind; order != 0) return order;
  if (auto order = a.index <=> b.index; order != 0) return order;
  if (a.args == b.args) return std::strong_ordering::equal;
  if (auto order = a.args->first <=> b.args->first; order != 0) return order;
  return a.args->second <=> b.args->second;
}

bool operator==(const Atom& a, const Atom& b) { return (a <=> b) == 0; }

std::strong_ordering operator<=>(const Expr& a, const Expr& b) {
  const auto x = a.terms(), y = b.terms();
  if (x.data() == y.data()) return x.size() <=> y.size();
  return std::lexicographical_compare_three_way(x.begin(), x.end(), y.begin(), y.end(),
                                                [](const Term& p, const Term& q) {
                                                  if (auto order = compare_atoms(p.atoms, q.atoms); order != 0)
                                                    return order;
                                                  return p.coefficient <=> q.coefficient;
                                                });
}

bool operator==(const Expr& a, const Expr& b) {
  return a.terms_ == b.terms_ ? a.constant_ == b.constant_ : std::ranges::equal(a.terms(), b.terms());
}

Expr::Expr(int64_t constant) : constant_{constant, {}} {}

Expr::Expr(std::vector<Term> terms) {
  if (terms.empty()) return;
  if (terms.size() == 1 && terms[0].atoms.empty()) {
    constant_.coefficient = terms[0].coefficient;
  } else {
    terms_ = std::make_shared<const std::vector<Term>>(std::move(terms));
  }
}

Expr Expr::atom(Atom atom) {
  std::vector<Term> terms(1, Term{1, {}});
  terms[0].atoms.push_back(std::move(atom));
  return Expr(std::move(terms));
}

Expr Expr::constexpr_ref(uint32_t index) { return atom({AtomKind::kConstexpr, index, nullptr}); }

Expr Expr::param_ref(uint32_t index) { return atom({AtomKind::kParam, index, nullptr}); }

Expr Expr::apply(AtomKind kind, Expr a, Expr b) {
  auto x = a.as_constant(), y = b.as_constant();
  if (x && y) return Expr(fold(kind, *x, *y));
  if (kind == AtomKind::kDiv && y == 1) return a;
  return atom({kind, 0, std::make_shared<const std::pair<Expr, Expr>>(std::move(a), std::move(b))});
}

Expr operator+(const Expr& a, const Expr& b) {
  const auto x = a.as_constant(), y = b.as_constant();
  if (x && y) return Expr(wrap_add(*x, *y));
  if (x == 0) return b;
  if (y == 0) return a;
  std::vector<Term> terms(a.terms().begin(), a.terms().end());
  terms.insert(terms.end(), b.terms().begin(), b.terms().end());
  normalise(terms);
  return Expr(std::move(terms));
}

Expr operator-(const Expr& a, const Expr& b) { return a + b * Expr(-1); }

Expr operator*(const Expr& a, const Expr& b) {
  const auto x = a.as_constant(), y = b.as_constant();
  if (x && y) return Expr(wrap_mul(*x, *y));
  if (x == 1) return b;
  if (y == 1) return a;
  std::vector<Term> terms;
  for (const Term& p : a.terms()) {
    for (const Term& q : b.terms()) {
      Term term{wrap_mul(p.coefficient, q.coefficient), p.atoms};
      term.atoms.insert(term.atoms.end(), q.atoms.begin(), q.atoms.end());
      std::sort(term.atoms.begin(), term.atoms.end());
      terms.push_back(std::move(term));
    }
  }
  normalise(terms);
  return Expr(std::move(terms));
}

Expr Expr::substitute(const Bindings& bindings) const {
  Expr sum;
  for (const Term& term : terms()) {
    Expr product(term.coefficient);
    for (const Atom& atom : term.atoms) {
      Expr factor;
      if (atom.kind == AtomKind::kConstexpr) {
        auto value = lookup(bindings.constexprs, atom.index);
        factor = value ? Expr(*value) : Expr::constexpr_ref(atom.index);
      } else if (atom.kind == AtomKind::kParam) {
        auto value = lookup(bindings.params, atom.index);
        factor = value ? Expr(*value) : Expr::param_ref(atom.index);
      } else {
        factor = apply(atom.kind, atom.args->first.substitute(bindings), atom.args->second.substitute(bindings));
      }
      product = product * factor;
    }
    sum = sum + product;
  }
  return sum;
}

Result<int64_t> Expr::evaluate(const Bindings& bindings) const {
  int64_t sum = 0;
  for (const Term& term : terms()) {
    int64_t product = term.coefficient;
    for (const Atom& atom : term.atoms) {
      int64_t value = 0;
      if (atom.kind == AtomKind::kConstexpr || atom.kind == AtomKind::kParam) {
        const bool is_constexpr = atom.kind == AtomKind::kConstexpr;
        auto bound = lookup(is_constexpr ? bindings.constexprs : bindings.params, atom.index);
        if (!bound) {
          return invalid_argument((is_constexpr ? "constexpr #" : "parameter #") + std::to_string(atom.index) +
                                  " has no value");
        }
        value = *bound;
      } else {
        auto a = atom.args->first.evaluate(bindings);
        if (!a) return a.error();
        auto b = atom.args->second.evaluate(bindings);
        if (!b) return b.error();
        value = fold(atom.kind, *a, *b);
      }
      if (__builtin_mul_overflow(product, value, &product)) return invalid_argument("integer expression overflows");
    }
    if (__builtin_add_overflow(sum, product, &sum)) return invalid_argument("integer expression overflows");
  }
  return sum;
}

size_t tree_size(const Expr& expr, size_t limit) {
  size_t size = 0;
  for (const Term& term : expr.terms()) {
    ++size;
    for (const Atom& atom : term.atoms) {
      if (++size >= limit) return limit;
      if (!atom.args) continue;
      size += tree_size(atom.args->first, limit - size);
      if (size >= limit) return limit;
      size += tree_size(atom.args->second, limit - size);
    }
    if (size >= limit) return limit;
  }
  return size;
}

const char* to_string(AtomKind kind) {
  switch (kind) {
    case AtomKind::kDiv:
      return "div";
    case AtomKind::kRem:
      return "rem";
    case AtomKind::kMin:
      return "min";
    case AtomKind::kMax:
      return "max";
    case AtomKind::kEq:
      return "eq";
    case AtomKind::kNe:
      return "ne";
    case AtomKind::kLt:
      return "lt";
    case AtomKind::kLe:
      return "le";
    default:
      return "";
  }
}

std::string to_string(const Expr& expr, const ExprNames& names) {
  auto atom_text = [&](const Atom& atom) -> std::string {
    if (atom.kind == AtomKind::kConstexpr) return names.constexpr_name(atom.index);
    if (atom.kind == AtomKind::kParam) return names.param_name(atom.index);
    return std::string(to_string(atom.kind)) + "(" + to_string(atom.args->first, names) + ", " +
           to_string(atom.args->second, names) + ")";
  };
  if (expr.terms().empty()) return "0";
  std::string out;
  // The constant term sorts first; people write it last.
  std::vector<Term> terms(expr.terms().begin(), expr.terms().end());
  std::rotate(terms.begin(), terms.begin() + (terms[0].atoms.empty() ? 1 : 0), terms.end());
  for (const Term& term : terms) {
    const bool negative = term.coefficient < 0;
    if (!out.empty())
      out += negative ? " - " : " + ";
    else if (negative)
      out += "-";
    const uint64_t magnitude =
        negative ? -static_cast<uint64_t>(term.coefficient) : static_cast<uint64_t>(term.coefficient);
    std::string product = magnitude == 1 && !term.atoms.empty() ? "" : std::to_string(magnitude);
    for (const Atom& atom : term.atoms) product += (product.empty() ? "" : "*") + atom_text(atom);
    out += product;
  }
  return out;
}

}  // namespace kiln::dsl
