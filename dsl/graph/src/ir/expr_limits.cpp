#include "ir/expr_limits.h"

#include <algorithm>

#include "kiln/dsl/text_format.h"
#include "kiln/graph/extents.h"

namespace kiln::graph {
namespace {

// Of an expression that is small as a tree.
const char* atoms_problem(const Expr& expr, size_t dims) {
  if (weight(expr) > kMaxExprWeight) return "has a factor above 2^53";
  for (const dsl::Term& term : expr.terms()) {
    for (const dsl::Atom& atom : term.atoms) {
      if (atom.kind == dsl::AtomKind::kConstexpr) {
        if (atom.index >= dims) return "mentions a dim that the graph has not";
        continue;
      }
      if (atom.kind == dsl::AtomKind::kParam || !atom.args) return "mentions what is no dim";
      for (const Expr* side : {&atom.args->first, &atom.args->second}) {
        if (const char* problem = atoms_problem(*side, dims)) return problem;
      }
    }
  }
  return nullptr;
}

}  // namespace

int64_t weight(const Expr& expr) {
  __int128 sum = 0;
  for (const dsl::Term& term : expr.terms()) {
    const __int128 coefficient = term.coefficient;
    sum += coefficient < 0 ? -coefficient : coefficient;
  }
  return static_cast<int64_t>(std::min<__int128>(sum, kMaxWeight));
}

const char* expr_problem(const Expr& expr, size_t dims) {
  if (expr.as_constant()) return weight(expr) > kMaxExprWeight ? "is above 2^53" : nullptr;
  if (tree_size(expr, kMaxExprNodes) == kMaxExprNodes) return "is too large";
  return atoms_problem(expr, dims);
}

const char* shape_problem(const std::vector<Expr>& shape) {
  if (shape.size() > kMaxRank) return "has more than 16 axes";
  __int128 product = 1;
  uint64_t terms = 1;
  for (const Expr& extent : shape) {
    product *= std::max<int64_t>(1, weight(extent));
    if (product > kMaxWeight) return "has more than 2^62 elements";
    terms *= std::max<size_t>(1, extent.terms().size());
    if (terms > kMaxShapeTerms) return "has extents of too many terms";
  }
  return nullptr;
}

const char* type_problem(const TensorType& type, std::span<const DimInfo> dims) {
  if (static_cast<int>(type.element) >= dsl::kElementTypeCount) return "has no element type";
  for (const Expr& extent : type.shape) {
    if (expr_problem(extent, dims.size())) return "has an extent that is too large, or of what is no dim";
  }
  if (const char* problem = shape_problem(type.shape)) return problem;
  for (const Expr& extent : type.shape) {
    const Interval range = interval(dims, extent);
    if (range.low < 0) return "has an extent that may be negative; give the dims bounds";
    if (extent.as_constant() && range.high > DimInfo::kMost) return "has an extent above 2^40";
  }
  return nullptr;
}

const char* dim_problem(const DimInfo& dim) {
  if (dim.name.empty()) return "has no name";
  // Expressions mention it bare; another name would print as a third.
  if (!dsl::is_name(dim.name)) return "needs a name of letters, digits, _ and ., beginning with no digit or point";
  if (dim.low < 0 || dim.high < dim.low || dim.high > DimInfo::kMost) return "needs 0 <= low <= high <= 2^40";
  if (dim.multiple < 1 || dim.multiple > DimInfo::kMost) return "needs a multiple of 1 to 2^40";
  const int64_t first = (dim.low + dim.multiple - 1) / dim.multiple * dim.multiple;
  return first > dim.high ? "has no multiple between its bounds" : nullptr;
}

}  // namespace kiln::graph
