// What an expression of a graph may be: arithmetic on such, and on products of a shape's extents, is quick and never
// wraps. Exprs from text or bytes may be anything.
#pragma once

#include "kiln/graph/ir.h"

namespace kiln::graph {

inline constexpr int64_t kMaxWeight = int64_t{1} << 62;      // of a product
inline constexpr int64_t kMaxExprWeight = int64_t{1} << 53;  // of what is written
inline constexpr size_t kMaxExprNodes = 1024;                // as a tree
inline constexpr uint64_t kMaxShapeTerms = 512;              // of the product of a shape's extents

// The sum of the coefficients' magnitudes, at most kMaxWeight: that of a product is at most the product of both.
int64_t weight(const Expr& expr);
inline bool multiplies(int64_t a, int64_t b) { return static_cast<__int128>(a) * b <= kMaxWeight; }

// "is too large" and such; null where an expression may stand in a graph of so many dims.
const char* expr_problem(const Expr& expr, size_t dims);
// The same of a shape whose extents may stand there: its rank, and the product of its extents.
const char* shape_problem(const std::vector<Expr>& shape);
// Of a type as a whole, the bounds of its extents among them.
const char* type_problem(const TensorType& type, std::span<const DimInfo> dims);
// Of a dim by itself.
const char* dim_problem(const DimInfo& dim);

}  // namespace kiln::graph
