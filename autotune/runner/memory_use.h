// Which arrays a kernel reads and which it writes, by its ops.
#pragma once

#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::autotune {

struct ParamUse {
  bool read = false;     // by a load, or by an atomic
  bool written = false;  // by a store, or by an atomic
};
// One a parameter. Where it is not clear which array an address belongs to, it may be each that it is made from.
std::vector<ParamUse> memory_use(const dsl::Kernel& kernel);

// The coarsest float type that values are rounded to inside the kernel, beside those of its arrays: results in another
// order of accumulation may differ by so much. f64 where it never rounds.
dsl::ElementType roughest_rounding(const dsl::Kernel& kernel);

}  // namespace kiln::autotune
