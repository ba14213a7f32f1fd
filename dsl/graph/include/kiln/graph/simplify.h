// Rewrites of scalar expressions and views to a fixed point; the rules are a table.
#pragma once

#include <span>
#include <string_view>

#include "kiln/graph/ir.h"

namespace kiln::graph {

// ieee: results keep NaN, infinities, signed zeros and every rounding. real: numbers are real ones: no NaN or infinity,
// sums and products reorder.
enum class Algebra : uint8_t { kIeee, kReal };

struct SimplifyRule {
  std::string_view name;
  std::string_view before;  // "x - x"
  std::string_view after;   // "0"
  Algebra algebra;          // kIeee: valid under both
  std::string_view note;    // of what types, or why
};
std::span<const SimplifyRule> simplify_rules();

struct SimplifyOptions {
  Algebra algebra = Algebra::kIeee;
};
// Constants, identities, common terms, dead nodes, views of views. Bounded: every rule makes the graph smaller by its
// measure. Explicit casts that round stay.
Graph simplify(const Graph& graph, const SimplifyOptions& options = {});

}  // namespace kiln::graph
