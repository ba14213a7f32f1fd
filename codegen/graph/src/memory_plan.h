// Where the values between launches lie: one arena, in which memory is used again when the last reader has run.
#pragma once

#include <span>
#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::planner {

// A value that is written by one launch and last read by another; by number, in order.
struct Lifetime {
  dsl::Expr bytes;
  uint32_t first = 0, last = 0;
};

struct ArenaPlan {
  std::vector<dsl::Expr> offsets;  // by lifetime; multiples of graph::kArenaAlignment
  dsl::Expr bytes;
};

// Where all sizes are numbers, the largest first, each at the lowest place that is free while it lives. Else each takes
// the slot of one that is gone, of the same size if there is one.
ArenaPlan plan_arena(std::span<const graph::DimInfo> dims, std::span<const Lifetime> lifetimes);

}  // namespace kiln::planner
