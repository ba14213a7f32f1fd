// What can be said of extents before a graph runs: expressions over dims with their ranges and divisibility.
#pragma once

#include <optional>
#include <span>

#include "kiln/graph/ir.h"

namespace kiln::graph {

// The dims' own bounds, or more exactly where the expression allows; saturates at ±2^62.
struct Interval {
  int64_t low;
  int64_t high;
};
Interval interval(std::span<const DimInfo> dims, const Expr& expr);

enum class Known : uint8_t { kYes, kNo, kUnknown };
// Whether they are equal, or a ≤ b, for all sizes in range (kYes), for none (kNo), or for some or as far as is known.
Known equal(std::span<const DimInfo> dims, const Expr& a, const Expr& b);
Known at_most(std::span<const DimInfo> dims, const Expr& a, const Expr& b);
// A number that divides the expression for all sizes: 1 at least; 0 of the expression 0.
int64_t known_divisor(std::span<const DimInfo> dims, const Expr& expr);
// total / part where it is an exact division of polynomials or by known divisors; else none.
std::optional<Expr> exact_quotient(std::span<const DimInfo> dims, const Expr& total, const Expr& part);
// An atom as an expression.
Expr atom_expr(const dsl::Atom& atom);
// The product of extents.
Expr element_count(std::span<const Expr> shape);
// ceil(a / b) for a ≥ 0 and b ≥ 1.
Expr ceil_div(const Expr& a, int64_t b);

}  // namespace kiln::graph
