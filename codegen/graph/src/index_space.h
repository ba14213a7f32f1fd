// Integer expressions over a graph's dims and the axes of a kernel's iteration space: where an element of one tensor
// lies in another.
//
// An axis is an atom like a dim, behind those of the graph, with values 0 … extent-1. Quotients and remainders that
// reshapes make disappear where bounds allow: with j below 4, (4*i + j) / 4 is i. A remainder is written as
// a - b*div(a, b), so that addresses made of both cancel to what they are without the reshape.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kiln/graph/extents.h"

namespace kiln::planner {

using dsl::Expr;
using Coords = std::vector<Expr>;

inline constexpr size_t kNoAxis = ~size_t{0};  // where there is one place

class IndexSpace {
 public:
  explicit IndexSpace(std::span<const graph::DimInfo> dims)
      : dims_(dims.begin(), dims.end()), first_axis_(dims.size()) {}

  // A new axis of values 0 … extent-1, as an expression.
  Expr add_axis(const Expr& extent);
  size_t dim_count() const { return first_axis_; }
  size_t axis_count() const { return extents_.size(); }
  const Expr& extent(size_t axis) const { return extents_[axis]; }
  // The axis that an atom is, if it is one.
  std::optional<size_t> axis_of(const dsl::Atom& atom) const;
  Expr axis(size_t number) const { return Expr::constexpr_ref(static_cast<uint32_t>(first_axis_ + number)); }
  // The inner axis becomes both: its extent is that of all pairs. The outer one is left without use.
  void merge(size_t outer, size_t inner);
  // Whether the expression mentions the axis, inside of divisions too.
  bool mentions(const Expr& expr, size_t axis) const;

  // Of a ≥ 0 and b ≥ 1.
  Expr floor_div(const Expr& a, const Expr& b) const;
  Expr modulo(const Expr& a, const Expr& b) const { return a - b * floor_div(a, b); }
  // Whether 0 ≤ a < b for all sizes and places.
  bool is_below(const Expr& a, const Expr& b) const;
  graph::Interval interval(const Expr& expr) const;

  // The place in row-major order, and back.
  static Expr ravel(std::span<const Expr> coords, std::span<const Expr> shape);
  Coords unravel(const Expr& place, std::span<const Expr> shape) const;

 private:
  std::optional<Expr> most(const Expr& expr) const;

  std::vector<graph::DimInfo> dims_;  // the graph's, then one an axis
  size_t first_axis_;
  std::vector<Expr> extents_;  // by axis
};

// coefficient·axis + rest, where the expression is linear in the axis.
struct LinearPart {
  Expr coefficient, rest;
};
std::optional<LinearPart> linear_in(const IndexSpace& space, const Expr& expr, size_t axis);

Expr of_term(const dsl::Term& term);

// The expression with atoms replaced: `by` gives the expression of an atom that is not an operation, or none.
Expr replaced(const Expr& expr, const std::function<std::optional<Expr>(const dsl::Atom&)>& by);

}  // namespace kiln::planner
