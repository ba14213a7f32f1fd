// Primitives as simpler ones, for who has a kernel of the simpler ones only.
#pragma once

#include <functional>

#include "kiln/graph/ir.h"

namespace kiln::graph {

// Windows, convolutions, resampling and their transposes become looks at places that are computed, products and
// reductions; products become multiplications and sums; calls become what they call, conditions both of their branches
// and a choice, and loops of at most kLongestSpelled passes these passes. Only nodes that `wants` says, and inside
// bodies too; what nothing needs any more is left out. Convolutions become products, which a second call spells out.
//
// Sums have another order, and so does what they round; a sum of windows that sees zeros alone may lose their sign. A
// convolution multiplies the zeros beyond its edges, which is NaN for a weight that is infinite or NaN, where
// evaluate() leaves these places out. Error: of a graph that does not verify.
Result<Graph> spell_out(const Graph& graph, const std::function<bool(const Graph&, const Body&, const Node&)>& wants);

inline constexpr int64_t kLongestSpelled = 64;
// Whether an op can be spelled out.
bool can_spell_out(TensorOp op);

}  // namespace kiln::graph
