// Integer expressions over a kernel's constexprs and scalar parameters: shapes, attributes, grid extents.
//
// An Expr is a polynomial with integer coefficients over *atoms*: a constexpr, a scalar parameter, or an operation
// that is not polynomial (div, rem, min, max, comparisons) applied to two Exprs. The form is canonical: terms and atoms
// are sorted, zero terms are dropped, constants are folded; so two Exprs built differently compare equal when they are
// equal as polynomials: BM*2 + BM == 3*BM. Copies share their terms, and a constant needs no memory of its own, for
// most Exprs are copies of constants.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::dsl {

class Expr;

enum class AtomKind : uint8_t { kConstexpr, kParam, kDiv, kRem, kMin, kMax, kEq, kNe, kLt, kLe };

struct Atom {
  AtomKind kind;
  uint32_t index = 0;  // kConstexpr: into Kernel::constexprs; kParam: into Kernel::params
  std::shared_ptr<const std::pair<Expr, Expr>> args;  // all others: the two operands
};
std::strong_ordering operator<=>(const Atom& a, const Atom& b);
bool operator==(const Atom& a, const Atom& b);

struct Term {
  int64_t coefficient;
  std::vector<Atom> atoms;  // sorted; empty for the constant term
  bool operator==(const Term&) const = default;
};

// What atoms stand for when an Expr is evaluated.
struct Bindings {
  std::vector<std::optional<int64_t>> constexprs;
  std::vector<std::optional<int64_t>> params;
};

class Expr {
 public:
  Expr() = default;        // zero
  Expr(int64_t constant);  // NOLINT(google-explicit-constructor)
  static Expr constexpr_ref(uint32_t index);
  static Expr param_ref(uint32_t index);
  // The non-polynomial operations. div truncates, rem takes the dividend's sign, x/0 = 0 and x rem 0 = x as in the
  // op table; comparisons give 1 or 0.
  static Expr apply(AtomKind kind, Expr a, Expr b);

  std::optional<int64_t> as_constant() const { return terms_ ? std::nullopt : std::optional(constant_.coefficient); }
  // Sorted by atoms; borrowed from this Expr.
  std::span<const Term> terms() const {
    if (terms_) return *terms_;
    return {&constant_, constant_.coefficient == 0 ? size_t{0} : size_t{1}};
  }

  // Replaces every bound atom; what is unbound stays symbolic.
  Expr substitute(const Bindings& bindings) const;
  // Error when an atom is unbound or the value overflows int64. `name_of` is for that message.
  Result<int64_t> evaluate(const Bindings& bindings) const;

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  friend bool operator==(const Expr& a, const Expr& b);
  friend std::strong_ordering operator<=>(const Expr& a, const Expr& b);

 private:
  // Of terms in canonical form.
  explicit Expr(std::vector<Term> terms);
  static Expr atom(Atom atom);

  Term constant_{0, {}};                            // the value where there are no terms
  std::shared_ptr<const std::vector<Term>> terms_;  // absent: a constant
};

// Nodes of the expression as a tree, or `limit` where it has as many or more. Products share their factors' atoms, so
// that the tree may be exponentially larger than the memory or the text it came from.
size_t tree_size(const Expr& expr, size_t limit);

// Names for printing; index → name.
struct ExprNames {
  std::function<std::string(uint32_t)> constexpr_name;
  std::function<std::string(uint32_t)> param_name;
};
// Parseable text: "BM*BK + 2", "div(M + BM - 1, BM)".
std::string to_string(const Expr& expr, const ExprNames& names);

// The name of an atom's operation as in text: "div", "rem", "min", "max", "eq", "ne", "lt", "le".
const char* to_string(AtomKind kind);

}  // namespace kiln::dsl
