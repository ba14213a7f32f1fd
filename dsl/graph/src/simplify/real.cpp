// Rules of real numbers: sums and products as polynomials over what is neither, in which equal terms meet and cancel.
//
//   (2·s)·c - (2·c)·s        2·s·c - 2·c·s = 0
//   sin(x)·sin(x) + cos(x)·cos(x)        sin² + cos² = 1 for each x
//
// A polynomial is bounded: what would have more terms or factors is a factor by itself. It takes the node's place where
// it is a number, or a single value, negated or times a number; else nodes stay as they were written.
#include <algorithm>
#include <cmath>
#include <map>

#include "simplify/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;
using Monomial = std::vector<ValueId>;  // factors, sorted
using Polynomial = std::map<Monomial, double>;

constexpr size_t kMaxTerms = 8;
constexpr size_t kMaxFactors = 6;
constexpr int kMaxLevels = 8;

bool fits(const Polynomial& p) {
  return p.size() <= kMaxTerms && std::ranges::all_of(p, [](const auto& term) {
           return term.first.size() <= kMaxFactors && std::isfinite(term.second);
         });
}

void add_to(Polynomial& sum, const Polynomial& other, double factor) {
  for (const auto& [monomial, coefficient] : other) {
    double& here = sum[monomial];
    here += coefficient * factor;
    if (here == 0) sum.erase(monomial);
  }
}

std::optional<Polynomial> product(const Polynomial& a, const Polynomial& b) {
  Polynomial out;
  if (a.size() * b.size() > kMaxTerms) return std::nullopt;
  for (const auto& [x, p] : a) {
    for (const auto& [y, q] : b) {
      Monomial both;
      std::ranges::merge(x, y, std::back_inserter(both));
      add_to(out, {{both, p * q}}, 1);
    }
  }
  return fits(out) ? std::optional(out) : std::nullopt;
}

class Expander {
 public:
  explicit Expander(const Simplifier& simplifier) : simplifier_(simplifier) {}

  Polynomial of(ValueId value, int level = 0) const {
    if (auto number = simplifier_.float_splat(value); number && std::isfinite(*number)) {
      return *number == 0 ? Polynomial() : Polynomial{{{}, *number}};
    }
    const Node* node = level < kMaxLevels ? simplifier_.node(value) : nullptr;
    if (node != nullptr && node->operand_count >= 1 && node->operand_count <= 2) {
      if (auto out =
              of_op(node->op,
                    {simplifier_.operand(*node, 0), node->operand_count > 1 ? simplifier_.operand(*node, 1) : kNoValue},
                    level))
        return *out;
    }
    return {{{value}, 1}};
  }

  std::optional<Polynomial> of_op(TensorOp op, std::pair<ValueId, ValueId> in, int level) const {
    switch (op) {
      case kAdd:
      case kSub: {
        Polynomial out = of(in.first, level + 1);
        add_to(out, of(in.second, level + 1), op == kAdd ? 1 : -1);
        cancel_squares(out);
        return fits(out) ? std::optional(out) : std::nullopt;
      }
      case kMul:
        return product(of(in.first, level + 1), of(in.second, level + 1));
      case kDiv: {
        const auto by = simplifier_.float_splat(in.second);
        if (!by || *by == 0 || !std::isfinite(*by)) return std::nullopt;
        Polynomial out;
        add_to(out, of(in.first, level + 1), 1 / *by);
        return out;
      }
      case kNeg: {
        Polynomial out;
        add_to(out, of(in.first, level + 1), -1);
        return out;
      }
      default:
        return std::nullopt;
    }
  }

 private:
  // c·m·sin(x)² + c·m·cos(x)² is c·m.
  void cancel_squares(Polynomial& p) const {
    for (auto it = p.begin(); it != p.end();) {
      const auto found = partner(p, it->first);
      if (!found || found->second.coefficient != it->second) {
        ++it;
        continue;
      }
      const double coefficient = it->second;
      const Monomial rest = found->second.rest;
      p.erase(found->first);
      p.erase(it);
      add_to(p, {{rest, coefficient}}, 1);
      it = p.begin();
    }
  }

