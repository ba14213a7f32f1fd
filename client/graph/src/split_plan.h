// A plan cut in two where inputs are bound: launches of them alone, and all others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kiln/dsl/expr.h"
#include "kiln/graph/plan.h"

namespace kiln::client {

// Both halves have the plan's dims. Constants are counted as one list, which stands beside them and not in the plans:
// those of the whole plan, then the bound inputs as they are named, then what `once` keeps.
struct SplitPlan {
  // Of launches whose data come from bound inputs and constants, and whose sizes are known: it has no inputs. Its
  // outputs, of bytes, are the buffers that launches of `rest` read.
  graph::Plan once;
  graph::Plan rest;  // takes the other inputs, and gives all outputs
  // The kernels of each half, by their numbers in the whole plan.
  std::vector<uint32_t> once_kernels, rest_kernels;
};

// `bound`: inputs, by number. `sizes`: of the dims that they say, by dim; `constants`: how many the plan has. A launch
// within a loop stays with the whole loop. Nothing that writes to an output is in `once`.
SplitPlan split_plan(const graph::Plan& plan, std::span<const uint32_t> bound, const dsl::Bindings& sizes,
                     size_t constants);

}  // namespace kiln::client
