// Bounds by interval arithmetic over the polynomial, divisors by gcd: quick, and right where they say yes or no.
// What intervals of a term by itself are too wide for is put in other words first: c*div(a, c) is a less a remainder,
// min(a, b) is a or b.
#include "kiln/graph/extents.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/expr_limits.h"

namespace kiln::graph {
namespace {

using Wide = __int128;
constexpr int64_t kLimit = kMaxWeight;

int64_t clamp(Wide value) { return static_cast<int64_t>(std::clamp<Wide>(value, -kLimit, kLimit)); }

Interval add(Interval a, Interval b) { return {clamp(Wide{a.low} + b.low), clamp(Wide{a.high} + b.high)}; }

Interval multiply(Interval a, Interval b) {
  const auto product = [](int64_t x, int64_t y) { return clamp(Wide{x} * y); };
  const int64_t all[] = {product(a.low, b.low), product(a.low, b.high), product(a.high, b.low),
                         product(a.high, b.high)};
  return {*std::min_element(std::begin(all), std::end(all)), *std::max_element(std::begin(all), std::end(all))};
}

// Truncating, as the atom; x/0 = 0.
Interval divide(Interval a, Interval b) {
  if (b.low <= 0) {  // by 0, or by numbers of both signs: no farther from 0 than the dividend
    const int64_t most = std::max(std::abs(a.low), std::abs(a.high));
    return {a.low >= 0 && b.high >= 0 && b.low >= 0 ? 0 : -most, most};
  }
  const int64_t all[] = {a.low / b.low, a.low / b.high, a.high / b.low, a.high / b.high};
  return {*std::min_element(std::begin(all), std::end(all)), *std::max_element(std::begin(all), std::end(all))};
}

// The dividend's sign; x rem 0 = x.
Interval remainder(Interval a, Interval b) {
  const int64_t most_of_a = std::max(std::abs(a.low), std::abs(a.high));
  const int64_t most_of_b = std::max(std::abs(b.low), std::abs(b.high));
  const bool may_be_zero = b.low <= 0 && b.high >= 0;
  const int64_t most = may_be_zero ? most_of_a : std::min(most_of_a, most_of_b - 1);
  return {a.low >= 0 ? 0 : -most, a.high <= 0 ? 0 : most};
}

Interval meet(Interval a, Interval b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }

// How often a bound looks at an expression in other words: each time may double the work, and again for the atoms
// inside. `work` counts atoms down over all of that; when it is used up, each atom is looked at once more and no other
// words are tried.
constexpr int kMostRewrites = 6;
struct Search {
  std::span<const DimInfo> dims;
  int work = 2048;
};
Interval bound(Search& search, const Expr& expr, int rewrites);

Interval of_atom(Search& search, const dsl::Atom& atom) {
  const std::span<const DimInfo> dims = search.dims;
  --search.work;
  using enum dsl::AtomKind;
  if (atom.kind == kConstexpr && atom.index < dims.size()) {
    const DimInfo& dim = dims[atom.index];
    const int64_t first = (dim.low + dim.multiple - 1) / dim.multiple * dim.multiple;
    return {first, std::max(first, dim.high / dim.multiple * dim.multiple)};
  }
  if (!atom.args) return {-kLimit, kLimit};
  const Interval a = bound(search, atom.args->first, kMostRewrites);
  const Interval b = bound(search, atom.args->second, kMostRewrites);
  switch (atom.kind) {
    case kDiv:
      return divide(a, b);
    case kRem:
      return remainder(a, b);
    case kMin:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case kMax:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    default:
      return {0, 1};  // comparisons
  }
}

int64_t divisor_of_atom(std::span<const DimInfo> dims, const dsl::Atom& atom) {
  using enum dsl::AtomKind;
  if (atom.kind == kConstexpr) return atom.index < dims.size() ? dims[atom.index].multiple : 1;
  if (!atom.args) return 1;
  const auto& [a, b] = *atom.args;
  if (atom.kind == kMin || atom.kind == kMax) return std::gcd(known_divisor(dims, a), known_divisor(dims, b));
  if (atom.kind == kRem) return std::max<int64_t>(1, std::gcd(known_divisor(dims, a), known_divisor(dims, b)));
  const auto by = b.as_constant();
  if (atom.kind != kDiv || !by || *by <= 0) return 1;
  const int64_t of_a = known_divisor(dims, a);
  return of_a % *by == 0 ? of_a / *by : 1;
}

Expr product_of(int64_t coefficient, std::span<const dsl::Atom> atoms) {
  Expr out(coefficient);
  for (const dsl::Atom& atom : atoms) out = out * atom_expr(atom);
  return out;
}

// A term without the atoms and the factor of another; none where it has not all of them.
std::optional<Expr> divide_term(const dsl::Term& term, const dsl::Term& by) {
  if (by.coefficient == 0 || term.coefficient == std::numeric_limits<int64_t>::min()) return std::nullopt;
  if (term.coefficient % by.coefficient != 0) return std::nullopt;
  std::vector<dsl::Atom> left = term.atoms;
  for (const dsl::Atom& atom : by.atoms) {
    const auto found = std::find(left.begin(), left.end(), atom);
    if (found == left.end()) return std::nullopt;
    left.erase(found);
  }
  return product_of(term.coefficient / by.coefficient, left);
}

Interval sum_of_terms(Search& search, const Expr& expr) {
  Interval sum{0, 0};
  for (const dsl::Term& term : expr.terms()) {
    Interval product{clamp(term.coefficient), clamp(term.coefficient)};
    for (const dsl::Atom& atom : term.atoms) product = multiply(product, of_atom(search, atom));
    sum = add(sum, product);
  }
  return sum;
}

// One atom of one term, and the rest of the term.
struct Part {
  const dsl::Term& term;
  const dsl::Atom& atom;
  Expr others;  // the factors beside it, without the coefficient
};

// The expression with the atom of that term replaced by another expression, times a factor.
Expr replaced(const Expr& expr, const Part& part, const Expr& by, int64_t factor) {
  return expr + part.others * (Expr(factor) * by - Expr(part.term.coefficient) * atom_expr(part.atom));
}

// c·div(a, c) is a less a remainder of 0 … c-1, which is 0 where c divides a.
std::optional<Interval> as_remainder(Search& search, const Expr& expr, const Part& part, int rewrites) {
  const auto& [a, by] = *part.atom.args;
  const auto c = by.as_constant();
  if (!c || *c < 2 || part.term.coefficient % *c != 0) return std::nullopt;
  const Interval others = bound(search, part.others, rewrites);
  if (others.low < 0 || bound(search, a, rewrites).low < 0) return std::nullopt;
  const int64_t factor = part.term.coefficient / *c;
  if (!multiplies(weight(a), weight(Expr(factor)))) return std::nullopt;
  Interval less{0, 0};
  if (known_divisor(search.dims, a) % *c != 0) {
    less = multiply(multiply({-(*c - 1), 0}, {factor, factor}), others);
    less = {std::min<int64_t>(less.low, 0), std::max<int64_t>(less.high, 0)};
  }
  return add(bound(search, replaced(expr, part, a, factor), rewrites), less);
}

// min(a, b) is a or b, and at most both; max(a, b) at least both.
std::optional<Interval> as_either(Search& search, const Expr& expr, const Part& part, int rewrites) {
  const auto& [a, b] = *part.atom.args;
  const int64_t factor = part.term.coefficient;
  if (!multiplies(weight(a) + weight(b), weight(Expr(factor)))) return std::nullopt;
  const Interval x = bound(search, replaced(expr, part, a, factor), rewrites);
  const Interval y = bound(search, replaced(expr, part, b, factor), rewrites);
  Interval out{std::min(x.low, y.low), std::max(x.high, y.high)};
  if (bound(search, part.others, rewrites).low < 0) return out;
  if ((part.atom.kind == dsl::AtomKind::kMin) == (factor > 0)) {
    out.high = std::min(x.high, y.high);
  } else {
    out.low = std::max(x.low, y.low);
  }
  return out;
}

// By atoms that several terms have: a*b - a + b - 1 is a*(b - 1) + (b - 1).
constexpr int kGroupCost = 2;
Interval grouped(Search& search, const Expr& expr, Interval known, int rewrites) {
  std::vector<dsl::Atom> tried;
  for (const dsl::Term& term : expr.terms()) {
    for (const dsl::Atom& atom : term.atoms) {
      if (tried.size() == 4 || std::find(tried.begin(), tried.end(), atom) != tried.end()) continue;
      tried.push_back(atom);
      Expr with, without;
      for (const dsl::Term& each : expr.terms()) {
        std::vector<dsl::Atom> left = each.atoms;
        const auto found = std::find(left.begin(), left.end(), atom);
        const bool has = found != left.end();
        if (has) left.erase(found);
        (has ? with : without) = (has ? with : without) + product_of(each.coefficient, left);
      }
      if (with.terms().size() < 2) continue;
      const Interval product = multiply(of_atom(search, atom), bound(search, with, rewrites));
      known = meet(known, add(product, bound(search, without, rewrites)));
    }
  }
  return known;
}

// The expression without an atom that all its terms have, times it.
std::optional<Interval> factored(Search& search, const Expr& expr, int rewrites) {
  for (const dsl::Atom& atom : expr.terms().front().atoms) {
    Expr rest;
    bool common = true;
    for (const dsl::Term& term : expr.terms()) {
      std::vector<dsl::Atom> left = term.atoms;
      const auto found = std::find(left.begin(), left.end(), atom);
      common = common && found != left.end();
      if (!common) break;
      left.erase(found);
      rest = rest + product_of(term.coefficient, left);
    }
    if (common) return multiply(of_atom(search, atom), bound(search, rest, rewrites));
  }
  return std::nullopt;
}

Interval bound(Search& search, const Expr& expr, int rewrites) {
  Interval out = sum_of_terms(search, expr);
  if (rewrites <= 0 || search.work <= 0 || expr.terms().size() < 2) return out;
  if (const auto other = factored(search, expr, rewrites)) return meet(out, *other);
  for (const dsl::Term& term : expr.terms()) {
    for (size_t i = 0; i < term.atoms.size(); ++i) {
      const dsl::AtomKind kind = term.atoms[i].kind;
      const bool divides = kind == dsl::AtomKind::kDiv;
      if (!divides && kind != dsl::AtomKind::kMin && kind != dsl::AtomKind::kMax) continue;
      std::vector<dsl::Atom> others = term.atoms;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      const Part part{term, term.atoms[i], product_of(1, others)};
      const auto other =
          divides ? as_remainder(search, expr, part, rewrites - 1) : as_either(search, expr, part, rewrites - 1);
      if (other) return meet(out, *other);
    }
  }
  return rewrites > kGroupCost ? grouped(search, expr, out, rewrites - kGroupCost) : out;
}

constexpr size_t kMostTerms = 1024;  // of a product that is computed to know more

// A positive multiple of the expression without the quotients that are exact.
Expr cleared(std::span<const DimInfo> dims, const Expr& expr) {
  constexpr int kMostRounds = 8;
  Expr out = expr;
  for (int round = 0; round < kMostRounds; ++round) {
    std::optional<dsl::Atom> exact;
    for (const dsl::Term& term : out.terms()) {
      for (const dsl::Atom& atom : term.atoms) {
        if (exact || atom.kind != dsl::AtomKind::kDiv) continue;
        const auto c = atom.args->second.as_constant();
        if (c && *c >= 2 && known_divisor(dims, atom.args->first) % *c == 0) exact = atom;
      }
    }
    if (!exact) return out;
    const auto& [dividend, divisor] = *exact->args;
    if (!multiplies(weight(out), weight(dividend) + weight(divisor))) return out;
    if (out.terms().size() * dividend.terms().size() > kMostTerms) return out;
    Expr next;
    for (const dsl::Term& term : out.terms()) {
      std::vector<dsl::Atom> left = term.atoms;
      const auto found = std::find(left.begin(), left.end(), *exact);
      const bool has = found != left.end();
      if (has) left.erase(found);
      next = next + product_of(term.coefficient, left) * (has ? dividend : divisor);
    }
    out = next;
  }
  return out;
}

}  // namespace

Expr atom_expr(const dsl::Atom& atom) {
  if (atom.kind == dsl::AtomKind::kConstexpr) return Expr::constexpr_ref(atom.index);
  if (atom.kind == dsl::AtomKind::kParam) return Expr::param_ref(atom.index);
  return Expr::apply(atom.kind, atom.args->first, atom.args->second);
}

Interval interval(std::span<const DimInfo> dims, const Expr& expr) {
  if (auto constant = expr.as_constant()) return {clamp(*constant), clamp(*constant)};
  Search search{dims};
  return bound(search, expr, kMostRewrites);
}

Known equal(std::span<const DimInfo> dims, const Expr& a, const Expr& b) {
  const auto x = a.as_constant(), y = b.as_constant();
  if (x && y) return *x == *y ? Known::kYes : Known::kNo;
  if (a == b) return Known::kYes;
  const Interval range = interval(dims, cleared(dims, a - b));
  if (range.low == 0 && range.high == 0) return Known::kYes;
  return range.low > 0 || range.high < 0 ? Known::kNo : Known::kUnknown;
}

Known at_most(std::span<const DimInfo> dims, const Expr& a, const Expr& b) {
  const auto x = a.as_constant(), y = b.as_constant();
  if (x && y) return *x <= *y ? Known::kYes : Known::kNo;
  const Interval range = interval(dims, cleared(dims, b - a));
  if (range.low >= 0) return Known::kYes;
  return range.high < 0 ? Known::kNo : Known::kUnknown;
}

int64_t known_divisor(std::span<const DimInfo> dims, const Expr& expr) {
  int64_t out = 0;
  for (const dsl::Term& term : expr.terms()) {
    Wide product = term.coefficient < 0 ? -Wide{term.coefficient} : Wide{term.coefficient};
    for (const dsl::Atom& atom : term.atoms) {
      const int64_t factor = divisor_of_atom(dims, atom);
      if (product * factor <= kLimit) product *= factor;  // else a smaller divisor is right too
    }
    out = std::gcd(out, clamp(product));
  }
  return out;
}

std::optional<Expr> exact_quotient(std::span<const DimInfo> dims, const Expr& total, const Expr& part) {
  constexpr int kMaxSteps = 64;
  if (weight(total) >= kLimit || weight(part) >= kLimit) return std::nullopt;
  if (part.terms().empty()) return std::nullopt;
  // Polynomial division: the order of terms need not be one of monomials, the check at the end decides.
  const dsl::Term& lead = part.terms().back();
  Expr quotient, rest = total;
  for (int step = 0; step < kMaxSteps && !rest.terms().empty(); ++step) {
    std::optional<Expr> next;
    for (size_t i = rest.terms().size(); i-- > 0 && !next;) next = divide_term(rest.terms()[i], lead);
    if (!next) break;
    quotient = quotient + *next;
    rest = rest - *next * part;
    if (rest.terms().size() > kMostTerms) return std::nullopt;
    if (weight(rest) >= kLimit || weight(quotient) >= kLimit) return std::nullopt;
  }
  // Arithmetic of Exprs wraps: what is too large to be sure of is no quotient.
  if (rest.terms().empty() && multiplies(weight(quotient), weight(part))) return quotient;
  const auto by = part.as_constant();
  if (by && *by > 0 && known_divisor(dims, total) % *by == 0) return Expr::apply(dsl::AtomKind::kDiv, total, part);
  return std::nullopt;
}

Expr element_count(std::span<const Expr> shape) {
  Expr out(1);
  for (const Expr& extent : shape) out = out * extent;
  return out;
}

Expr ceil_div(const Expr& a, int64_t b) {
  if (b == 1) return a;
  // Where b divides all but the constant, so that 2*n over 2 is n and (2*n - 1) over 2 too.
  Expr whole;
  int64_t rest = 0;
  bool exact = true;
  for (const dsl::Term& term : a.terms()) {
    if (term.atoms.empty()) {
      rest = term.coefficient;
      continue;
    }
    exact = exact && term.coefficient % b == 0;
    Expr part(term.coefficient / b);
    for (const dsl::Atom& atom : term.atoms) part = part * atom_expr(atom);
    whole = whole + part;
  }
  if (exact) return whole + Expr(rest / b + (rest % b > 0 ? 1 : 0));
  return Expr::apply(dsl::AtomKind::kDiv, a + Expr(b - 1), Expr(b));
}

}  // namespace kiln::graph
