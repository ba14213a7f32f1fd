// Where places of a sorted result lie in the sorted runs that it is made of.
#pragma once

#include "launches/split.h"

namespace kiln::codegen {

// Runs of sorted keys, one behind the other in memory.
struct SortedRuns {
  Chunks chunks;
  dsl::ValueId keys;  // pointer to the first
  bool descending;
};

// i32, by run: the number of its first key.
dsl::ValueId run_starts(dsl::OpBuilder& build, const SortedRuns& runs);

// i32, by place and run: how many of the run's elements are among the first `places[i]` (i32, 0…extent, of one axis) of
// the result. Appends ops.
dsl::ValueId elements_before(dsl::Kernel& kernel, std::vector<dsl::Op>& out, const dsl::Location& loc,
                             const SortedRuns& runs, dsl::ValueId places);

}  // namespace kiln::codegen
