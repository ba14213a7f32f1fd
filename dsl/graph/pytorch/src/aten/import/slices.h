// Bounds of slices: they count from the end where they are negative, and are clamped to the axis.
#pragma once

#include "aten/import/arguments.h"

namespace kiln::graph::aten {

// 0 … extent - 1, of one that counts from the end where it is known to be negative.
Dim counted_from_end(const Dim& place, const Dim& extent);

struct SliceBounds {
  Dim start, end;  // 0 ≤ start ≤ end ≤ extent
  int64_t step = 1;
};
// By the arguments start, end and step.
SliceBounds slice_bounds(Arguments& arguments, const Dim& extent);

}  // namespace kiln::graph::aten
