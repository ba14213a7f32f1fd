#include "index_space.h"

namespace kiln::planner {

using dsl::Atom;
using dsl::AtomKind;
using graph::atom_expr;

Expr of_term(const dsl::Term& term) {
  Expr out(term.coefficient);
  for (const Atom& atom : term.atoms) out = out * atom_expr(atom);
  return out;
}

Expr IndexSpace::add_axis(const Expr& extent) {
  const graph::Interval bounds = interval(extent);
  dims_.push_back({.name = "axis", .low = 0, .high = std::max<int64_t>(0, bounds.high - 1), .multiple = 1});
  extents_.push_back(extent);
  return axis(extents_.size() - 1);
}

void IndexSpace::merge(size_t outer, size_t inner) {
  extents_[inner] = extents_[outer] * extents_[inner];
  dims_[first_axis_ + inner].high = std::max<int64_t>(0, interval(extents_[inner]).high - 1);
}

std::optional<size_t> IndexSpace::axis_of(const Atom& atom) const {
  if (atom.kind != AtomKind::kConstexpr || atom.index < first_axis_) return std::nullopt;
  return atom.index - first_axis_;
}

bool IndexSpace::mentions(const Expr& expr, size_t axis) const {
  for (const dsl::Term& term : expr.terms()) {
    for (const Atom& atom : term.atoms) {
      if (axis_of(atom) == axis) return true;
      if (atom.args && (mentions(atom.args->first, axis) || mentions(atom.args->second, axis))) return true;
    }
  }
  return false;
}

namespace {

// a - b*div(a, b) as the remainder that it is, whose bounds are known.
Expr with_remainders(const Expr& expr) {
  for (const dsl::Term& term : expr.terms()) {
    for (const Atom& atom : term.atoms) {
      if (atom.kind != AtomKind::kDiv) continue;
      const Expr &a = atom.args->first, &b = atom.args->second;
      const auto number = b.as_constant();
      const int64_t times = number && term.coefficient % *number == 0 ? -term.coefficient / *number : 1;
      const Expr rest = expr - Expr(times) * (a - b * atom_expr(atom));
      if (times <= 0 || rest.terms().size() >= expr.terms().size()) continue;
      return with_remainders(rest) + Expr(times) * Expr::apply(AtomKind::kRem, a, b);
    }
  }
  return expr;
}

}  // namespace

graph::Interval IndexSpace::interval(const Expr& expr) const { return graph::interval(dims_, with_remainders(expr)); }

// At their ends all axes, and quotients of them, that only grow it. None where something may shrink it.
std::optional<Expr> IndexSpace::most(const Expr& expr) const {
  const Expr plain = with_remainders(expr);
  Expr out = plain;
  for (const dsl::Term& term : plain.terms()) {
    for (const Atom& atom : term.atoms) {
      if (atom.kind == AtomKind::kRem && term.atoms.size() == 1 && term.coefficient > 0) {
        out = out - of_term(term) + Expr(term.coefficient) * (atom.args->second - 1);
      }
      if (atom.kind != AtomKind::kDiv) continue;
      const auto above = most(atom.args->first);
      const auto count = above ? graph::exact_quotient(dims_, *above + 1, atom.args->second) : std::nullopt;
      if (!count || term.atoms.size() != 1 || term.coefficient < 0) continue;  // as an axis below
      out = out - of_term(term) + Expr(term.coefficient) * (*count - 1);
    }
  }
  for (size_t i = 0; i < extents_.size(); ++i) {
    if (!mentions(out, i)) continue;
    const auto part = linear_in(*this, out, i);
    if (!part || interval(part->coefficient).low < 0) return std::nullopt;
    out = part->rest + part->coefficient * (extents_[i] - 1);
  }
  return out;
}

bool IndexSpace::is_below(const Expr& a, const Expr& b) const {
  if (interval(a).low < 0) return false;
  if (interval(a).high < interval(b).low) return true;
  const auto above = most(a);
  return above && graph::at_most(dims_, *above, b - 1) == graph::Known::kYes;
}

Expr IndexSpace::floor_div(const Expr& a, const Expr& b) const {
  if (b == Expr(1)) return a;
  Expr quotient, rest;
  for (const dsl::Term& term : a.terms()) {
    const Expr each = of_term(term);
    if (const auto exact = graph::exact_quotient(dims_, each, b)) {
      quotient = quotient + *exact;
      continue;
    }
    // 15*i is 7*(2*i) + i.
    const int64_t by = b.as_constant().value_or(1), left = by > 1 ? (term.coefficient % by + by) % by : 0;
    const Expr remaining = left == 0 ? each : of_term({left, term.atoms});
    if (remaining != each) quotient = quotient + of_term({(term.coefficient - left) / by, term.atoms});
    rest = rest + remaining;
  }
  if (is_below(rest, b)) return quotient;
  if (interval(rest).low < 0) return Expr::apply(AtomKind::kDiv, a, b);
  return quotient + Expr::apply(AtomKind::kDiv, rest, b);
}

Expr IndexSpace::ravel(std::span<const Expr> coords, std::span<const Expr> shape) {
  Expr out;
  for (size_t i = 0; i < shape.size(); ++i) out = out * shape[i] + coords[i];
  return out;
}

Coords IndexSpace::unravel(const Expr& place, std::span<const Expr> shape) const {
  Coords out(shape.size());
  Expr rest = place;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == Expr(1)) continue;
    bool last = true;  // nothing but extents of 1 in front
    for (size_t j = 0; j < i; ++j) last = last && shape[j] == Expr(1);
    const Expr quotient = last ? Expr() : floor_div(rest, shape[i]);
    out[i] = last ? rest : rest - shape[i] * quotient;
    rest = quotient;
  }
  return out;
}

std::optional<LinearPart> linear_in(const IndexSpace& space, const Expr& expr, size_t axis) {
  LinearPart out;
  for (const dsl::Term& term : expr.terms()) {
    size_t times = 0;
    Expr others(term.coefficient);
    for (const Atom& atom : term.atoms) {
      if (space.axis_of(atom) == axis) {
        ++times;
        continue;
      }
      const Expr each = atom_expr(atom);
      if (space.mentions(each, axis)) return std::nullopt;
      others = others * each;
    }
    if (times > 1) return std::nullopt;
    (times == 1 ? out.coefficient : out.rest) = (times == 1 ? out.coefficient : out.rest) + others;
  }
  return out;
}

Expr replaced(const Expr& expr, const std::function<std::optional<Expr>(const Atom&)>& by) {
  if (expr.as_constant()) return expr;
  Expr out;
  for (const dsl::Term& term : expr.terms()) {
    Expr product(term.coefficient);
    for (const Atom& atom : term.atoms) {
      if (atom.args) {
        product = product * Expr::apply(atom.kind, replaced(atom.args->first, by), replaced(atom.args->second, by));
      } else {
        const auto other = by(atom);
        product = product * (other ? *other : atom_expr(atom));
      }
    }
    out = out + product;
  }
  return out;
}

}  // namespace kiln::planner
