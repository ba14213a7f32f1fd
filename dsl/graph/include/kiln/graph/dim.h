// Dim: an extent known when a graph runs, and integer expressions over such.
//
//   Dim n = dim("n", 1, 4096);      // its range, and below what it divides by
//   input("x", f32, {n, 2 * n + 1})
//
// A Dim carries the named dims that it mentions; a graph that uses it declares them. Values; thread-safe as ints are.
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

class Dim {
 public:
  Dim() = default;                                                       // 0
  Dim(std::integral auto value) : expr_(static_cast<int64_t>(value)) {}  // NOLINT(google-explicit-constructor)
  // Over symbols: constexpr atom i of the expression is symbols[i].
  Dim(Expr expr, std::vector<DimInfo> symbols) : expr_(std::move(expr)), symbols_(std::move(symbols)) {}

  const Expr& expr() const { return expr_; }
  const std::vector<DimInfo>& symbols() const { return symbols_; }

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim operator/(const Dim& a, const Dim& b);  // truncates; x/0 = 0
  friend Dim operator%(const Dim& a, const Dim& b);  // the dividend's sign; x%0 = x

 private:
  Expr expr_;
  std::vector<DimInfo> symbols_;
};

using Shape = std::vector<Dim>;

// A named extent of low … high that is divisible by `multiple`. One name is one dim in a graph: with other bounds it is
// an error there.
Dim dim(std::string name, int64_t low = 1, int64_t high = DimInfo::kMost, int64_t multiple = 1);
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);
Dim cdiv(const Dim& a, const Dim& b);  // rounded up, of a ≥ 0 and b ≥ 1

}  // namespace kiln::graph
