// Integer expressions over named dims. Two expressions have numbers of their own for their dims; what combines them
// has the dims of the left one, then those of the right one that it lacks.
#include "kiln/graph/dim.h"

#include <algorithm>

#include "ir/renumber.h"

namespace kiln::graph {
namespace {

struct Pair {
  Expr a, b;
  std::vector<DimInfo> symbols;
};

Pair together(const Dim& a, const Dim& b) {
  if (b.symbols().empty() || a.symbols() == b.symbols()) return {a.expr(), b.expr(), a.symbols()};
  if (a.symbols().empty()) return {a.expr(), b.expr(), b.symbols()};
  std::vector<DimInfo> symbols = a.symbols();
  std::vector<uint32_t> numbers;
  for (const DimInfo& symbol : b.symbols()) {
    const auto place = std::find(symbols.begin(), symbols.end(), symbol) - symbols.begin();
    if (place == static_cast<ptrdiff_t>(symbols.size())) symbols.push_back(symbol);
    numbers.push_back(static_cast<uint32_t>(place));
  }
  return {a.expr(), renumber(b.expr(), numbers), std::move(symbols)};
}

Dim apply(dsl::AtomKind kind, const Dim& a, const Dim& b) {
  Pair pair = together(a, b);
  return {Expr::apply(kind, std::move(pair.a), std::move(pair.b)), std::move(pair.symbols)};
}

}  // namespace

Dim dim(std::string name, int64_t low, int64_t high, int64_t multiple) {
  return {Expr::constexpr_ref(0), {{std::move(name), low, high, multiple}}};
}

Dim operator+(const Dim& a, const Dim& b) {
  Pair pair = together(a, b);
  return {pair.a + pair.b, std::move(pair.symbols)};
}

Dim operator-(const Dim& a, const Dim& b) {
  Pair pair = together(a, b);
  return {pair.a - pair.b, std::move(pair.symbols)};
}

Dim operator*(const Dim& a, const Dim& b) {
  Pair pair = together(a, b);
  return {pair.a * pair.b, std::move(pair.symbols)};
}

Dim operator/(const Dim& a, const Dim& b) { return apply(dsl::AtomKind::kDiv, a, b); }
Dim operator%(const Dim& a, const Dim& b) { return apply(dsl::AtomKind::kRem, a, b); }
Dim min(const Dim& a, const Dim& b) { return apply(dsl::AtomKind::kMin, a, b); }
Dim max(const Dim& a, const Dim& b) { return apply(dsl::AtomKind::kMax, a, b); }
Dim cdiv(const Dim& a, const Dim& b) { return (a + b - 1) / b; }

}  // namespace kiln::graph
