// Finds composites in graphs that were imported exploded: sigmoid, silu, gelu (both), mean, variance, logsumexp,
// softmax, log_softmax, layer, rms, group and batch norm, linear, cross entropy, and attention with scale, masks,
// grouped heads.
#pragma once

#include <map>
#include <string>

#include "kiln/graph/ir.h"

namespace kiln::graph {

struct Recognised {
  Graph graph;
  std::map<TensorOp, int> found;
};
// Replaces what computes the same as a composite, by shape of the expression and its constants (eps, scale, axes), by
// it, in all bodies. What other nodes use too stays computed; what nothing uses is left out. `found` counts the
// composites that the graph did not have. Error: of a graph that does not verify.
//
// The same: for real numbers, and in what overflows, cancels or is NaN. So e^x/Σe^x without a max is no softmax. What
// differs: roundings (1/sqrt for rsqrt, a factor for a divisor; small floats round once, at the composite's end), and
// rows of attention that masks leave nothing: 0 where softmax alone gives NaN; where numbers hide instead, of two
// masks, another mean of what is hidden; e^x of the least number of a type, or -1e30, less a score, which counts as 0
// as it is in floats.
Result<Recognised> recognise(const Graph& graph);

}  // namespace kiln::graph