  struct Partner {
    Monomial rest;
    double coefficient;
  };
  // Of a term with sin(x)² the one that has cos(x)² in its place.
  std::optional<std::pair<Monomial, Partner>> partner(const Polynomial& p, const Monomial& monomial) const {
    for (size_t i = 0; i + 1 < monomial.size(); ++i) {
      if (monomial[i] != monomial[i + 1]) continue;
      const Node* sine = simplifier_.node(monomial[i], kSin);
      if (sine == nullptr) continue;
      Monomial rest = monomial;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i), rest.begin() + static_cast<std::ptrdiff_t>(i) + 2);
      for (const auto& [other, coefficient] : p) {
        for (const ValueId factor : other) {
          const Node* cosine = simplifier_.node(factor, kCos);
          if (cosine == nullptr || simplifier_.operand(*cosine, 0) != simplifier_.operand(*sine, 0)) continue;
          Monomial expected = rest;
          expected.insert(std::ranges::upper_bound(expected, factor), 2, factor);
          if (expected == other) return std::pair(other, Partner{rest, coefficient});
        }
      }
    }
    return std::nullopt;
  }

  const Simplifier& simplifier_;
};

ValueId polynomial(const Site& s) {
  if (!s.is_float()) return kNoValue;
  const Expander expander(s.simplifier);
  auto expanded = expander.of_op(s.op, {s.in(0), s.operands.size() > 1 ? s.in(1) : kNoValue}, 0);
  if (!expanded || expanded->size() > 1) return kNoValue;
  if (expanded->empty()) return s.simplifier.full_number(s.type, 0);
  const auto& [monomial, coefficient] = *expanded->begin();
  if (monomial.empty()) return s.simplifier.full_number(s.type, coefficient);
  if (monomial.size() > 1) return kNoValue;
  if (coefficient == 1) return monomial[0];
  // Already as short as it gets: x·c, -x.
  const bool is_short =
      s.op == kNeg || ((s.op == kMul || s.op == kDiv) && (s.simplifier.splat(s.in(0)) || s.simplifier.splat(s.in(1))) &&
                       (s.in(0) == monomial[0] || s.in(1) == monomial[0]));
  if (is_short) return kNoValue;
  if (coefficient == -1) return s.simplifier.make(kNeg, {monomial[0]});
  return s.simplifier.make(kMul, {monomial[0], s.simplifier.full_number(s.type, coefficient)});
}

ValueId over_itself(const Site& s) {
  return s.is_float() && s.in(0) == s.in(1) ? s.simplifier.full_number(s.type, 1) : kNoValue;
}

ValueId nothing_over(const Site& s) { return s.is_float() && s.simplifier.is_zero(s.in(0)) ? s.in(0) : kNoValue; }

// The inverse of its operand's function.
ValueId inverse(const Site& s, TensorOp of) {
  const Node* inner = s.simplifier.node(s.in(0), of);
  return inner ? s.simplifier.operand(*inner, 0) : kNoValue;
}
ValueId log_of_exp(const Site& s) { return inverse(s, s.op == kLog ? kExp : kExp2); }
ValueId exp_of_log(const Site& s) { return inverse(s, s.op == kExp ? kLog : kLog2); }

ValueId squared_root(const Site& s) {
  const Node* root = s.in(0) == s.in(1) ? s.simplifier.node(s.in(0), kSqrt) : nullptr;
  return root ? s.simplifier.operand(*root, 0) : kNoValue;
}

// Along axes of 0 of a product: nothing is summed but 0.
ValueId product_with_nothing(const Site& s) {
  return s.simplifier.is_zero(s.in(0)) || s.simplifier.is_zero(s.in(1)) ? s.simplifier.full(s.type, 0) : kNoValue;
}

}  // namespace

std::vector<RuleRow> real_rules() {
  using enum Algebra;
  return {
      {{"squared_root", "sqrt(x) * sqrt(x)", "x", kReal, ""}, {kMul}, squared_root},
      {{"polynomial", "x*y - y*x", "0", kReal,
        "sums and products whose terms meet: a number, x, -x or x·number is left; sin(x)² + cos(x)² is 1"},
       {kAdd, kSub, kMul, kDiv, kNeg},
       polynomial},
      {{"over_itself", "x / x", "1", kReal, ""}, {kDiv}, over_itself},
      {{"nothing_over", "0 / x", "0", kReal, ""}, {kDiv}, nothing_over},
      {{"log_of_exp", "log(exp(x))", "x", kReal, "log2 and exp2 too"}, {kLog, kLog2}, log_of_exp},
      {{"exp_of_log", "exp(log(x))", "x", kReal, "exp2 and log2 too"}, {kExp, kExp2}, exp_of_log},
      {{"product_with_nothing", "dot(0, x)", "0", kReal, ""}, {kDot}, product_with_nothing},
  };
}

}  // namespace kiln::graph
