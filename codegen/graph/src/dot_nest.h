// A product as a nest: which of its axes are the tile's, which a loop goes over, and which programs have.
#pragma once

#include "kernel_writer.h"

namespace kiln::planner {

// A row-major axis of all places of several.
struct FlatAxis {
  size_t axis = kNoAxis;  // of the nest; kNoAxis: there is one place
  Expr extent = Expr(1);
  Coords coords;
};

// result[m, n] = Σ over loops and k of a[m, k]·b[k, n], for each place of `programs`: a batch's axes, and free ones of
// an operand that does not lie in memory as a tile with them.
struct DotNest {
  Nest nest;
  std::vector<FlatAxis> programs;
  std::vector<FlatAxis> loops;
  FlatAxis m, n, k;
  StepId a = 0, b = 0;
  std::vector<Stored> stores;
};
Result<DotNest> dot_nest(const GroupContext& context);
// No program has a free axis of its own.
Result<DotNest> whole_dot_nest(const GroupContext& context);
// With a loop over each contracted axis but the last.
Result<DotNest> unfolded_dot_nest(const GroupContext& context);

// Pads that a product would have to mask element by element along what it contracts: they are better in memory.
std::vector<NodeId> masked_pads(const GroupContext& context);

// coefficient·axis of each operand's load, where all its loads are linear in the axis.
bool is_linear(const Nest& nest, StepId operand, const FlatAxis& axis);

}  // namespace kiln::planner
